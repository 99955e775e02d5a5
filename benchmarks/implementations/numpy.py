"""NumPy: our layer, our function, and the formulas that users write."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_backends.numpy import RotaryEmbedding
from posenc_core import Rotary, rotate

from . import Rotation, each, into_existing

DTYPES = ("float32", "float16")
COMPILERS: dict[str, Any] = {}
gradients = None


def array(numbers: Any, dtype: str) -> Any:
    return numbers.astype(dtype)


def to_numpy(x: Any) -> Any:
    return x


def copy(x: Any) -> Any:
    return x.copy()


def ready(result: Any) -> Any:
    return result


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and the usual formulas on our float32 tables."""
    layer = RotaryEmbedding(rotary, max_len=start + length)
    cos, sin = rotary.cos_sin(np.arange(start, start + length))
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    found = {
        "posenc": Rotation(lambda q, k: layer(q, k, start=start)),
        "posenc.rotate": Rotation(each(ours)),
        **into_existing(ours, copy),
        "two products of slices": Rotation(each(lambda x: _sliced(x, cos, sin, rotary.layout).astype(x.dtype))),
    }
    if rotary.layout == "half":
        wide = np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)
        found["rotate_half"] = Rotation(each(lambda x: _rotate_half(x, *wide).astype(x.dtype)))
    elif dtype == "float32":
        table = cos + 1j * sin
        found["complex product"] = Rotation(each(lambda x: (x.view(np.complex64) * table).view(np.float32)))
    return found


def _sliced(x: Any, cos: Any, sin: Any, layout: str) -> Any:
    if layout == "half":
        first, second = np.split(x, 2, -1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    first, second = x[..., ::2], x[..., 1::2]
    return np.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def _rotate_half(x: Any, cos: Any, sin: Any) -> Any:
    first, second = np.split(x, 2, -1)
    return x * cos + np.concatenate([-second, first], -1) * sin
