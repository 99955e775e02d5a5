"""Common features of a model's arrays: equal tokens, tables of cosine and sine, and the axes of products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np
import numpy.typing as npt

SAME = 1e-5  # relative difference of rows that do not depend on positions


def are_alike(x: npt.NDArray[Any], sizes: tuple[int, int]) -> bool:
    """Return whether all tokens have the same numbers; `x` is `(rows, …, length, …)`."""
    axes = [axis for axis, size in enumerate(x.shape) if axis and size == sizes[1]]
    if x.shape[:1] != sizes[:1] or not axes:
        return False
    return bool(np.abs(x - x[:1].take([0], axes[0])).max() <= SAME * np.abs(x).max())


def have_lengths(x: npt.NDArray[Any], rotated: npt.NDArray[Any]) -> bool:
    """Return whether all rows of a result are longer than those that were given by the same factor."""
    before, after = (np.linalg.norm(one, axis=-1) for one in (x, rotated))
    factor = np.linalg.norm(after) / np.linalg.norm(before)
    return bool(np.abs(after - factor * before).max() <= 2**-6 * after.max())


def are_tables(results: Sequence[npt.NDArray[Any]]) -> bool:
    """Return whether arrays are cosine and sine of the same angles, or one is a complex number for each."""
    if len(results) == 1 and np.iscomplexobj(results[0]):
        squares = np.abs(results[0]) ** 2
    elif len(results) == 2 and results[0].shape == results[1].shape:
        squares = results[0] ** 2 + results[1] ** 2
    else:
        return False
    size = squares.mean()
    return bool(size > 0 and np.abs(squares - size).max() <= 2**-5 * size)


def place_of_cosine(results: Sequence[npt.NDArray[Any]]) -> int:
    """Return which of two tables is the cosine: it is near 1 in the first row, of position 0."""
    first = [np.linalg.norm(one.reshape(-1, one.shape[-1])[0]) for one in results]
    return int(len(first) > 1 and first[1] > first[0])


def identities(tables: Sequence[npt.NDArray[Any]]) -> dict[int, npt.NDArray[Any]]:
    """Return, for those of some arrays that are tables of cosine and sine, tables by which nothing rotates."""
    found: dict[int, npt.NDArray[Any]] = {}
    for at, one in enumerate(tables):
        for other in range(at + 1, len(tables)):
            both = (one, tables[other])
            if are_tables(both):
                cosine = place_of_cosine(both)
                found |= {place: np.full_like(one, float(cosine == n)) for n, place in enumerate((at, other))}
        if np.iscomplexobj(one) and are_tables([one]):
            found[at] = np.ones_like(one)
        elif one.shape[-1] % 2 == 0 and are_tables(halves := np.split(one, 2, axis=-1)):
            cosine = place_of_cosine(halves)
            ones = [np.full_like(half, float(cosine == n)) for n, half in enumerate(halves)]
            found[at] = np.concatenate(ones, axis=-1)
    return found


def axes_of_products(equation: str, num_axes: int) -> list[tuple[int, list[int]]]:
    """Return which operands of an einsum are queries and keys, and the axes that make each `(…, length, width)`.

    The order of axes in the result tells them apart.

    Args:
        equation: of two operands.
        num_axes: of the first operand.
    """
    inputs, _, output = equation.replace(" ", "").partition("->")
    first, second = inputs.split(",")
    rest = [letter for letter in ascii_letters if letter not in equation][: num_axes - len(first.replace("...", ""))]
    first, second, output = (one.replace("...", "".join(rest)) for one in (first, second, output))
    width = [letter for letter in first if letter in second and letter not in output]
    operands = [(0, first), (1, second)] if output[-1] in second else [(1, second), (0, first)]
    return [
        (place, [labels.index(letter) for letter in (*(one for one in output if one in labels), *width)])
        for place, labels in operands
    ]
