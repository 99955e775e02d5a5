"""Keras on the backend of `KERAS_BACKEND`: our layer and keras-hub's, eager and with the compilers of the backend."""

from __future__ import annotations

from typing import Any

import keras

from posenc_backends.keras import RotaryEmbedding
from posenc_core import Rotary

from . import Turn, each
from .imports import installed, lone

BACKEND = keras.backend.backend()
if BACKEND == "tensorflow":
    from .tensorflow import COMPILERS, array, copy, gradients, ready, shown
elif BACKEND == "jax":
    from .jax import COMPILERS, array, copy, gradients, ready, shown
else:
    from .torch import COMPILERS, array, copy, gradients, ready, shown

__all__ = ["COMPILERS", "DTYPES", "array", "copy", "gradients", "ready", "shown", "turns"]

DTYPES = ("float32", "bfloat16", "float16")
NAMES = tuple(name for name in COMPILERS if "donated" not in name)


def turns(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Turn]:
    """Ours, and keras-hub's, which has one layout."""
    layer = RotaryEmbedding(rotary, max_len=start + length, dtype=dtype)
    found = {"posenc": Turn(lambda q, k: layer(q, k, start=start), compilers=NAMES)}
    if rotary.layout == "half" and installed("keras_hub"):
        rope = lone("keras_hub.src.layers.modeling.rotary_embedding").RotaryEmbedding(dtype=dtype)
        found["keras-hub"] = Turn(each(lambda x: rope(x, start_index=start)), -3, NAMES)
    elif rotary.layout == "interleaved":
        found["two products of slices"] = _sliced(rotary, start, length, dtype)
    return found


def _sliced(rotary: Rotary, start: int, length: int, dtype: str) -> Turn:
    """The formula that users write, of Keras's own operations."""
    tables = rotary.cos_sin(range(start, start + length))
    cos, sin = (keras.ops.cast(keras.ops.convert_to_tensor(table), dtype) for table in tables)

    def turned(x: Any) -> Any:
        first, second = x[..., ::2], x[..., 1::2]
        pairs = keras.ops.stack([first * cos - second * sin, second * cos + first * sin], -1)
        return keras.ops.reshape(pairs, x.shape)

    return Turn(each(turned), compilers=NAMES)
