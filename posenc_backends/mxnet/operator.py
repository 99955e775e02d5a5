"""The CPU kernel as an operator of graphs, for models that are run and not exported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mxnet as mx

from posenc_core.rotation import Pairing, rotate_checked

NAME = "posenc_rotate"
_is_in_graphs: ContextVar[bool] = ContextVar("_is_in_graphs", default=False)


@contextmanager
def kernel_in_graphs() -> Iterator[None]:
    """Let the graphs of models whose first call is in this context rotate by the kernel, as an operator.

    It takes 0.1 to 0.2 ms for each array in a thread of MXNet's own, so it is for long sequences. Gluon does not tell
    whether a graph will be exported, and a file with the operator can be loaded only where `posenc_backends.mxnet` was
    imported: MXNet raises an error elsewhere. Call `hybridize()` again, and the model once more outside of this
    context, before `export`.

    >>> import mxnet as mx
    >>> from posenc_backends.mxnet import RotaryEmbedding, operator
    >>> from posenc_core import Rotary
    >>> mx.npx.set_np()
    >>> model = mx.gluon.nn.HybridSequential()
    >>> model.add(RotaryEmbedding(Rotary(head_dim=2, layout="half")))
    >>> model.hybridize()
    >>> with operator.kernel_in_graphs():
    ...     rotated = model(mx.np.ones((1, 1, 2, 2)))
    >>> rotated.asnumpy().round(4)
    array([[[[ 1.    ,  1.    ],
             [-0.3012,  1.3818]]]], dtype=float32)
    """
    token = _is_in_graphs.set(True)
    try:
        yield
    finally:
        _is_in_graphs.reset(token)


def rotate_symbol(x: Any, cos: Any, sin: Any, pairing: Pairing) -> Any:
    """Return a symbol with a known number of axes rotated by tables that are constant."""
    if not _is_in_graphs.get():
        return rotate_checked(x, cos, sin, pairing)
    symbols = (array.symbol.as_nd_ndarray() for array in (x, cos, sin))
    return x.like(mx.sym.Custom(*symbols, op_type=NAME, pairing=" ".join(map(str, pairing))).as_np_ndarray())


@mx.operator.register(NAME)
class _Properties(mx.operator.CustomOpProp):
    """Of the operator `(x, cos, sin) -> rotated`; no gradient reaches the tables."""

    def __init__(self, pairing: str) -> None:
        super().__init__()
        split, join, placement, blocks = pairing.split()
        self.pairing = Pairing(split, join, placement, int(blocks))

    def list_arguments(self) -> list[str]:
        return ["x", "cos", "sin"]

    def infer_type(self, in_type: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        return in_type, in_type[:1], []

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        return [*out_grad, *in_data[1:]]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Rotate:
        return _Rotate(self.pairing)


class _Rotate(mx.operator.CustomOp):
    """Runs in threads of MXNet's own, where `mxnet.npx.set_np()` is not set."""

    def __init__(self, pairing: Pairing) -> None:
        super().__init__()
        self.pairing = pairing

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        _rotate_into(out_data[0], req[0], in_data, self.pairing)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        _, cos, sin = in_data
        _rotate_into(in_grad[0], req[0], (*out_grad, cos, -sin), self.pairing.inverse)


def _rotate_into(result: Any, req: str, arrays: Any, pairing: Pairing) -> None:
    with mx.util.np_shape(True), mx.util.np_array(True), mx.autograd.pause():
        out, x, cos, sin = (array.as_np_ndarray() for array in (result, *arrays))
        if req == "add":
            out += rotate_checked(x, cos, sin, pairing)
        elif req != "null":
            rotate_checked(x, cos, sin, pairing, out)
