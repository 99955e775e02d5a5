"""Keras tensors: those of the framework that Keras runs on."""

from __future__ import annotations

from importlib import import_module

import keras

BACKENDS = ("tensorflow", "jax", "torch")

if keras.backend.backend() not in BACKENDS:
    raise ImportError(f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}, got {keras.backend.backend()!r}.")

_room = import_module(f"posenc_backends.{keras.backend.backend()}")

namespace = _room.namespace
from_numpy = _room.from_numpy
to_numpy = _room.to_numpy
is_traced = _room.is_traced
stop_gradient = import_module(f"{_room.__name__}.backend").stop_gradient
uncompiled = getattr(_room.backend, "uncompiled", lambda function: function)  # only PyTorch traces what it runs
still = getattr(_room.backend, "still", lambda tensor: tensor)  # only TensorFlow asks for gradients of constants
