"""Mistakes in the norm of queries and keys (QK-norm)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..candidates import Candidate
from .base import Change, Mistake

EPSILONS = (1e-6, 1e-5, 1e-8, 1e-12, 1e-4, 1e-3)  # those of models


def norm_mistakes(right: Candidate) -> Iterator[Mistake]:
    """Yield the mistakes in the norm; none if the function has none."""
    norm = right.norm
    if norm is None:
        return
    before, after = ("before", "after") if norm.order == "norm_first" else ("after", "before")
    order = "rope_first" if norm.order == "norm_first" else "norm_first"
    yield Mistake(
        f"norm {after} the rotation", f"the norm comes {after} the rotation, not {before}", _with(order=order)
    )
    yield Mistake("norm missing", "queries and keys are rotated alone", _with(form="none"))
    if norm.axes == (-1,):
        description = "the mean is that of all heads of a token, not of each head"
        yield Mistake("norm of all heads", description, _with(axes=(-3, -1)))
    else:
        description = "the mean is that of each head, not of all heads of a token"
        yield Mistake("norm of each head", description, _with(axes=(-1,)))
    if norm.weights[0] is not None:
        name, offset = ("offset of the weight missing", 0.0) if norm.offset else ("offset of the weight", 1.0)
        description = f"normalized numbers are multiplied by {f'{offset:g} + ' * bool(offset)}weight"
        yield Mistake(name, description, _with(offset=offset))
        yield Mistake(
            "weight ignored", "normalized numbers are not multiplied by the weight", _with(weights=(None, None))
        )
        yield Mistake("weights swapped", "queries have the weight of keys", _with(weights=norm.weights[::-1]))
    if norm.epsilon:
        yield Mistake("epsilon missing", "nothing is added to the mean of the squares", _with(epsilon=0.0))
    for epsilon in EPSILONS:
        if epsilon != norm.epsilon:
            yield Mistake("wrong epsilon", f"epsilon is {epsilon:g}", _with(epsilon=epsilon))
    yield Mistake("epsilon outside the root", "epsilon is added to the root of the mean", _with(form="outside"))
    yield Mistake("sum of squares", "the sum of the squares is in the place of their mean", _with(form="sum"))
    yield Mistake("layer norm", "the mean of the channels is subtracted first", _with(form="layer norm"))
    for dtype in ("bfloat16", "float16"):
        description = f"what the norm returns is rounded to {dtype}"
        yield Mistake(f"{dtype} norm", description, _with(dtype=dtype))


def _with(**fields: Any) -> Change:
    return lambda candidate: [replace(candidate, norm=candidate.norm._replace(**fields))]
