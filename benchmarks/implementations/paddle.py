"""Paddle: our layer and function, eager and static; its fused operator, and PaddleNLP's rotate_reference, written anew."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy as copying
from functools import partial
from typing import Any

import numpy as np
import paddle

from posenc_backends.paddle import RotaryEmbedding
from posenc_core import Rotary, rotate

from . import Turn, each, elsewhere

DTYPES = ("float32", "bfloat16", "float16")


class _Formula(paddle.nn.Layer):
    """A formula of `x`, cos and sin, for both; `to_static` asks that a layer holds the tables."""

    def __init__(self, formula: Callable[..., Any], cos: Any, sin: Any) -> None:
        super().__init__()
        self.formula = formula
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, q: Any, k: Any) -> Any:
        return self._turned(q), self._turned(k)

    def _turned(self, x: Any) -> Any:  # in float32: Paddle has no products and sums of half precision on CPUs
        return self.rotate_reference(x.astype("float32"), self.cos, self.sin).astype(x.dtype)


class _Layer(paddle.nn.Layer):
    """Our layer from a start: `to_static` reads methods, not lambdas."""

    def __init__(self, layer: Any, start: int) -> None:
        super().__init__()
        self.layer = layer
        self.start = start

    def forward(self, q: Any, k: Any) -> Any:
        return self.layer(q, k, start=self.start)


def _compiled(layer: paddle.nn.Layer) -> Callable[..., Any]:
    return paddle.jit.to_static(copying(layer), full_graph=True)


COMPILERS = {"compiled": _compiled}


def array(numbers: Any, dtype: str) -> Any:
    return paddle.to_tensor(numbers).astype(dtype)


def shown(x: Any) -> Any:
    return x.detach().astype("float32").numpy()


def copy(x: Any) -> Any:
    return x.clone()


def ready(result: Any) -> Any:
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Forward and backward: the gradients with respect to both."""
    leaves = [q.detach(), k.detach()]
    for leaf in leaves:
        leaf.stop_gradient = False
    return lambda: paddle.grad([*function(*leaves)], leaves, [to_q, to_k])


def turns(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Turn]:
    """Ours, and what Paddle's users write."""
    layer = _Layer(RotaryEmbedding(rotary, max_len=start + length), start)
    cos, sin = (paddle.to_tensor(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    found = {
        "posenc": Turn(layer, compilers=("compiled",)),
        "posenc.rotate": Turn(each(ours)),
        **elsewhere(ours, copy),
    }
    if rotary.layout == "half":
        wide = [paddle.concat([one, one], -1).unsqueeze(1) for one in (cos, sin)]
        found["PaddleNLP's formula"] = Turn(_Formula(_by_halves, *wide), -3, ("compiled",))
    else:
        narrow = [one.unsqueeze(1) for one in (cos, sin)]
        found["two products of slices"] = Turn(_Formula(_sliced, *narrow), -3, ("compiled",))
        wide = [one.repeat_interleave(2, -1)[None, :, None].astype(dtype) for one in (cos, sin)]
        fused = paddle.incubate.nn.functional.fused_rotary_position_embedding
        found["fused operator"] = Turn(lambda q, k: fused(q, k, None, wide[1], wide[0])[:2], -3)
    return found


def _by_halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cos + paddle.concat([-second, first], -1) * sin


def _sliced(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return paddle.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
