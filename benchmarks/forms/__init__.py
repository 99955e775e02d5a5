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
    """

    function: Callable[[Any, Any], Any]
    seq_axis: int = -2
    compilers: tuple[str, ...] = ()
    eager: bool = True
    within: float | None = None


def each(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of one array, for queries and keys."""
    return lambda q, k: (function(q), function(k))
