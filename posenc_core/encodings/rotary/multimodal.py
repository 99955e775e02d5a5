"""The rotary encoding of text, images and video in one sequence: tokens have a time, a height and a width (M-RoPE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..._array_api.checks import check_integer, check_known, shown
from .axial import count_pairs
from .rotary import Rotary

Sections: TypeAlias = Literal["chunked", "interleaved", "ernie"]


@dataclass(frozen=True, kw_only=True, repr=False)
class MultimodalRotary(Rotary):
    """`Rotary` for text, images and video: the time, the height or the width of a token rotates each pair (M-RoPE).

    Positions are `(3, length)` or `(3, batch, length)`, in the order time, height, width; text has the same position
    on all axes. With an arrangement of your own, there may be other axes: one row of positions for each.

    Args:
        sections: the number of pairs for each axis, in the order of the model's `mrope_section`: time, height, width;
            for `"ernie"` height, width, time. They add up to the pairs. Leave them out for an arrangement of your own,
            unless the last axes have no pairs.
        arrangement: the order of the axes: `"chunked"`, one section after the other (Qwen2-VL); `"interleaved"`, t, h,
            w, t, h, w, …, and time for the remaining pairs (Qwen3-VL); `"ernie"`, h, w, h, w, …, then time (Ernie
            4.5 VL, VideoRoPE); or the axis of each pair, from 0, such as `(0, 1, 2, 3)` for four pairs.
    Raises:
        TypeError, ValueError: if the sections do not add up to the pairs, the arrangement does not allow them or has
            not one axis for each pair, or there are neither sections nor the axes of pairs.
    Source: Wang et al. 2024, section 2.1 (arXiv:2409.12191); Wei et al. 2025 (arXiv:2502.05173); the arrangements as
        in the models named.

    >>> MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1)).axes
    (0, 0, 1, 2)
    >>> MultimodalRotary(head_dim=8, layout="half", arrangement=(1, 2, 1, 0)).sections
    (1, 2, 1)
    """

    sections: tuple[int, ...] = ()
    arrangement: Sections | tuple[int, ...] = "chunked"

    def __post_init__(self, frequencies: Any) -> None:
        super().__post_init__(frequencies)
        if not isinstance(self.arrangement, tuple):
            check_known("arrangement", self.arrangement, ("chunked", "interleaved", "ernie"))
        if not isinstance(self.sections, tuple):
            raise TypeError(f"`sections` must be a list of numbers of pairs, got {shown(self.sections)}.")
        for section in self.sections:
            check_integer("sections", section, minimum=0)
        if self.pairs < self.rotary_channels // 2:
            raise ValueError(
                f"`scaling` must leave no pair standing still where pairs have axes, got {shown(self.scaling)}."
            )
        if isinstance(self.arrangement, tuple):
            object.__setattr__(self, "sections", count_pairs(self.arrangement, self.pairs, "sections", self.sections))
        else:
            self._check_sections()

    def _check_sections(self) -> None:
        if not self.sections:
            raise TypeError("`sections` must be given unless `arrangement` is the axis of each pair, got none.")
        if sum(self.sections) != self.pairs:
            raise ValueError(sections_that_fit("sections", self.sections, self.pairs))
        if self.arrangement == "chunked":
            return
        if len(self.sections) != 3:
            raise ValueError(f"`sections` must be three unless they are chunked, got {shown(self.sections)}.")
        wanted = (self.sections[2], *self.sections[:2]) if self.arrangement == "ernie" else self.sections
        found = tuple(self.axes.count(axis) for axis in range(3))
        if found != wanted:
            raise ValueError(f"`sections` cannot be {shown(self.arrangement)}: {wanted} pairs would become {found}.")

    @property
    def num_axes(self) -> int:
        return len(self.sections) if isinstance(self.arrangement, tuple) else 3

    @property
    def axes(self) -> tuple[int, ...]:
        if isinstance(self.arrangement, tuple):
            return self.arrangement
        if self.arrangement == "chunked":
            return tuple(k % 3 for k, section in enumerate(self.sections) for _ in range(section))
        if self.arrangement == "ernie":
            return (1, 2) * self.sections[0] + (0,) * self.sections[2]  # as many rows as columns, or it is refused
        within = [3 * section for section in self.sections]
        return tuple(j % 3 if j < within[j % 3] else 0 for j in range(self.pairs))


def sections_that_fit(name: str, sections: tuple[int, ...], pairs: int) -> str:
    """Return the message that sections do not add up, with some in their proportions that do."""
    _, *others = [section * pairs // max(sum(sections), 1) for section in sections]
    fitting = (pairs - sum(others), *others) if sum(sections) else ()
    hint = f"; {fitting} would" if 0 < len(fitting) <= 4 and min(fitting) >= 0 else ""
    return f"`{name}` must add up to the {pairs} pairs that turn, got {shown(tuple(sections))}{hint}."
