"""The axis of each pair of channels, as an argument."""

from __future__ import annotations

from ..._array_api.checks import check_integer, shown

LAST = 63


def counted(axes: tuple[int, ...], pairs: int, name: str, given: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of pairs of each axis.

    Args:
        axes: the axis of each pair, the argument `arrangement`.
        pairs: the number of pairs that rotate.
        name: the name of the argument with the number of pairs for each axis.
        given: that argument, in pairs; empty if it is left out.
    Raises:
        TypeError, ValueError: if there is not one axis for each pair, or `given` is not the number of pairs.
    """
    if len(axes) != pairs:
        raise ValueError(f"`arrangement` must be one axis for each of {pairs} pairs, got {len(axes)} axes.")
    for axis in axes:
        check_integer("arrangement", axis, minimum=0, maximum=LAST)
    num_axes = max(max(axes) + 1, len(given))
    counts = tuple(axes.count(axis) for axis in range(num_axes))
    if given and given != counts:
        raise ValueError(
            f"`{name}` must be left out or be {shown(counts)}, the pairs of each axis in `arrangement`, "
            f"got {shown(given)}."
        )
    return counts
