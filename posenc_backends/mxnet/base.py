"""The base class of the layers of the MXNet backend: a Gluon block that runs eagerly or in a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import Any, ClassVar

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import autograd, gluon
from mxnet.gluon import nn

from posenc_core._array_api.namespace import in_float32
from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Parameter, Tables
from posenc_core.layers import Backend
from posenc_core.layers.base import POSITION_LAYERS, PROJECTIONS

from .backend import BACKEND, adopted
from .state import EncodingTag
from .symbolic.array import SymbolArray, Table
from .symbolic.namespace import stopped
from .symbolic.views import View


class TableParameter(gluon.Parameter):
    """Numbers that stay as they were given; they are there from the start, and no cast or initializer reaches them.

    Not a `gluon.Constant`, whose numbers live as long as the process, in the registry of initializers.
    """

    _data: Any

    def __init__(self, name: str, numbers: npt.NDArray[Any]) -> None:
        super().__init__(name, shape=numbers.shape, dtype=numbers.dtype.name, differentiable=False)
        self.replace(numbers)

    def replace(self, numbers: npt.NDArray[Any]) -> None:
        """Hold these numbers in place of those before, on the same devices, all at once."""
        array, self._shape = adopted(numbers), numbers.shape
        # Gluon makes it at the next call of `var`, which returns None where another thread replaces the numbers then.
        self._var = mx.sym.var(self.name, shape=numbers.shape, dtype=self.dtype).as_np_ndarray()
        if self._data is None:
            self._init_impl(array, [mx.current_context()])
        else:
            self._data = [array.copyto(ctx) for ctx in self._ctx_list]

    def initialize(
        self, init: Any = None, ctx: Any = None, default_init: Any = None, force_reinit: Any = False
    ) -> None:
        self.reset_ctx(ctx)

    def cast(self, dtype: Any) -> None:
        pass

    def set_data(self, data: Any) -> None:
        """Keep the numbers; raise for others, as `ParameterDict.load` may bring those of another encoding."""
        if not np.array_equal(data.asnumpy(), self._data[0].asnumpy(), equal_nan=True):
            raise ValueError(f"`{self.name}` is a table, which follows from the encoding of its layer, got others.")

    def _reduce(self) -> mx.np.ndarray:
        return self._data[0].copyto(mx.cpu())  # Gluon's is the mean over the devices, which rounds


class LearnedParameter(gluon.Parameter):
    """A parameter of an encoding."""

    def __init__(self, name: str, encoding: Encoding, parameter: Parameter) -> None:
        super().__init__(name, shape=parameter.shape, init=Initial(parameter))
        self.encoding = encoding

    def _load_init(self, data: Any, *rest: Any, **options: Any) -> None:
        """Load an array of this shape; Gluon compares as many axes as both have."""
        if tuple(data.shape) != tuple(self.shape):
            raise ValueError(
                f"{self.name!r} of {self.encoding!r} must have shape {tuple(self.shape)}, got {tuple(data.shape)}, "
                "of another encoding; make the layer with the one that was saved."
            )
        super()._load_init(data, *rest, **options)


class Initial(mx.init.Initializer):
    """The initial numbers of a parameter."""

    def __init__(self, parameter: Parameter) -> None:
        super().__init__()
        self.parameter = parameter

    def _init_weight(self, name: str, array: mx.np.ndarray) -> None:
        array[:] = self.parameter.initial(mx.np.random.normal(0, 1, array.shape))


@functools.cache
def signature_of(method: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a method of the core, without the options of other frameworks' dropout."""
    parameters = inspect.signature(method).parameters.values()
    return inspect.Signature([parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD])


def in_order(method: Callable[..., Any], *given: Any, **named: Any) -> list[Any]:
    """Return all arguments of a method in their order, with defaults in place of those that are missing."""
    names, defaults, count = parameters_of(method)
    rest = names[len(given) :]
    if len(given) <= count and set(rest).issuperset(named) and all(name in named or name in defaults for name in rest):
        return [*given, *[named[name] if name in named else defaults[name] for name in rest]]
    unknown = {name: value for name, value in named.items() if name not in (*names, "self")}
    if unknown:
        given[0].refuse(unknown)
    bound = signature_of(method).bind(*given, **named)  # which raises what Python says of such a call
    bound.apply_defaults()
    return list(bound.arguments.values())


@functools.cache
def parameters_of(method: Callable[..., Any]) -> tuple[list[str], dict[str, Any], int]:
    """Return the names of all parameters, the defaults of those that have one, and how many may be positional."""
    parameters = signature_of(method).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return [p.name for p in parameters], defaults, sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def called(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the core as the `__call__` of a block; Gluon passes positional arguments alone."""

    @functools.wraps(method)
    def __call__(self: Block, *given: Any, **named: Any) -> Any:  # noqa: N807
        return Block.__call__(*in_order(method, self, *given, **named))

    return __call__


class Block(gluon.HybridBlock):
    """The base of every layer, attention included.

    It remembers the dtype that it was cast to, as symbols do not tell theirs.

    Args:
        parent: the block that it is a part of; the names of its parameters begin with that one's.
        prefix: what the names of its parameters begin with, by default its class and a number.
        weight_initializer, bias_initializer: of the projections of attention, as `gluon.nn.Dense` takes them.
    Raises:
        RuntimeError: unless `mxnet.npx.set_np()` was called.
    """

    backend: Backend = BACKEND
    dtype = "float32"
    dropout: nn.Dropout
    method: ClassVar[str]  # from the core's class
    inputs: ClassVar[tuple[str, ...]]  # the arguments that are inputs of the layer's own graph
    view: ClassVar[type[View]]
    graph_inputs: Callable[..., tuple[Any, ...]]  # (**arguments) -> the inputs of the graph, after all checks of a call

    def __init__(
        self,
        *,
        parent: gluon.Block | None = None,
        prefix: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
    ) -> None:
        if not (mx.util.is_np_array() and mx.util.is_np_shape()):
            raise RuntimeError("Call `mxnet.npx.set_np()` before making a layer: the layers are made for `mxnet.np`.")
        with nullcontext() if parent is None else parent.name_scope():
            super().__init__(prefix=prefix)
        self._lock = RLock()

    def __call__(self, x: Any, *rest: Any) -> Any:
        with _numpy_in_this_thread(), getattr(x, "ctx", None) or nullcontext():
            return super().__call__(x, *rest)

    def forward(self, *given: Any) -> Any:
        """Run one of three ways: as a part of a parent's graph, as the layer's own graph, or eagerly."""
        method = getattr(type(self), self.method)
        arguments = dict(zip(list(signature_of(method).parameters)[1:], given, strict=True))
        if self.backend.is_traced(given[0]):
            return self.view(self).run(self.method, arguments)
        if self._active and getattr(given[0], "size", 0) and self.has_graph(arguments):
            return self.run_graph(*self.graph_inputs(**arguments))
        return method(self, **arguments)

    def hybrid_forward(self, F: Any, *inputs: Any, **parameters: Any) -> Any:  # noqa: N803
        """Return the layer's own graph, of symbols."""
        named = dict(zip(self.inputs, inputs, strict=False))
        return self.forward(*in_order(getattr(type(self), self.method), self, **named)[1:])

    def has_graph(self, arguments: dict[str, Any]) -> bool:
        """Return whether the layer's graph computes this call: all arguments but its inputs have their defaults."""
        parameters = signature_of(getattr(type(self), self.method)).parameters
        others = [(given, parameters[name].default) for name, given in arguments.items() if name not in self.inputs]
        return all(one is default or (isinstance(one, (int, np.integer)) and one == default) for one, default in others)

    def run_graph(self, *inputs: mx.np.ndarray) -> Any:
        """Return the result of the layer's own graph."""
        return super().forward(*inputs)

    @property
    def symbols(self) -> dict[str, SymbolArray]:
        """The arrays as inputs of a graph. When it runs, it looks up the length of a table, which may have grown."""
        return {name: self._symbol(name, parameter) for name, parameter in self._reg_params.items()}

    def _symbol(self, name: str, parameter: gluon.Parameter) -> SymbolArray:
        variable = parameter.var()
        if not isinstance(parameter, TableParameter):
            return SymbolArray(variable, parameter.shape, parameter.dtype)
        if name in self.encoding.table_names:
            return Table(variable, (None, *parameter.shape[1:]), parameter.dtype)
        return SymbolArray(stopped(variable), parameter.shape, parameter.dtype)

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens as they are."""
        return x

    def active_dropout(self) -> nn.Dropout | None:
        """Return the dropout if numbers are recorded for training and its rate is not 0."""
        return self.dropout if self.dropout._rate and autograd.is_training() else None

    def part_options(self, **options: Any) -> dict[str, dict[str, Any]]:
        """Return this block as the `parent` of each part, whose name is its prefix, and the initializers."""
        given = {name: option for name, option in options.items() if name.endswith("_initializer")}
        own = {name: {"parent": self, "prefix": f"{name}_"} for name in (*PROJECTIONS, *POSITION_LAYERS)}
        return {name: {**part, **given} if name in PROJECTIONS else part for name, part in own.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what was compiled and the lock, which cannot be copied."""
        return self.__dict__ | {"_cached_graph": (), "_cached_op": None, "_cached_op_args": [], "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    def trace(self, *given: Any) -> None:
        """Make the graph, if it is not there, one thread at a time."""
        with self._lock:
            if self._cached_op is None:
                self._build_cache(*given)

    def _call_cached_op(self, *given: Any) -> Any:
        """Run the graph, one thread at a time: Gluon makes and clears it as if no other thread ran it."""
        with self._lock:
            return super()._call_cached_op(*given)

    def cast(self, dtype: Any) -> None:
        super().cast(dtype)
        self.dtype = np.dtype(dtype).name


@contextmanager
def _numpy_in_this_thread() -> Iterator[None]:
    """Enable `mxnet.npx.set_np()` here: it is thread-local."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


class Layer(Block):
    """Holds the constants of an encoding as float32 constants that no cast reaches, its parameters as parameters.

    * Hybridized by itself: calls from position 0 on run as a graph, others eagerly. Threads may share the layer from
      the first call on.
    * In a hybridized parent: all calls are a part of its graph. Tokens have the dtype that the parent was `cast` to:
      without a cast, float16 tokens become float32. Rows past the tables are NaN. Threads may share the parent after
      its first call, as Gluon makes a graph in one thread alone.
    * In a graph that is imported from a file: Gluon takes constants for parameters. No gradient reaches them, but the
      weight decay of a trainer does, unless their `grad_req` is set to "null".
    """

    def __init__(
        self,
        encoding: Encoding,
        max_len: int = 0,
        /,
        *,
        parent: gluon.Block | None = None,
        prefix: str | None = None,
    ) -> None:
        super().__init__(parent=parent, prefix=prefix)
        self.encoding = encoding
        self.set_tables(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            self._register(name, LearnedParameter(self.params.prefix + name, encoding, parameter))

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants; longer tables stay, as the graph of another thread may be about to take them."""
        with self._lock:
            for name, numbers in constants.items():
                if name not in self._reg_params:
                    self._register(name, TableParameter(self.params.prefix + name, numbers))
                elif numbers.shape[:1] > self._reg_params[name].shape[:1]:
                    self._reg_params[name].replace(numbers)
            self._clear_cached_op()

    def _register(self, name: str, parameter: gluon.Parameter) -> None:
        self.params.update({parameter.name: parameter})
        setattr(self, name, parameter)

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        return {name: parameter.data() for name, parameter in self._reg_params.items()}

    initial_arrays = arrays

    def has_graph(self, arguments: dict[str, Any]) -> bool:
        """Return whether the layer's own graph computes this call, which has positions from 0 on."""
        return super().has_graph(arguments) and not getattr(self.encoding, "needs_positions", False)

    def run_graph(self, *inputs: mx.np.ndarray) -> Any:
        """Return the result of the layer's own graph, computed in float32 where the tokens are of half precision."""
        return in_float32(super().run_graph, *inputs)

    def reserve(self, x: mx.np.ndarray) -> None:
        """Grow the tables for a call from position 0 on; raise if the encoding ends before."""
        if self.encoding.table_names:
            self.lookup(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding!r})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, gluon.Parameter]:
        """Return what is saved: parameters, and the encoding that learned them.

        Their names begin with a dot even without a prefix, or Gluon takes the file for an old one.
        """
        learned = {name: given for name, given in self._reg_params.items() if not isinstance(given, TableParameter)}
        if learned:
            learned = {"encoding": EncodingTag(self.encoding, next(iter(learned.values()))), **learned}
        return {f"{prefix}.{name}": parameter for name, parameter in learned.items()}
