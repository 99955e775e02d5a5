"""Mistakes in the axis that each pair of a rotary encoding follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import permutations
from typing import Any

import numpy as np

from ..candidates import Candidate, Float64s
from .base import Mistake, with_fields

NAME = "axes arranged in another order"
MOST_AXES = 4  # of whose permutations all are tried
MOST_SHOWN = 64  # pairs whose axes are written out

Axes = tuple[int, ...]


def arrangement_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the arrangements of models, for any order of the axes, then any arrangement at all."""
    num_axes = encoding.num_axes
    if not 1 < num_axes <= MOST_AXES or getattr(encoding, "series", "own") == "dealt":
        return
    tried = {encoding.axes}
    for axes in _arrangements(encoding.axes, num_axes):
        if axes not in tried:
            tried.add(axes)
            yield _arranged(encoding, axes)
    if hasattr(encoding, "sections"):  # which are free, unlike sizes of axes
        description = "each pair follows one of the axes, but not that of its arrangement"
        yield Mistake(NAME, description, _one_axis_each, refine=lambda errors: _found_in(encoding, errors))


def _arrangements(axes: Axes, num_axes: int) -> Iterator[Axes]:
    counts = [axes.count(axis) for axis in range(num_axes)]
    for order in permutations(range(num_axes)):
        yield tuple(axis for axis in order for _ in range(counts[axis]))
        yield _in_turn(order, counts)
        for first in range(1, num_axes - 1):
            yield _in_turn(order[:first], counts) + _in_turn(order[first:], counts)
            yield _in_turn(order[first:], counts) + _in_turn(order[:first], counts)
    if min(counts) > 1 and num_axes <= 3:
        from posenc_core.huggingface.sections import spread  # takes long to import

        yield spread(counts)
    for order in permutations(range(num_axes)):
        yield tuple(order[axis] for axis in axes)
    yield axes[::-1]


def _in_turn(order: Sequence[int], counts: Sequence[int]) -> Axes:
    """Return the axes that take pairs in turn, as long as they have some left."""
    left = {axis: counts[axis] for axis in order}
    found: list[int] = []
    while any(left.values()):
        found += [axis for axis in order if left[axis]]
        left = {axis: max(count - 1, 0) for axis, count in left.items()}
    return tuple(found)


def _arranged(encoding: Any, axes: Axes) -> Mistake:
    counts = tuple(axes.count(axis) for axis in range(encoding.num_axes))
    sizes: dict[str, Any] = {"sections": counts, "axes_dims": tuple(2 * count for count in counts)}
    given = {field.name: sizes[field.name] for field in fields(encoding) if field.name in sizes}
    written = str(axes) if len(axes) <= MOST_SHOWN else f"{str(axes[:MOST_SHOWN])[:-1]}, …)"
    return Mistake(NAME, f"pairs follow the axes of `arrangement` {written}", with_fields(arrangement=axes, **given))


def _one_axis_each(candidate: Candidate) -> Iterator[Candidate]:
    """Yield for each axis the candidate whose pairs all follow it; each column may match another one."""
    encoding = candidate.encoding
    for axis in range(encoding.num_axes):
        sections = tuple(encoding.pairs if each == axis else 0 for each in range(encoding.num_axes))
        yield candidate.with_fields(arrangement=(axis,) * encoding.pairs, sections=sections)


def _found_in(encoding: Any, errors: list[Float64s]) -> Iterator[Mistake]:
    """Yield the arrangements that the errors of each axis in each column suggest, for either order of columns."""
    columns = np.argmin(errors, axis=0)
    for of_pairs in (columns[: encoding.pairs], columns[: 2 * encoding.pairs : 2]):
        axes = tuple(of_pairs.tolist())
        if len(axes) == encoding.pairs:
            yield _arranged(encoding, axes)
