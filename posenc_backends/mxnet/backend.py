"""The backend of MXNet: how arrays are made, read and traced."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd
from mxnet.gluon import nn

from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace

register_namespace(mx.np.ndarray, namespace)


class MXNetBackend(Backend):
    """MXNet."""

    namespace = namespace
    array_types = mx.np.ndarray

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> mx.np.ndarray:
        """Return a copy on the device of `like`."""
        return mx.np.array(array, dtype=array.dtype, ctx=None if like is None else like.ctx)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of an array; errors of the operators that compute them are raised here."""
        return array.asnumpy()

    def is_traced(self, array: Any, /) -> bool:
        """Return whether it is a symbol, as while a block is hybridized."""
        return isinstance(array, mx.sym.Symbol)

    def stop_gradient(self, array: Any, /) -> mx.np.ndarray:
        """Return the array detached; itself if nothing is recorded."""
        return array.detach() if autograd.is_recording() else array

    def slices(self, tables: tuple[Any, ...], start: int, stop: int, /) -> tuple[Any, ...]:
        """Return the rows from `start` to `stop` of each table; an ellipsis would make it ten times slower."""
        return tuple([table[start:stop] for table in tables])

    def is_beside(self, table: Any, x: Any, /) -> bool:
        """Return whether a table lies on the device of `x`."""
        return bool(table.ctx == x.ctx)

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> Projection:
        """Return a `Dense` block with these options; `parent` is the block that it is a part of."""
        with options.pop("parent").name_scope():
            return Projection(out, use_bias=bias, flatten=False, in_units=width, **options)

    def dropout(self, rate: float, /) -> nn.Dropout:
        """Return `mxnet.gluon.nn.Dropout`."""
        return nn.Dropout(rate)


class Projection(nn.Dense):
    """A `Dense` that computes half precision in float32 and rounds once: without a GPU, MXNet's own does not run."""

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:  # noqa: N803
        if np.dtype(self.weight.dtype) != np.float16:
            return super().hybrid_forward(F, x, weight, bias)
        wide = (None if given is None else given.astype("float32") for given in (x, weight, bias))
        return super().hybrid_forward(F, *wide).astype("float16")


def adopted(array: npt.NDArray[Any], /) -> mx.np.ndarray:
    """Return an array on the CPU that shares the memory of `array`, which becomes read-only.

    `mx.np.array` would copy element by element.
    """
    return mx.nd.from_numpy(np.ascontiguousarray(array)).as_np_ndarray() if array.size else from_numpy(array)


BACKEND = MXNetBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
