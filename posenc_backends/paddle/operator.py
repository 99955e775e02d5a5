"""The CPU kernel as an operator of the programs that `paddle.jit.to_static` compiles; saved ones have the formula."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

import paddle

from posenc_backends._kernels import DTYPES, level
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_checked

from .kernel import rotate_in_program

NAME = "posenc_rotate"
Value: TypeAlias = Any  # of a program
_dtypes = {getattr(paddle, name) for name in DTYPES}
_is_in_graphs: ContextVar[bool] = ContextVar("_is_in_graphs", default=False)


class _Internals(NamedTuple):
    """The classes and functions of Paddle that have no public name.

    Attributes:
        static_function: the class of functions that are compiled from their source.
        context: the class of what a static layer keeps for its gradient.
        calls: of the functions in which a program is traced because it was called.
        saves: of the function in which one is traced to be saved, or for the `concrete_program` of a function.
    """

    static_function: Any
    context: Any
    calls: frozenset[CodeType]
    saves: CodeType


@functools.cache
def _internals() -> _Internals:
    """Return them, and register the kernel for values of programs, when it is first asked for."""
    try:
        from paddle.jit.dy2static.program_translator import ASTStaticFunction, SymbolicStaticFunction
        from paddle.jit.dy2static.py_layer import StaticPyLayerContext

        calls = frozenset(kind._perform_call.__code__ for kind in (ASTStaticFunction, SymbolicStaticFunction))
        saves = ASTStaticFunction.concrete_program_specify_input_spec.__code__
        kind, register_hook, _ = paddle.pir.Value, paddle.jit.api._register_save_pre_hook, paddle.static.register_op
    except (AttributeError, ImportError) as error:
        raise ImportError(
            f"`kernel_in_graphs` must be left out with Paddle {paddle.__version__}, which lacks what it is made of in "
            f"Paddle 3.3: {error}; programs rotate by the formula then."
        ) from error
    register_kernel(kind, Kernel(lambda x: True, _rotate))
    register_hook(_save_formulas)
    return _Internals(ASTStaticFunction, StaticPyLayerContext, calls, saves)


@contextmanager
def kernel_in_graphs() -> Iterator[None]:
    """Let programs of `paddle.jit.to_static` that are traced in this context rotate by the kernel, as an operator.

    `paddle.jit.save` saves the formula all the same. After the first such program, Paddle 3.3 ends the process when a
    predictor of `paddle.inference` is made, since it cannot register an operator of Python there: make predictors in
    another process. Gradients of gradients within a program raise an error.

    Raises:
        ImportError: if this version of Paddle lacks what the operator is made of.

    >>> import paddle
    >>> from posenc_backends.paddle import RotaryEmbedding, operator
    >>> from posenc_core import Rotary
    >>> model = paddle.jit.to_static(RotaryEmbedding(Rotary(head_dim=2, layout="half")), full_graph=True)
    >>> with operator.kernel_in_graphs():
    ...     rotated = model(paddle.ones([1, 1, 2, 2]))
    >>> rotated.numpy().round(4)
    array([[[[ 1.    ,  1.    ],
             [-0.3012,  1.3818]]]], dtype=float32)
    """
    if level() != "off":
        _internals()
    token = _is_in_graphs.set(True)
    try:
        yield
    finally:
        _is_in_graphs.reset(token)


def _is_for_a_call() -> bool:
    """Return whether a program is traced because it was called: others may be saved, and run without this package."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code is not _internals().saves:
        if frame.f_code in _internals().calls:
            return True
        frame = frame.f_back
    return False


def _supports(x: Value) -> bool:
    if not _is_in_graphs.get():
        return False
    # CINN would have to split its program
    is_here = paddle.get_device() == "cpu" and not paddle.is_compiled_with_cinn()
    return is_here and x.dtype in _dtypes and not x.is_dist() and _is_for_a_call()


def _rotate(x: Value, cos: Value, sin: Value, pairing: Pairing, out: Any) -> Value | None:
    """Return `x` rotated by the operator; None if a gradient may reach the tables, or they are of another dtype."""
    if not _supports(x):
        return rotate_in_program(x, cos, sin, pairing, out)
    if out is not None or not all(getattr(table, "dtype", None) in _dtypes for table in (cos, sin)):
        return None
    if not (cos.stop_gradient and sin.stop_gradient):
        return None
    if x.stop_gradient or not paddle.is_grad_enabled():
        rotated = _operator(pairing)(x, cos, sin)
        rotated.stop_gradient = True
        return rotated
    context = _internals().context()
    forward, backward = (functools.partial(each, context, pairing) for each in (_forward, _backward))
    return paddle.static.nn.static_pylayer(forward, [x, cos, sin], backward)


def _forward(context: Any, pairing: Pairing, x: Value, cos: Value, sin: Value) -> Value:
    context.save_for_backward(cos, sin)
    return _operator(pairing)(x, cos, sin)


def _backward(context: Any, pairing: Pairing, gradient: Value) -> tuple[Value, None, None]:
    cos, sin = context.saved_tensor()
    return _operator(pairing.inverse)(gradient, cos, -sin), None, None


@functools.cache
def _operator(pairing: Pairing) -> Callable[..., Any]:
    """Return the operator `(x, cos, sin) -> rotated` of a pairing, which is in its name: Paddle finds it by that."""

    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        with paddle.amp.auto_cast(enable=False):
            return rotate_checked(x, cos, sin, pairing)

    return paddle.static.register_op(
        rotate,
        name="_".join(map(str, (NAME, *pairing))),
        infer_meta=_infer_meta,
        input_names=["x", "cos", "sin"],
        output_names=["rotated"],
    )


def _infer_meta(x: Any, cos: Any, sin: Any) -> Any:
    return paddle.static.MetaTensor(dtype=x.dtype, shape=x.shape)


def _save_formulas(layer: Any, input_spec: Any, configs: Any) -> None:
    """Trace programs with the operator once more before `paddle.jit.save` takes them; calls run those traced before."""
    layer = layer._layers if isinstance(layer, paddle.DataParallel) else layer
    for function in [layer, *_methods(layer)]:
        if isinstance(function, _internals().static_function):
            cache = function._program_cache
            key, recent = cache._recent_cache_key, cache._recent_key
            kept = OrderedDict((each, made) for each, made in cache._caches.items() if not _has_operator(made[0]))
            if recent in cache._caches and recent not in kept:
                kept[recent] = (cache.get_program_without_cache(key)[0], cache._caches[recent][1])
            cache._caches = kept


def _methods(layer: Any) -> Iterator[Any]:
    """Yield the compiled methods of a layer; its properties are not read."""
    for name in dir(layer) if isinstance(layer, paddle.nn.Layer) else ():
        if isinstance(inspect.getattr_static(layer, name, None), _internals().static_function):
            yield getattr(layer, name)


def _has_operator(program: Any) -> bool:
    """Return whether the operator is in a concrete program."""
    return any(operation.name().startswith(f"py_op.{NAME}") for operation in _operations(program.main_program))


def _operations(block: Any) -> Iterator[Any]:
    """Yield the operations of a block, and of those within them."""
    for operation in (block.global_block() if hasattr(block, "global_block") else block).ops:
        yield operation
        for inner in operation.blocks():
            yield from _operations(inner)
