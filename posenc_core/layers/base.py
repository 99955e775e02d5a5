"""Holders: what every layer that holds the arrays of an encoding asks of its room, and of what it is called with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from .._array_api.checks import is_specialized, is_static
from .._array_api.namespace import Array, dtype_name, is_floating, namespace_of, shape_of
from ..encodings import Encoding
from ..encodings.base import Tables
from ..positions.sequences import LIMIT, arange_like, counted_from, from_array, sequence

Host = npt.NDArray[Any]


class Backend(Protocol):
    """What a room tells about its framework's arrays."""

    def from_numpy(self, array: Host, /, *, like: Any = None) -> Any:
        """The framework's array of the same numbers, on the device of `like`."""

    def to_numpy(self, array: Any, /) -> Host:
        """The numbers of the framework's array."""

    def is_traced(self, array: Any, /) -> bool:
        """Whether a tracer stands in for the array, so that its numbers are not known."""

    def stop_gradient(self, array: Any, /) -> Any:
        """The same numbers, through which no gradient flows; the array itself where none can."""


class BaseLayer:
    """A layer that holds the arrays of one encoding; a room says how.

    Attributes:
        room: the room.
        encoding: the encoding.
        held: its constants and parameters, by name.
    """

    backend: Backend
    encoding: Encoding

    if TYPE_CHECKING:

        @property
        def held(self) -> Mapping[str, Any]: ...

    @property
    def initial_arrays(self) -> Mapping[str, Any]:
        """What is held, for positions that only a tracer knows; where calls have grown it, what was there before them.

        So what the end of a table makes of such a position does not depend on the calls before.
        """
        return self.held

    def hold(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        raise NotImplementedError

    def is_recorded(self, x: Any) -> bool:
        """Whether a call with these tokens is recorded, to run later; where a tracer stands for them but once, it is not."""
        return self.backend.is_traced(x)

    def settled(self, operation: Callable[..., Any], *arrays: Any) -> Any:
        """What follows from what is held and known; a room that records calls works it out before it does."""
        return operation(*arrays)

    def ensured(self, stop: Any, bound: Callable[[], tuple[int, Callable[[Any], str]]]) -> None:
        """Have it checked that a length that a tracer leaves open keeps within a bound; a room whose tracer can does so."""

    def exact_rows(self, positions: Host, encoding: Any) -> Tables:
        """Rows by an encoding itself; a room keeps its compiler out of here."""
        rows: Tables = encoding.rows(positions)
        return rows

    def computed_there(self, encoding: Any, *positions: Any) -> tuple[Any, ...]:
        """Rows of real positions that only a tracer knows; a room whose compiler does not get through refuses."""
        rows: tuple[Any, ...] = encoding.traced_rows(*positions)
        return rows

    def check_array(self, name: str, x: Any) -> None:
        """Raise unless `x` is an array of the framework."""
        if not hasattr(x, "shape") or namespace_of(x) is not namespace_of(next(iter(self.held.values()))):
            raise TypeError(f"`{name}` must be an array of the layer's framework, got {type(x).__name__}.")

    def to_backend(self, given: Any) -> Any:
        """A number, a list or an array as an array of the framework."""
        host = host_values(given, self.backend)
        return given if host is None else self.backend.from_numpy(host, like=next(iter(self.held.values())))

    def positions(self, name: str, given: Any, length: Any, start: Any, batch: Any) -> Any:
        """The positions given, checked; or `length` of them from `start` on, or from each start on."""
        if given is not None:
            host = host_values(given, self.backend)
            check_stated(name, given if host is None else host, (length,), batch)
            return given if host is None else self.to_backend(whole(from_array(host)))
        start = stated_start(start, batch, self.backend)
        if isinstance(start, int):
            if is_specialized(length, next(iter(self.held.values()))):
                sequence(length, start=start)  # raises past 2**31
            return arange_like(length, like=next(iter(self.held.values()))) + start
        return counted_from(self.to_backend(start), length)


def host_values(given: Any, backend: Backend) -> Host | None:
    """A number, a list or an array as a NumPy array, or None where only a tracer knows it.

    Raises:
        TypeError: if it is none of these; if it is in half precision; if a tracer's numbers are no wide integers, which
            may not be counted on.
    """
    _check_unrounded(given)
    if isinstance(given, (int, float, list, tuple, range, np.ndarray, np.generic)):
        return np.asarray(given)
    if not hasattr(given, "shape"):
        raise TypeError(f"Positions and lengths must be numbers, lists or arrays, got {given!r}.")
    if not backend.is_traced(given):
        return backend.to_numpy(given)
    if dtype_name(given) not in ("int32", "int64", "None"):
        raise TypeError(f"Traced positions and lengths must be int32 or int64, got {_with_advice(given)}.")
    return None


def _with_advice(given: Array) -> str:
    """The dtype of a tracer, and what to do about it."""
    if is_floating(given):
        return f"{dtype_name(given)}; real positions must be known when code is traced: give them as a NumPy array"
    return f"{dtype_name(given)}; cast them to int32 first"


def learned_by(encoding: Encoding) -> str:
    """The name of an encoding in states of what it learned: all of it but what that started from."""
    return re.sub(", std=[^,)]*", "", repr(encoding))


def is_real(given: Any) -> bool:
    """Whether it is a framework's array of floating-point numbers, which may have a gradient; NumPy's have none."""
    return hasattr(given, "shape") and not isinstance(given, (np.ndarray, np.generic)) and is_floating(given)


def whole(array: Host) -> Host:
    """Integers where all numbers are whole, as some frameworks hold integers in floats; else the array itself."""
    is_whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.rint(array)).all())
    return array.astype(np.int64) if is_whole else array


def stated_start(start: Any, batch: Any, backend: Backend) -> Any:
    """An int, or integers for each row of the batch: a NumPy array, or a tracer's array.

    Raises:
        TypeError, ValueError: if it is neither.
    """
    if type(start) is not int:
        host = host_values(start, backend)
        check_stated("start", start if host is None else host, (), batch)
        if host is None:
            return start
        starts = whole(host)
        if starts.dtype.kind != "i":
            raise TypeError(f"`start` must be an integer, or one for each batch row, got {start!r}.")
        start = starts if starts.ndim else int(starts)
    farthest = abs(start) if type(start) is int else np.abs(start).max(initial=0)
    if farthest >= LIMIT:
        raise ValueError(f"`start` must be below 2**31 in size, got {start!r}.")
    return start


def batch_of(x: Array, sequence: int) -> Any:
    """The size of the first axis of `x` that is neither its sequence nor its last; None where there is none."""
    return shape_of(x)[0 if sequence else 1] if len(x.shape) > 2 else None


def check_stated(name: str, given: Any, tail: tuple[Any, ...], batch: Any) -> None:
    """Raise unless `given` has shape `tail`, or that once for each row of a batch (None: there are no rows)."""
    _check_unrounded(given)
    sizes = given.shape if isinstance(given, np.ndarray) else shape_of(given)
    heads = [()] if batch is None else [(), (1,), (batch,)]
    if not any(_match(sizes, (*head, *tail)) for head in heads):
        wanted = " or ".join(dict.fromkeys(str((*head, *tail)) for head in heads))
        raise ValueError(f"`{name}` must have shape {wanted} to fit the tokens, got {sizes}.")


def bound(held: int, encoding: Any) -> tuple[int, Callable[[Any], str]]:
    """Where the positions end that recorded code can have, and what to say of code that goes on to some `stop`."""
    longest = getattr(encoding, "max_seq_len", None)
    if longest is None or held < longest:
        return held, lambda stop: too_far(held, stop)
    return longest, lambda stop: past_frequencies(encoding, stop - 1)


def too_far(held: int, stop: Any) -> str:
    """What to say where code that is traced goes past tables of so many rows."""
    return (
        f"`max_len` is {held}, but position {stop - 1} is asked for while the layer is traced; "
        f"make it with `max_len={stop}` or more."
    )


def past_frequencies(encoding: Any, last: Any) -> str:
    """What to say where code that is traced goes past the length that frequencies are for."""
    return (
        f"Position {last} lies past the {encoding.max_seq_len} that these frequencies of {encoding!r} are for; "
        "make the layer with `encoding.at(seq_len)`."
    )


def other_tables(encoding: Encoding) -> str:
    """What to say where code that is traced asks for the rows of another encoding than its layer's."""
    return f"`seq_len` asks for other tables than a traced layer holds; make the layer with {encoding!r}."


def _check_unrounded(given: Any) -> None:
    """Raise for numbers in half precision, as mixed policies make them of all that floats: 1001 is 1000 in bfloat16."""
    if hasattr(given, "shape") and dtype_name(given) in ("float16", "bfloat16"):
        raise TypeError(
            f"Positions and lengths must be integers or float32, got {dtype_name(given)}, which rounds them; "
            "make them integers before a mixed policy casts them."
        )


def _match(sizes: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    """Whether the sizes agree, as far as a tracer knows them."""
    pairs = zip(sizes, wanted, strict=False)
    return len(sizes) == len(wanted) and all(a == b for a, b in pairs if is_static(a) and is_static(b))
