"""MXNet: our layer and function, eager, hybridized, and in a hybridized model; the usual operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from posenc_backends.mxnet import RotaryEmbedding, operator
from posenc_core import Rotary, rotate

from . import Rotation, each, into_existing

mx.npx.set_np()

DTYPES = ("float32", "float16")
FORWARD_SHAPES = ("prefill",)  # a pass back through one takes seconds


class _Model(gluon.HybridBlock):
    """A hybridized model of a function of `mxnet.symbol`, queries, keys and tables."""

    def __init__(self, function: Callable[..., Any], dtype: str, *tables: Any, layer: Any = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer
        with self.name_scope():
            for name, table in zip(("cos", "sin"), tables, strict=False):
                setattr(self, name, self.params.get_constant(name, table))
        self.initialize()
        self.cast(dtype)
        self.hybridize(static_alloc=True, static_shape=True)

    def hybrid_forward(self, F: Any, q: Any, k: Any, **tables: Any) -> Any:  # noqa: N803
        return self.function(F, q, k, **tables)


COMPILERS: dict[str, Any] = {}  # blocks are hybridized when they are created


def array(numbers: Any, dtype: str) -> Any:
    return mx.np.array(numbers, dtype=dtype)


def to_numpy(x: Any) -> Any:
    return x.asnumpy()


def copy(x: Any) -> Any:
    return x.copy()


def ready(result: Any) -> Any:
    """Wait for the arrays: MXNet works in the background."""
    for one in result:
        one.wait_to_read()
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both."""
    leaves = q.copy(), k.copy()
    for leaf in leaves:
        leaf.attach_grad()

    def call() -> Any:
        with autograd.record():
            rotated = function(*leaves)
        autograd.backward(list(rotated), [to_q, to_k])
        return [leaf.grad for leaf in leaves]

    return call


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and the usual operators on our tables."""
    layer, hybrid = (RotaryEmbedding(rotary, max_len=start + length) for _ in range(2))
    for one in (layer, hybrid):
        one.initialize()
    hybrid.hybridize(static_alloc=True, static_shape=True)
    cos, sin = (mx.np.array(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    narrow = cos.astype(dtype), sin.astype(dtype)
    usual = _rotate_half if rotary.layout == "half" else _sliced
    wide = [mx.np.concatenate([one, one], -1) for one in narrow] if rotary.layout == "half" else narrow
    model, other = (_model(rotary, start, length, dtype) for _ in range(2))
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    return {
        "posenc": Rotation(lambda q, k: layer(q, k, start)),
        "posenc, hybridized": Rotation(lambda q, k: hybrid(q, k, start)),
        "posenc, in a model": Rotation(model),
        "posenc, in a model, operator": Rotation(_with_operator(other)),
        "posenc.rotate": Rotation(each(ours)),
        **into_existing(ours, copy),
        "usual operators": Rotation(lambda q, k: _both(usual, mx, q, k, *wide)),
        "usual operators, hybridized": Rotation(_Model(partial(_both, usual), dtype, *wide)),
        "identity, hybridized": Rotation(_Model(lambda _, q, k: (q + 0, k + 0), dtype), within=math.inf),
    }


def _model(rotary: Rotary, start: int, length: int, dtype: str) -> _Model:
    layer = RotaryEmbedding(rotary, max_len=start + length)
    return _Model(lambda _, q, k: layer(q, k, start), dtype, layer=layer)


def _with_operator(model: _Model) -> Callable[..., Any]:
    def call(q: Any, k: Any) -> Any:
        with operator.kernel_in_graphs():
            return model(q, k)

    return call


def _both(function: Callable[..., Any], F: Any, q: Any, k: Any, cos: Any, sin: Any) -> Any:  # noqa: N803
    return function(F, q, cos, sin), function(F, k, cos, sin)


def _rotate_half(F: Any, x: Any, cos: Any, sin: Any) -> Any:  # noqa: N803
    first, second = F.np.split(x, 2, -1)
    return x * cos + F.np.concatenate([-second, first], -1) * sin


def _sliced(F: Any, x: Any, cos: Any, sin: Any) -> Any:  # noqa: N803
    first, second = x[:, :, :, ::2], x[:, :, :, 1::2]
    pairs = F.np.stack([first * cos - second * sin, second * cos + first * sin], -1)
    return F.npx.reshape(pairs, (-2, -2, -2, -5))
