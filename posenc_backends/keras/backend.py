"""The backend of Keras: that of the framework that Keras runs on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import keras

FRAMEWORKS = ("tensorflow", "jax", "torch")

if keras.backend.backend() not in FRAMEWORKS:
    raise ImportError(f"KERAS_BACKEND must be one of {', '.join(FRAMEWORKS)}, got {keras.backend.backend()!r}.")

_native = import_module(f"posenc_backends.{keras.backend.backend()}.backend")


class KerasBackend(type(_native.BACKEND)):  # type: ignore[misc] # which of the three is known when Keras is imported
    """Keras on TensorFlow, JAX or PyTorch."""

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> keras.layers.Dense:
        """Return a `Dense` layer that has its weights from the start; `parent` is the layer that it is a part of."""
        parent = options.pop("parent")
        dense = keras.layers.Dense(out, use_bias=bias, **options)
        with within(parent):
            dense.build((None, width))
        return dense

    def dropout(self, rate: float, /) -> keras.layers.Dropout:
        """Return a `Dropout` layer that casts nothing."""
        return keras.layers.Dropout(rate, autocast=False)

    def check_length(self, stop: Any, limit: Any, /) -> None:
        """Check nothing: Keras exports a program for a range of lengths of its own; rows past the tables are NaN."""

    def check_shared(self, layer: Any, /) -> None:
        """Accept any layer: Keras saves once what several blocks share."""


def within(parent: keras.layers.Layer | None) -> AbstractContextManager[Any]:
    """Return a context in which the paths of weights begin with the name of this layer."""
    return nullcontext() if parent is None else keras.name_scope(parent.name, caller=parent)


BACKEND = KerasBackend()
namespace = BACKEND.namespace
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
