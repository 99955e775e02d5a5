"""Shrink a failing call to the smallest that fails, and write it so that it can be pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .budget import Budget
from .calls import Caller, TestCall

MOST_CALLS, SECONDS = 60, 3.0
SMALLEST: dict[str, Any] = {"batch": 1, "heads": (1, 1), "is_strided": False}


def shrink(failing: TestCall, caller: Caller, fails: Callable[[TestCall], bool]) -> TestCall:
    """Return a smaller call that fails, the smallest that is found; the call itself if no smaller one fails.

    Args:
        failing: a call that fails.
        caller: what all calls have in common.
        fails: whether a call fails.
    """
    smallest, found, budget = failing, True, Budget(SECONDS, MOST_CALLS)
    with budget:
        while found:
            found = False
            for smaller in _smaller(smallest, caller):
                if budget.is_over():
                    return smallest
                if fails(smaller):
                    smallest, found = smaller, True
                    break
    return smallest


def _smaller(call: TestCall, caller: Caller) -> Iterator[TestCall]:
    """Yield calls with fewer positions, rows and heads, the smallest first."""
    if call.num_queries or getattr(caller.encoding, "num_axes", 1) > 1:
        return
    sizes: dict[str, Any] = {name: getattr(call, name) for name in ("batch", "heads", "is_strided", "is_optional")}
    for positions in _fewer(call.positions):
        yield caller.call(call.name, call.dtype, positions, **sizes | SMALLEST)
        yield caller.call(call.name, call.dtype, positions, **sizes)
    changes = {name: size for name, size in SMALLEST.items() if sizes[name] != size}
    if call.positions.ndim == 1:
        for change in (changes, *({name: size} for name, size in changes.items())):
            if change:
                yield caller.call(call.name, call.dtype, call.positions, **sizes | change)


def _fewer(positions: Any) -> Iterator[Any]:
    """Yield some of these positions, or a smaller one instead of a single one."""
    if positions.ndim > 1:
        yield from positions
    elif len(positions) > 1:
        for count in sorted({1, 2, len(positions) // 2} - {len(positions)}):
            yield from (positions[:count], positions[-count:])
    elif positions[0] > 0:
        last = int(positions[0])
        yield from (np.array([position]) for position in sorted({0, 1, last // 2, last - 1} - {last}))


def program_of(call: TestCall, name: str) -> str:
    """Return Python code in NumPy that makes the arguments of a call and calls the function of this name."""
    axes = getattr(call.expected.encoding, "num_axes", 1)
    lines = ["import numpy as np", f"draw = np.random.default_rng({call.positions.size // axes}).standard_normal"]
    names = ("q", "k")[: len(call.tokens)]
    for array, tokens in zip(names, call.tokens, strict=True):
        cast = f'.astype("{call.dtype}")' if call.dtype != "bfloat16" else '.astype("float32")  # then in bfloat16'
        lines.append(f"{array} = draw({tokens.shape}){cast}")
    lines.append(f"{name}({', '.join([*names, *map(_written, call.position_arguments)])})")
    return "\n".join(lines)


def _written(positions: Any) -> str:
    """Return positions as an expression of NumPy."""
    if positions.ndim == 1 and len(positions) > 2 and (np.diff(positions) == 1).all():
        return f"np.arange({positions[0]}, {positions[-1] + 1})"
    return f"np.array({positions.tolist()})"
