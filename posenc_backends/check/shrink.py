"""Shrink a failing call to the smallest that fails, and write it so that it can be pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

import numpy as np

from .budget import Budget
from .sample_calls import Caller, TestCall

MOST_CALLS = 60
FEW_CALLS = 12  # where a call takes long: that of a program, and one that compiles for its shape
SMALLEST: dict[str, Any] = {"batch": 1, "heads": (1, 1), "is_strided": False}


def shrink(failing: TestCall, caller: Caller, fails: Callable[[TestCall], bool], *, most: int = MOST_CALLS) -> TestCall:
    """Return a smaller call that fails, the smallest that is found; the call itself if no smaller one fails.

    Args:
        failing: a call that fails.
        caller: what all calls have in common.
        fails: whether a call fails.
        most: how many calls to try.
    """
    smallest, found, budget = failing, True, Budget(most)
    while found:
        smaller = next(filter(fails, takewhile(lambda _: budget.take(), _smaller(smallest, caller))), None)
        smallest, found = smaller or smallest, smaller is not None
    return smallest


def _smaller(call: TestCall, caller: Caller) -> Iterator[TestCall]:
    """Yield calls with fewer positions, rows and heads, the smallest first."""
    sizes: dict[str, Any] = {name: getattr(call, name) for name in ("batch", "heads", "is_strided", "is_optional")}
    changes = {name: size for name, size in SMALLEST.items() if call.tokens and sizes[name] != size}
    positions = call.positions[0] if caller.encoding.num_axes > 1 else call.positions
    count = call.num_queries
    fewer: Iterable[tuple[Any, int]] = ((some, count) for some in _fewer(positions))
    if count and positions.ndim == 1:
        fewer = _fewer_pairs(positions[:count], positions[count:])
    for some, queries in fewer:
        yield caller.call(call.name, call.dtype, some, queries, **sizes | SMALLEST)
        if changes:
            yield caller.call(call.name, call.dtype, some, queries, **sizes)
    if positions.ndim == 1:
        for change in (changes, *({name: size} for name, size in changes.items())):
            if change:
                yield caller.call(call.name, call.dtype, positions, count, **sizes | change)


def _fewer_pairs(queries: Any, keys: Any) -> Iterator[tuple[Any, int]]:
    """Yield fewer queries and keys, with the number of queries; queries that are among the keys stay there."""
    are_among = np.isin(queries, keys).all()
    for some, others in (*((one, keys) for one in _parts(queries)), *((queries, one) for one in _parts(keys))):
        if not are_among or np.isin(some, others).all():
            yield np.r_[some, others], len(some)
    first = int(min(queries.min(), keys.min()))
    for shift in sorted({first, (first + 1) // 2} - {0}, reverse=True):
        yield np.r_[queries, keys] - shift, len(queries)


def _fewer(positions: Any) -> Iterator[Any]:
    """Yield some of these positions, or a smaller one instead of a single one."""
    if positions.ndim > 1:
        yield from positions
    elif len(positions) > 1:
        yield from _parts(positions)
    elif positions[0] > 0:
        last = int(positions[0])
        yield from (np.array([position]) for position in sorted({0, 1, last // 2, last - 1} - {last}))


def _parts(positions: Any) -> Iterator[Any]:
    """Yield the first and the last of these positions: one, two, half of them and more, and all but one."""
    length = len(positions)
    for count in sorted({1, 2, length // 2, 3 * length // 4, length - 1} & {*range(1, length)}):
        yield from (positions[:count], positions[-count:])


def program_of(call: TestCall, name: str) -> str:
    """Return Python code in NumPy that makes the arguments of a call and calls the function of this name."""
    axes, lines = call.expected.encoding.num_axes, ["import numpy as np"]
    if call.tokens:
        lines.append(f"draw = np.random.default_rng({call.positions.size // axes}).standard_normal")
    sizes = "" if call.expected.norm is None else " * sizes"
    if sizes:
        lines.append(f"sizes = 2.0 ** -(3 * (np.arange({call.positions.shape[-1]}) % 4))[:, None]")
    names = ("q", "k")[: len(call.tokens)]
    for array, tokens in zip(names, call.tokens, strict=True):
        cast = f'.astype("{call.dtype}")' if call.dtype != "bfloat16" else '.astype("float32")  # then in bfloat16'
        drawn = f"(draw({tokens.shape}){sizes})" if sizes else f"draw({tokens.shape})"
        lines.append(f"{array} = {drawn}{cast}")
    lines.append(f"{name}({', '.join([*names, *map(_written, call.position_arguments)])})")
    return "\n".join(lines)


def _written(positions: Any) -> str:
    """Return positions as an expression of NumPy."""
    if positions.ndim == 1 and len(positions) > 2 and (np.diff(positions) == 1).all():
        return f"np.arange({positions[0]}, {positions[-1] + 1})"
    return f"np.array({positions.tolist()})"
