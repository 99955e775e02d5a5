"""MLX: our layer and function, eager and compiled; `mx.fast.rope`, which computes angles in each call; formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from posenc_backends.mlx import RotaryEmbedding
from posenc_core import Rotary, rotate

from . import Rotation, each, floor

DTYPES = ("float32", "bfloat16", "float16")
COMPILERS = {"compiled": mx.compile}
COMPILED = type(mx.compile(abs))


def array(numbers: Any, dtype: str) -> Any:
    return mx.array(numbers).astype(getattr(mx, dtype))


def to_numpy(x: Any) -> Any:
    return np.array(x.astype(mx.float32))


def copy(x: Any) -> Any:
    return mx.add(x, mx.zeros((), x.dtype))  # MLX has no copy that is always one


def ready(result: Any) -> Any:
    mx.eval(result)
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both, compiled if the function is.

    Outside compiled code, `mx.vjp` would run the Python code of a compiled function again in each call.
    """

    def both(q: Any, k: Any, to_q: Any, to_k: Any) -> Any:
        return mx.vjp(function, [q, k], [to_q, to_k])[1]

    call = mx.compile(both) if isinstance(function, COMPILED) else both
    return lambda: call(q, k, to_q, to_k)


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, MLX's operator, and the usual formula on our tables."""
    layer = RotaryEmbedding(rotary, max_len=start + length)
    cos, sin = (mx.array(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    is_traditional = rotary.layout == "interleaved"
    fused = partial(
        mx.fast.rope, dims=rotary.head_dim, traditional=is_traditional, base=rotary.base, scale=1.0, offset=start
    )
    formula = _neighbours if is_traditional else _halves
    narrow = [table.astype(getattr(mx, dtype)) for table in (cos, sin)]
    compilers = ("compiled",)
    return {
        "posenc": Rotation(lambda q, k: layer(q, k, start=start), compilers=compilers),
        "posenc.rotate": Rotation(each(lambda x: rotate(x, cos, sin, layout=rotary.layout)), compilers=compilers),
        "mx.fast.rope": Rotation(each(fused), compilers=compilers),
        "two products": Rotation(each(lambda x: formula(x, *narrow)), compilers=compilers),
        "by hand": Rotation(
            each(lambda x: formula(x.astype(mx.float32), cos, sin).astype(x.dtype)), compilers=compilers
        ),
        **floor(*compilers),
    }


def _halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = mx.split(x, 2, -1)
    return mx.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _neighbours(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return mx.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)
