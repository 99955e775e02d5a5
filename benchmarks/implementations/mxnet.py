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

from . import Rotation, each, into_existing

mx.npx.set_np()

DTYPES = ("float32", "float16")
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
    ours = partial(rotate, cos=cos, sin=sin, layout=rotary.layout)
    return {
        "posenc": Rotation(lambda q, k: layer(q, k, start)),
        "posenc, hybridized": Rotation(lambda q, k: hybrid(q, k, start)),
        "posenc.rotate": Rotation(each(ours)),
        **into_existing(ours, copy),
        "usual operators": Rotation(each(lambda x: usual(x, *wide))),
    }


def _rotate_half(x: Any, cos: Any, sin: Any) -> Any:
    first, second = mx.np.split(x, 2, -1)
    return x * cos + mx.np.concatenate([-second, first], -1) * sin


def _sliced(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., ::2], x[..., 1::2]
    return mx.np.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)
