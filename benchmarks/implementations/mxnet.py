"""MXNet: our layer and function, eager and hybridized; the usual operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd

from posenc_backends.mxnet import RotaryEmbedding
from posenc_core import Rotary, rotate

from . import Turn, each, elsewhere

mx.npx.set_np()

DTYPES = ("float32", "float16")
COMPILERS: dict[str, Any] = {}  # blocks are hybridized where they are made


def array(numbers: Any, dtype: str) -> Any:
    return mx.np.array(numbers, dtype=dtype)


def shown(x: Any) -> Any:
    return x.asnumpy()


def copy(x: Any) -> Any:
    return x.copy()


def ready(result: Any) -> Any:
    """Wait: MXNet works in the background."""
    for one in result:
        one.wait_to_read()
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Forward and backward: the gradients with respect to both."""
    leaves = q.copy(), k.copy()
    for leaf in leaves:
        leaf.attach_grad()

    def call() -> Any:
        with autograd.record():
            turned = function(*leaves)
        autograd.backward(list(turned), [to_q, to_k])
        return [leaf.grad for leaf in leaves]

    return call


def turns(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Turn]:
    """Ours, and the usual operators on tables of ours."""
    layer, hybrid = (RotaryEmbedding(rotary, max_len=start + length) for _ in range(2))
    for one in (layer, hybrid):
        one.initialize()
    hybrid.hybridize(static_alloc=True, static_shape=True)
    cos, sin = (mx.np.array(table) for table in rotary.cos_sin(np.arange(start, start + length)))
    narrow = cos.astype(dtype), sin.astype(dtype)
    usual = _by_halves if rotary.layout == "half" else _sliced
    wide = [mx.np.concatenate([one, one], -1) for one in narrow] if rotary.layout == "half" else narrow
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    return {
        "posenc": Turn(lambda q, k: layer(q, k, start)),
        "posenc, hybridized": Turn(lambda q, k: hybrid(q, k, start)),
        "posenc.rotate": Turn(each(ours)),
        **elsewhere(ours, copy),
        "usual operators": Turn(each(lambda x: usual(x, *wide))),
    }


def _by_halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = mx.np.split(x, 2, -1)
    return x * cos + mx.np.concatenate([-second, first], -1) * sin


def _sliced(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return mx.np.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)
