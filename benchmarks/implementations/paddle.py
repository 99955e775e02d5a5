"""Paddle: our layer and function, eager and static; its fused operator, and PaddleNLP's formula, written again."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy as copying
from functools import partial
from typing import Any

import numpy as np
import paddle

from posenc_backends.paddle import RotaryEmbedding, operator
from posenc_core import Rotary, rotate

from . import Rotation, each, into_existing

DTYPES = ("float32", "bfloat16", "float16")
FORWARD_SHAPES = ("prefill",)  # a pass back through one takes seconds


class _Formula(paddle.nn.Layer):
    """A formula of `x`, cos and sin, for queries and keys; `to_static` needs a layer with the tables."""

    def __init__(self, formula: Callable[..., Any], cos: Any, sin: Any) -> None:
        super().__init__()
        self.formula = formula
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, q: Any, k: Any) -> Any:
        return self._rotate(q), self._rotate(k)

    def _rotate(self, x: Any) -> Any:  # in float32: Paddle has no products and sums of half precision on CPUs
        return self.formula(x.astype("float32"), self.cos, self.sin).astype(x.dtype)


class _Function(paddle.nn.Layer):
    """Our function of the tables of these rows."""

    def __init__(self, layout: Any, cos: Any, sin: Any) -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, q: Any, k: Any) -> Any:
        return tuple([rotate(x, self.cos, self.sin, layout=self.layout) for x in (q, k)])


class _Layer(paddle.nn.Layer):
    """Our layer at a start: `to_static` takes methods, not lambdas."""

    def __init__(self, layer: Any, start: int) -> None:
        super().__init__()
        self.layer = layer
        self.start = start

    def forward(self, q: Any, k: Any) -> Any:
        return self.layer(q, k, start=self.start)


class _Identity(paddle.nn.Layer):
    """No rotation, only the cost of a program with an operation for each array."""

    def forward(self, q: Any, k: Any) -> Any:
        return q + 0, k + 0


def _as_complex_and_back(x: Any, *_: Any) -> Any:
    """Return the same numbers: the new memory of a product of complex numbers, without the product."""
    return paddle.as_real(paddle.as_complex(_in_pairs(x))).reshape(x.shape)


def _compiled(layer: paddle.nn.Layer) -> Callable[..., Any]:
    return paddle.jit.to_static(copying(layer), full_graph=True)


def _with_operator(layer: paddle.nn.Layer) -> Callable[..., Any]:
    compiled = _compiled(layer)

    def call(q: Any, k: Any) -> Any:
        with operator.kernel_in_graphs():
            return compiled(q, k)

    return call


COMPILERS = {"compiled": _compiled, "compiled with the operator": _with_operator}


def array(numbers: Any, dtype: str) -> Any:
    return paddle.to_tensor(numbers).astype(dtype)


def to_numpy(x: Any) -> Any:
    return x.detach().astype("float32").numpy()


def copy(x: Any) -> Any:
    return x.clone()


def ready(result: Any) -> Any:
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both."""
    leaves = [q.detach(), k.detach()]
    for leaf in leaves:
        leaf.stop_gradient = False
    return lambda: paddle.grad([*function(*leaves)], leaves, [to_q, to_k])


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and the formulas that users of Paddle write."""
    layer = _Layer(RotaryEmbedding(rotary, max_len=start + length), start)
    cos, sin = (paddle.to_tensor(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    found = {
        "posenc": Rotation(layer, compilers=tuple(COMPILERS)),
        "posenc.rotate": Rotation(each(ours)),
        "posenc.rotate of buffers": Rotation(_Function(rotary.layout, cos, sin), compilers=("compiled",), eager=False),
        **into_existing(ours, copy),
        "identity": Rotation(_Identity(), compilers=("compiled",), eager=False, within=math.inf),
    }
    forms = HALVES if rotary.layout == "half" else NEIGHBOURS
    for name, form in forms.items():
        found[f"by hand, {name}"] = Rotation(_Formula(form, cos, sin), compilers=("compiled",), eager=False)
    if rotary.layout == "half":
        wide = [paddle.concat([one, one], -1).unsqueeze(1) for one in (cos, sin)]
        found["PaddleNLP's formula"] = Rotation(_Formula(_rotate_half, *wide), -3, ("compiled",))
    else:
        copies = _Formula(_as_complex_and_back, cos, sin)
        found["identity, as complex and back"] = Rotation(copies, -2, ("compiled",), eager=False, within=math.inf)
        narrow = [one.unsqueeze(1) for one in (cos, sin)]
        found["two products of slices"] = Rotation(_Formula(_sliced, *narrow), -3, ("compiled",))
        wide = [one.repeat_interleave(2, -1)[None, :, None].astype(dtype) for one in (cos, sin)]
        fused = paddle.incubate.nn.functional.fused_rotary_position_embedding
        found["fused operator"] = Rotation(lambda q, k: fused(q, k, None, wide[1], wide[0])[:2], -3)
    return found


def _rotate_half(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cos + paddle.concat([-second, first], -1) * sin


def _sliced(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return paddle.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)


def _rolled(x: Any, cos: Any, sin: Any) -> Any:
    others = paddle.roll(x, x.shape[-1] // 2, -1)
    return x * paddle.concat([cos, cos], -1) + others * paddle.concat([-sin, sin], -1)


def _halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = paddle.split(x, 2, -1)
    return paddle.concat([first * cos - second * sin, second * cos + first * sin], -1)


def _neighbours(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return paddle.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def _as_complex(x: Any, cos: Any, sin: Any) -> Any:
    return paddle.as_real(paddle.as_complex(_in_pairs(x)) * paddle.complex(cos, sin)).reshape(x.shape)


def _in_pairs(x: Any) -> Any:
    return x.reshape([*x.shape[:-1], x.shape[-1] // 2, 2])


HALVES = {"rolled": _rolled, "halves": _halves}
NEIGHBOURS = {"pairs": _neighbours, "complex product": _as_complex}
