"""Keras on the backend of `KERAS_BACKEND`: our layer and keras-hub's, eager and with the compilers of the backend."""

from __future__ import annotations

from typing import Any

import keras

from posenc_backends.keras import RotaryEmbedding
from posenc_core import Rotary

from . import Rotation, by_hand, each, floor
from .imports import import_without_init, installed

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":
    from .tensorflow import COMPILERS, array, copy, gradients, ready, to_numpy
elif BACKEND == "jax":
    from .jax import COMPILERS, array, copy, gradients, ready, to_numpy
else:
    from .torch import COMPILERS, array, copy, gradients, ready, to_numpy

__all__ = ["COMPILERS", "DTYPES", "array", "copy", "gradients", "ready", "rotations", "to_numpy"]

DTYPES = ("float32", "bfloat16", "float16")
FORWARD_SHAPES = ("prefill",)  # a pass back through one takes seconds
NAMES = tuple(name for name in COMPILERS if "donated" not in name)


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and keras-hub's, which has one layout."""
    layer = RotaryEmbedding(rotary, max_len=start + length, dtype=dtype)
    found = {"posenc": Rotation(lambda q, k: layer(q, k, start=start), compilers=NAMES), **floor(*NAMES)}
    tables = rotary.cos_sin(range(start, start + length))  # of NumPy: constants of a graph
    form = _halves if rotary.layout == "half" else _neighbours
    found |= by_hand({"pairs": form}, *tables, *NAMES)
    if rotary.layout == "half" and installed("keras_hub"):
        rope = import_without_init("keras_hub.src.layers.modeling.rotary_embedding").RotaryEmbedding(dtype=dtype)
        found["keras-hub"] = Rotation(each(lambda x: rope(x, start_index=start)), -3, NAMES)
    elif rotary.layout == "interleaved":
        found["two products of slices"] = _sliced(rotary, start, length, dtype)
    return found


def _halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = keras.ops.split(keras.ops.cast(x, "float32"), 2, axis=-1)
    joined = keras.ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return keras.ops.cast(joined, x.dtype)


def _neighbours(x: Any, cos: Any, sin: Any) -> Any:
    wide = keras.ops.cast(x, "float32")
    first, second = wide[..., ::2], wide[..., 1::2]
    joined = keras.ops.stack([first * cos - second * sin, second * cos + first * sin], -1)
    return keras.ops.cast(keras.ops.reshape(joined, x.shape), x.dtype)


def _sliced(rotary: Rotary, start: int, length: int, dtype: str) -> Rotation:
    """Return the formula that users write, of operations of Keras."""
    tables = rotary.cos_sin(range(start, start + length))
    cos, sin = (keras.ops.cast(keras.ops.convert_to_tensor(table), dtype) for table in tables)

    def rotate(x: Any) -> Any:
        first, second = x[..., ::2], x[..., 1::2]
        pairs = keras.ops.stack([first * cos - second * sin, second * cos + first * sin], -1)
        return keras.ops.reshape(pairs, x.shape)

    return Rotation(each(rotate), compilers=NAMES)
