"""Common features of arrays of NumPy or PyTorch: equal tokens, tables of cosine and sine, and axes of products."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

SAME = 1e-5  # relative difference of rows that do not depend on positions


def are_alike(x: Any, sizes: tuple[int, int]) -> bool:
    """Return whether all tokens have the same numbers; `x` is `(rows, …, length, …)`."""
    axes = [axis for axis, size in enumerate(x.shape) if axis and size == sizes[1]]
    if tuple(x.shape[:1]) != sizes[:1] or not axes:
        return False
    first = x[(slice(1), *(slice(1 if axis == axes[0] else None) for axis in range(1, x.ndim)))]
    return bool(abs(x - first).max() <= SAME * abs(x).max())


def keep_lengths(x: Any, rotated: Any) -> bool:
    """Return whether a module leaves the length of each row as it is, up to one factor for all."""
    before, after = (_norms(one) for one in (x, rotated))
    factor = _norms(after.reshape(-1)) / _norms(before.reshape(-1))
    return bool(abs(after - factor * before).max() <= 2**-6 * after.max())


def are_tables(results: Sequence[Any]) -> bool:
    """Return whether arrays are cosine and sine of the same angles, or one is a complex number for each."""
    if len(results) == 1 and _is_complex(results[0]):
        squares = abs(results[0]) ** 2
    elif len(results) == 2 and results[0].shape == results[1].shape and not any(map(_is_complex, results)):
        squares = _wide(results[0]) ** 2 + _wide(results[1]) ** 2
    else:
        return False
    size = squares.mean()
    return bool(size > 0 and abs(squares - size).max() <= 2**-5 * size)


def place_of_cosine(results: Sequence[Any]) -> int:
    """Return which of two tables is the cosine: it is near 1 in the first row, of position 0."""
    first = [_norms(one.reshape(-1, one.shape[-1])[0]) for one in results]
    return int(len(first) > 1 and bool(first[1] > first[0]))


def ones_and_zeros(tables: Sequence[Any], cosine: int | None = None) -> list[Any]:
    """Return tables by which nothing rotates, in place of a complex one, or of the cosine and the sine."""
    cosine = place_of_cosine(tables) if cosine is None else cosine
    return [one * 0 + float(number == cosine) for number, one in enumerate(tables)]


def identities(tables: Sequence[Any]) -> dict[int, Any]:
    """Return, for those of some arrays that are tables of cosine and sine, tables by which nothing rotates."""
    found: dict[int, Any] = {}
    for at, one in enumerate(tables):
        for other in range(at + 1, len(tables)):
            if are_tables((one, tables[other])):
                found |= dict(zip((at, other), ones_and_zeros((one, tables[other])), strict=True))
        if are_tables([one]):
            found[at] = one * 0 + 1
        elif one.shape[-1] % 2 == 0 and not _is_complex(one):
            half = one.shape[-1] // 2
            parts = one[..., :half], one[..., half:]
            if are_tables(parts):
                found[at] = one * 0
                found[at][..., :half], found[at][..., half:] = ones_and_zeros(parts)
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


def _is_complex(x: Any) -> bool:
    return "complex" in str(x.dtype)


def _wide(x: Any) -> Any:
    """Return real numbers in float64."""
    return x.double() if hasattr(x, "double") else x


def _norms(x: Any) -> Any:
    return (_wide(x) ** 2).sum(-1) ** 0.5
