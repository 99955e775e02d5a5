"""The base of every layer, and the contract of a backend.

A layer has a `Backend` (composition) and the arrays of one encoding. The classes of this package hold all logic; a
framework's adapter adds its base class, a few hooks and one alias per layer (`forward = RotaryEmbedding.rotate`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from .._array_api.checks import check_floating, check_rank, check_width, is_specialized, shown
from .._array_api.namespace import is_floating
from ..encodings import Encoding
from ..positions.sequences import arange_like, counted_from, from_array, sequence
from ..rotation import rotate_checked
from .inputs import Host, as_integers, check_positions, host_values, parse_start

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

    def called_like(method: Callable[P, R]) -> Callable[[Callable[..., Any]], Callable[P, R]]:
        """Return a decorator of `__call__`, which every framework passes on to `method`: editors complete calls."""


class Backend(ABC):
    """The contract of a backend: the operations that layers need from a framework. Four methods have no default.

    Attributes:
        namespace: the framework's names of the array API standard, as the core uses them.
        array_types: the classes of its arrays, traced ones included, for `isinstance`.
        rotate: rotates tokens by rows of tables that fit them, `(x, cos, sin, pairing)`.
    """

    namespace: Any
    array_types: Any
    rotate: Callable[..., Any] = staticmethod(rotate_checked)

    @abstractmethod
    def from_numpy(self, array: Host, /, *, like: Any = None) -> Any:
        """Return the framework's array of the same numbers, on the device of `like`."""

    @abstractmethod
    def to_numpy(self, array: Any, /) -> Host:
        """Return the numbers of the framework's array; float32 for a dtype that NumPy lacks."""

    @abstractmethod
    def is_traced(self, array: Any, /) -> bool:
        """Return whether the values of the array are unknown, because a tracer stands for it."""

    @abstractmethod
    def stop_gradient(self, array: Any, /) -> Any:
        """Return the same numbers without a gradient; the array itself if it has none."""

    def is_unread(self, array: Any, /) -> bool:
        """Return whether positions and lengths are treated as unknown: traced, or slow to read."""
        return self.is_traced(array)

    def is_recorded(self, x: Any, /) -> bool:
        """Return whether this call with `x` is staged to run later; `vmap` and `grad` alone do not stage it."""
        return self.is_traced(x)

    def is_floating(self, x: Any, /) -> bool:
        """Return whether `x` holds floating-point numbers."""
        return is_floating(x)

    def is_float64(self, x: Any, /) -> bool:
        """Return whether `x` holds numbers of float64, which get tables of float64."""
        return "float64" in str(x.dtype)

    def shape(self, x: Any, /) -> tuple[Any, ...]:
        """Return the sizes of `x`: integers, or integers of the framework for sizes unknown while tracing."""
        return x.shape

    def slices(self, tables: tuple[Any, ...], start: int, stop: int, /) -> tuple[Any, ...]:
        """Return the rows from `start` to `stop` of each table."""
        return tuple([table[start:stop, ...] for table in tables])

    def hoist(self, operation: Callable[..., Any], /, *arrays: Any) -> Any:
        """Return `operation(*arrays)`; compute it once if compiled, since it depends on constants alone."""
        return operation(*arrays)

    def eager(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return `function(*arguments)`, computed outside of what the framework compiles."""
        return function(*arguments)

    def beside(self, rows: tuple[Any, ...], x: Any, /) -> tuple[Any, ...]:
        """Return rows of tables that can be combined with `x`, for instance replicated if `x` is distributed."""
        return rows

    def check_length(self, stop: Any, limit: Callable[[], tuple[int, Callable[[Any], str]]], /) -> None:  # noqa: B027
        """Check a symbolic `stop` against the limit that the function returns, if the tracer can."""

    def rotate_both(self, q: Any, k: Any, rows: tuple[Any, ...], pairing: Any, seq_axis: int, /) -> Any:
        """Return queries and keys rotated by the same rows in one call; None if each needs its own call."""
        return None

    def call_context(self, x: Any, /) -> AbstractContextManager[Any]:
        """Return a context in which to compute with `x`, for instance without autocast."""
        return nullcontext()

    def check_shared(self, layer: Any, /) -> None:  # noqa: B027
        """Raise if a layer of positions cannot be shared by several blocks of attention."""

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> Any:
        """Return a learned projection, `(..., width) -> (..., out)`."""
        raise NotImplementedError

    def dropout(self, rate: float, /) -> Any:
        """Return the `dropout` attribute of a layer: a layer of the framework, or the rate itself."""
        return rate


class Documented:
    """A class whose subclasses without a docstring inherit that of their first base."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = cls.__doc__ or cls.__mro__[1].__doc__


class BaseLayer(Documented):
    """A layer with the arrays of one encoding.

    The adapter of a framework defines each of the following; none has a body here, because the classes of the core come
    first among the bases.

    Attributes:
        backend: the adapter's `Backend`.
        encoding: the encoding.
        arrays: its constants and parameters, by name.
        initial_arrays: the arrays of the new layer, before calls grew its tables. Traced positions use them, so that
            their result does not depend on earlier calls.
        set_tables: `(constants)`, replaces all constants.
        prepare: `(x, width)`, returns the tokens as the layer uses them: cast, on its device, with a known width.
        active_dropout: `(**options)`, returns the dropout of this call, or None without dropout.
    """

    backend: Any
    encoding: Any
    arrays: Any
    initial_arrays: Any
    set_tables: Any
    prepare: Any
    active_dropout: Any

    def check_tokens(self, name: str, x: Any, width: int | None) -> Any:
        """Return `x` prepared; raise unless it is a floating-point array of the framework, `(..., length, width)`."""
        return self.check_prepared(name, self.prepare(x, width), width)

    def check_prepared(self, name: str, x: Any, width: int | None) -> Any:
        """Return `x`, which is already prepared; raise like `check_tokens`."""
        if not isinstance(x, self.backend.array_types):
            raise self._wrong_framework(name, x)
        sizes = x.shape
        if len(sizes) < 2:
            check_rank(name, x, minimum=2, axes="(..., length, width)")
        if width is not None and sizes[-1] != width:
            check_width(name, x, width)
        if not self.backend.is_floating(x):
            check_floating(name, x)
        return x

    def _wrong_framework(self, name: str, x: Any) -> TypeError:
        return TypeError(f"`{name}` must be an array of the layer's framework, got {type(x).__name__}.")

    def to_backend(self, given: Any) -> Any:
        """Return a number, a list or an array as an array of the framework."""
        host = host_values(given, self.backend)
        return given if host is None else self.backend.from_numpy(host, like=self._any_array)

    def positions(self, name: str, given: Any, length: Any, start: Any, batch: Any) -> Any:
        """Return the given positions after checking them, or `length` positions from `start` (or from each start)."""
        if given is not None:
            host = host_values(given, self.backend)
            check_positions(name, given if host is None else host, (length,), batch)
            return given if host is None else self.to_backend(as_integers(from_array(host)))
        start = parse_start(start, batch, self.backend)
        if isinstance(start, int):
            if is_specialized(length, self._any_array):
                sequence(length, start=start)  # raises past 2**31
            return arange_like(length, like=self._any_array) + start
        return counted_from(self.to_backend(start), length)

    @property
    def _any_array(self) -> Any:
        return next(iter(self.arrays.values()))


def check_encoding(encoding: Encoding, family: type | tuple[type, ...], word: str) -> None:
    """Raise unless the encoding is of this family."""
    if not isinstance(encoding, family):
        raise TypeError(f"`encoding` must be {word} encoding, got {shown(encoding)}.")
