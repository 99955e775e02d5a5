"""The forms that are measured, a file for each room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One way to turn queries and keys.

    Attributes:
        function: of `q` and `k`, returns both.
        seq_axis: where their length is: -2, or -3 for `(batch, length, heads, width)`.
        compilers: the compilers of the room that it is measured with, too.
        eager: whether it is measured without them.
        within: how far it may be from ours where it is known to be farther off than the dtype explains.
        gradients: whether it is measured with a backward pass, too.
    """

    function: Callable[[Any, Any], Any]
    seq_axis: int = -2
    compilers: tuple[str, ...] = ()
    eager: bool = True
    within: float | None = None
    gradients: bool = True


def each(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of one array, for queries and keys."""
    return lambda q, k: (function(q), function(k))


def elsewhere(rotate: Callable[..., Any], copy: Callable[[Any], Any]) -> dict[str, Turn]:
    """Our function, `rotate(x, out=)`, into arrays that were touched before, and in place, where each call turns on."""
    return {
        "posenc.rotate, out": Turn(_into(lambda x, held: rotate(x, out=held), copy), gradients=False),
        "posenc.rotate, in place": Turn(_into(lambda _, held: rotate(held, out=held), copy), gradients=False),
    }


def _into(turned: Callable[[Any, Any], Any], copy: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    held: list[Any] = []

    def call(q: Any, k: Any) -> Any:
        held[:] = held or (copy(q), copy(k))
        return tuple(turned(x, own) for x, own in zip((q, k), held, strict=True))

    return call
