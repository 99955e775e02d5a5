"""NumPy: our layer, our function, and the forms that people write."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_backends.numpy import RotaryEmbedding
from posenc_core import Rotary, rotate

from . import Turn, each, elsewhere

DTYPES = ("float32", "float16")
COMPILERS: dict[str, Any] = {}
gradients = None


def array(numbers: Any, dtype: str) -> Any:
    return numbers.astype(dtype)


def shown(x: Any) -> Any:
    return x


def copy(x: Any) -> Any:
    return x.copy()


def ready(result: Any) -> Any:
    return result


def turns(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Turn]:
    """Ours, and the usual formulas with float32 tables of ours."""
    layer = RotaryEmbedding(rotary, max_len=start + length)
    cos, sin = rotary.cos_sin(np.arange(start, start + length))
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    found = {
        "posenc": Turn(lambda q, k: layer(q, k, start=start)),
        "posenc.rotate": Turn(each(ours)),
        **elsewhere(ours, copy),
        "two products of slices": Turn(each(lambda x: _sliced(x, cos, sin, rotary.layout).astype(x.dtype))),
    }
    if rotary.layout == "half":
        wide = np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)
        found["rotate_half"] = Turn(each(lambda x: _by_halves(x, *wide).astype(x.dtype)))
    elif dtype == "float32":
        table = cos + 1j * sin
        found["complex product"] = Turn(each(lambda x: (x.view(np.complex64) * table).view(np.float32)))
    return found


def _sliced(x: Any, cos: Any, sin: Any, layout: str) -> Any:
    if layout == "half":
        first, second = np.split(x, 2, -1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    first, second = x[..., ::2], x[..., 1::2]
    return np.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def _by_halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = np.split(x, 2, -1)
    return x * cos + np.concatenate([-second, first], -1) * sin
