"""MXNet arrays: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd

from posenc_core import register_namespace

from . import namespace

register_namespace(mx.np.ndarray, namespace)
register_namespace(mx.symbol.numpy._Symbol, namespace)


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> mx.np.ndarray:
    """An array of the same numbers, on the device of `like`."""
    return mx.np.array(array, dtype=array.dtype, ctx=None if like is None else like.ctx)


def adopted(array: npt.NDArray[Any], /) -> mx.np.ndarray:
    """An array in the memory of `array`, on CPU, which keeps it; nobody can write to `array` from now on.

    `mx.np.array` copies element by element.
    """
    return mx.nd.from_numpy(np.ascontiguousarray(array)).as_np_ndarray() if array.size else from_numpy(array)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of an array; whatever went wrong while they were computed is raised here."""
    return array.asnumpy()


def is_traced(array: Any, /) -> bool:
    """Whether the numbers are unknown, as they are of a symbol while a block is hybridized."""
    return isinstance(array, mx.sym.Symbol)


def stop_gradient(array: Any, /) -> mx.np.ndarray:
    """The same numbers, through which no gradient flows; the array itself where none is recorded."""
    return array.detach() if autograd.is_recording() else array
