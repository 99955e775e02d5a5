"""Gluon blocks that hold an encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from threading import RLock
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import gluon

from posenc_core._array_api.namespace import in_float32
from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Parameter
from posenc_core.layers.base import BaseLayer

from . import backend as arrays
from .state import Note
from .symbolic.array import SymbolArray, Table
from .symbolic.namespace import stopped


class Constant(gluon.Parameter):
    """Numbers that stay as they were given; they are there from the start, and no cast or initializer reaches them.

    Not a `gluon.Constant`, whose numbers live as long as the process, in the registry of initializers.
    """

    _data: Any

    def __init__(self, name: str, numbers: npt.NDArray[Any]) -> None:
        super().__init__(name, shape=numbers.shape, dtype=numbers.dtype.name, differentiable=False)
        self.hold(numbers)

    def hold(self, numbers: npt.NDArray[Any]) -> None:
        """Hold these numbers in place of those before, on the same devices, all at once."""
        array = arrays.adopted(numbers)
        self._shape, self._var = numbers.shape, None
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

    def _reduce(self) -> mx.np.ndarray:
        return self._data[0].copyto(mx.cpu())  # Gluon's is the mean over the devices, which rounds


class Learned(gluon.Parameter):
    """What an encoding learns."""

    def __init__(self, name: str, encoding: Encoding, parameter: Parameter) -> None:
        super().__init__(name, shape=parameter.shape, init=Normal(parameter.mean, parameter.std))
        self.encoding = encoding

    def _load_init(self, data: Any, *rest: Any, **options: Any) -> None:
        """Load what was saved, of this shape; Gluon compares as many axes as both have."""
        if tuple(data.shape) != tuple(self.shape):
            raise ValueError(
                f"{self.name!r} of {self.encoding!r} must have shape {tuple(self.shape)}, got {tuple(data.shape)}, "
                "of another encoding; make the layer with the one that was saved."
            )
        super()._load_init(data, *rest, **options)


class Normal(mx.init.Initializer):
    """Normally distributed numbers; MXNet's own have mean 0."""

    def __init__(self, mean: float, std: float) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = mean, std

    def _init_weight(self, name: str, array: mx.np.ndarray) -> None:
        array[:] = mx.np.random.normal(self.mean, self.std, array.shape)


class Block(gluon.HybridBlock):
    """A block that remembers the dtype that it was cast to, because symbols do not tell theirs.

    Raises:
        RuntimeError: unless `mxnet.npx.set_np()` was called.
    """

    dtype = "float32"

    def __init__(self) -> None:
        if not (mx.util.is_np_array() and mx.util.is_np_shape()):
            raise RuntimeError("Call `mxnet.npx.set_np()` before making a layer: the layers are made for `mxnet.np`.")
        super().__init__()
        self._lock = RLock()

    def __call__(self, x: Any, *rest: Any) -> Any:
        with _numpy_in_this_thread(), getattr(x, "ctx", None) or nullcontext():
            return super().__call__(x, *rest)

    def __getstate__(self) -> dict[str, Any]:
        """All but what was compiled, and what threads wait for, which cannot be copied."""
        return self.__dict__ | {"_cached_graph": (), "_cached_op": None, "_cached_op_args": [], "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    def _call_cached_op(self, *given: Any) -> Any:
        """One thread at a time: Gluon makes a graph, and lets go of it, without a thought of others that run it."""
        with self._lock:
            return super()._call_cached_op(*given)

    def cast(self, dtype: Any) -> None:
        super().cast(dtype)
        self.dtype = np.dtype(dtype).name


@contextmanager
def _numpy_in_this_thread() -> Iterator[None]:
    """What `mxnet.npx.set_np()` says, which only the thread that called it has heard."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


class Layer(BaseLayer, Block):
    """Holds an encoding: its constants as float32 constants that no cast reaches, its parameters as parameters.

    Calls of a hybridized layer from position 0 on run as a graph, where rows past the tables are NaN, others as they would in one
    that is not; threads may share it from the first of them on. In a hybridized parent all are a part of its graph, which takes
    tokens of the dtype that it was `cast` to: of float16 ones, one that was not makes float32. Threads may share it once it was
    called, as Gluon makes a graph in one thread alone. Where that is imported from a file, Gluon takes constants for
    parameters: no gradient reaches them, but a trainer's weight decay does, unless their `grad_req` is set to "null".
    """

    backend = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            self._register(name, Learned(self.params.prefix + name, encoding, parameter))

    def hold(self, constants: Mapping[str, npt.NDArray[Any]]) -> None:
        """Hold these constants; rows that are there stay, as the graph of another thread may be about to take them."""
        with self._lock:
            for name, numbers in constants.items():
                if name not in self._reg_params:
                    self._register(name, Constant(self.params.prefix + name, numbers))
                elif numbers.shape[:1] > self._reg_params[name].shape[:1]:
                    self._reg_params[name].hold(numbers)
            self._clear_cached_op()

    def _register(self, name: str, parameter: gluon.Parameter) -> None:
        self.params.update({parameter.name: parameter})
        setattr(self, name, parameter)

    @property
    def held(self) -> dict[str, Any]:
        return {name: parameter.data() for name, parameter in self._reg_params.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding!r})"

    def variables(self) -> dict[str, SymbolArray]:
        """What is held, as inputs of a graph, which asks for the length of a table that may grow whenever it runs."""
        return {name: self._variable(name, parameter) for name, parameter in self._reg_params.items()}

    def _variable(self, name: str, parameter: gluon.Parameter) -> SymbolArray:
        variable = parameter.var()
        if not isinstance(parameter, Constant):
            return SymbolArray(variable, parameter.shape, parameter.dtype)
        if name.endswith(("table", "cos", "sin")):
            return Table(variable, (None, *parameter.shape[1:]), parameter.dtype)
        return SymbolArray(stopped(variable), parameter.shape, parameter.dtype)

    def in_graph(self, start: Any, *positions: Any) -> bool:
        """Whether the graph that a hybridized layer has is that of such a call: from position 0 on."""
        plain = isinstance(start, (int, np.integer)) and start == 0 and all(given is None for given in positions)
        return bool(self._active and plain)

    def run_graph(self, *arrays: mx.np.ndarray) -> mx.np.ndarray:
        """`hybrid_forward` as Gluon runs it, in float32 where the arrays are of half precision."""
        return in_float32(super().forward, *arrays)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, gluon.Parameter]:
        """Save what is learned, and by which encoding. The dot is there without a prefix, too, or Gluon takes the file for an old one."""
        learned = {name: given for name, given in self._reg_params.items() if not isinstance(given, Constant)}
        if learned:
            learned = {"encoding": Note(self.encoding, next(iter(learned.values()))), **learned}
        return {f"{prefix}.{name}": parameter for name, parameter in learned.items()}
