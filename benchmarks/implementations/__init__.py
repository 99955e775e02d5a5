"""The implementations to measure, one file per backend."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class Rotation(NamedTuple):
    """One implementation of the rotation of queries and keys.

    Attributes:
        function: takes `q` and `k`, and returns both rotated.
        seq_axis: the axis of their length: -2, or -3 for `(batch, length, heads, width)`.
        compilers: the compilers of the backend that it is measured with as well.
        eager: whether it is measured without them.
        within: how far it may be from ours, if it is known to be farther than the dtype explains.
        gradients: whether it is measured with a backward pass as well.
    """

    function: Callable[[Any, Any], Any]
    seq_axis: int = -2
    compilers: tuple[str, ...] = ()
    eager: bool = True
    within: float | None = None
    gradients: bool = True


def each(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of queries and keys that applies a function of one array to each."""
    return lambda q, k: (function(q), function(k))


def floor(*compilers: str) -> dict[str, Rotation]:
    """Return an implementation that only adds 0 to both: what a compiled call costs, whatever it computes."""
    identity = Rotation(lambda q, k: (q + 0, k + 0), compilers=compilers, eager=False, within=math.inf)
    return {"identity": identity}


def by_hand(forms: dict[str, Callable[..., Any]], cos: Any, sin: Any, *compilers: str) -> dict[str, Rotation]:
    """Return our formula as a user may write it for tables of these rows, compiled: without a check or a look-up.

    All forms compute in float32 and round once.
    """
    rotations = {name: each(partial(form, cos=cos, sin=sin)) for name, form in forms.items()}
    return {f"by hand, {name}": Rotation(one, compilers=compilers, eager=False) for name, one in rotations.items()}


def into_existing(rotate: Callable[..., Any], copy: Callable[[Any], Any]) -> dict[str, Rotation]:
    """Return our `rotate(x, out=)` into arrays that exist, and in place on the result of the call before."""
    return {
        "posenc.rotate, out": Rotation(_into(lambda x, out: rotate(x, out=out), copy), gradients=False),
        "posenc.rotate, in place": Rotation(_into(lambda _, out: rotate(out, out=out), copy), gradients=False),
    }


def _into(rotate: Callable[[Any, Any], Any], copy: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    outputs: list[Any] = []

    def call(q: Any, k: Any) -> Any:
        outputs[:] = outputs or (copy(q), copy(k))
        return tuple(rotate(x, out) for x, out in zip((q, k), outputs, strict=True))

    return call
