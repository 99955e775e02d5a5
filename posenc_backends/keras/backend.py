"""Keras tensors: those of the framework that Keras runs on."""

from __future__ import annotations

from importlib import import_module

import keras

from posenc_backends.conformance.errors import DIGITS

from .gaps import GAPS_IN

BACKENDS = ("tensorflow", "jax", "torch")

if keras.backend.backend() not in BACKENDS:
    raise ImportError(f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}, got {keras.backend.backend()!r}.")

_room = import_module(f"posenc_backends.{keras.backend.backend()}")

GAPS = GAPS_IN[""] | GAPS_IN[keras.backend.backend()] | {key: why for key, why in _room.GAPS.items() if key in DIGITS}
namespace = _room.namespace
from_numpy = _room.from_numpy
to_numpy = _room.to_numpy
is_traced = _room.is_traced
detached = import_module(f"{_room.__name__}.arrays").detached
uncompiled = getattr(_room.arrays, "uncompiled", lambda function: function)  # only PyTorch traces what it runs
still = getattr(_room.arrays, "still", lambda tensor: tensor)  # only TensorFlow asks for gradients of constants
