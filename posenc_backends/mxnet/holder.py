"""Gluon blocks that hold an encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet import gluon

from posenc_core.encodings import Encoding
from posenc_core.holder import Holder

from . import arrays


class Constant(gluon.Parameter):
    """Numbers that stay as they were given; they are there from the start, and no cast or initializer reaches them.

    Not a `gluon.Constant`, whose numbers live as long as the process, in the registry of initializers.
    """

    def __init__(self, name: str, numbers: npt.NDArray[Any]) -> None:
        super().__init__(name, shape=numbers.shape, dtype=numbers.dtype.name, differentiable=False)
        self.hold(numbers)

    def hold(self, numbers: npt.NDArray[Any]) -> None:
        """Hold these numbers in place of those before, on the same devices."""
        self._shape, self._var = numbers.shape, None
        self._init_impl(arrays.from_numpy(numbers), self._ctx_list or [mx.current_context()])

    def initialize(
        self, init: Any = None, ctx: Any = None, default_init: Any = None, force_reinit: Any = False
    ) -> None:
        self.reset_ctx(ctx)

    def cast(self, dtype: Any) -> None:
        pass

    def _reduce(self) -> mx.np.ndarray:
        return self._data[0].copyto(mx.cpu())  # Gluon's is the mean over the devices, which rounds


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

    def __call__(self, x: Any, *rest: Any) -> Any:
        with getattr(x, "ctx", None) or nullcontext():
            return super().__call__(x, *rest)

    def cast(self, dtype: Any) -> None:
        super().cast(dtype)
        self.dtype = np.dtype(dtype).name

    def in_float32(self, operation: Callable[..., Any], *xs: Any) -> Any:
        """`operation(*xs)`, in float32 where `xs` are of half precision, rounded once to theirs."""
        dtype = self.dtype if arrays.is_traced(xs[0]) else xs[0].dtype.name
        if dtype != "float16":
            return operation(*xs)
        return operation(*(x.astype("float32") for x in xs)).astype("float16")


class Layer(Holder, Block):
    """Holds an encoding: its constants as float32 constants that no cast reaches, its parameters as parameters.

    Plain calls of a hybridized layer run as a graph, where rows past the tables are NaN; others run through the core.
    """

    room = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            init = Normal(parameter.mean, parameter.std)
            setattr(self, name, self.params.get(name, shape=parameter.shape, init=init))

    def hold(self, constants: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, numbers in constants.items():
            if name in self._reg_params:
                self._reg_params[name].hold(numbers)
            else:
                constant = Constant(self.params.prefix + name, numbers)
                self.params.update({constant.name: constant})
                setattr(self, name, constant)
        self._clear_cached_op()

    @property
    def held(self) -> dict[str, Any]:
        return {name: parameter.data() for name, parameter in self._reg_params.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding!r})"

    def in_graph(self, x: Any, start: Any, *positions: Any) -> bool:
        """Whether a call can be, or has to be, a graph's."""
        plain = isinstance(start, (int, np.integer)) and all(given is None for given in positions)
        if arrays.is_traced(x) and not (plain and start >= 0):
            raise ValueError(
                f"In a hybridized block positions count from an integer `start` of at least 0, got {start!r} "
                f"and {positions!r}; call the layer from a block that is not hybridized."
            )
        return arrays.is_traced(x) or (self._active and plain and start == 0)

    def run_graph(self, x: Any, *stated: Any) -> Any:
        """`hybrid_forward`, as Gluon runs it; what is stated beside symbols becomes a part of the graph."""
        run = super().forward
        return self.in_float32(lambda wide: run(wide, *stated) if arrays.is_traced(x) else run(wide), x)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, gluon.Parameter]:
        """Save what is learned. The dot is there without a prefix, too, or Gluon takes the file for an old one."""
        learned = {name: given for name, given in self._reg_params.items() if not isinstance(given, Constant)}
        return {f"{prefix}.{name}": parameter for name, parameter in learned.items()}
