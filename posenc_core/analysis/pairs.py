"""Pairs: how fast each pair of channels turns, and what a scaling did to it, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import groupby

from ..encodings import MultimodalRotary, Rotary
from ..rotation import channel_pairs
from ..scaling import Linear, Llama3, Proportional, YaRN

AXES = ("time", "height", "width")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair of channels; None stands for what is infinite, or not known.

    Attributes:
        index: its place among the frequencies.
        channels: the two channels of a head.
        axis: of positions on several axes the one that it turns by.
        frequency: radians per position.
        wavelength: positions per turn.
        plain_wavelength: the same by the base alone.
        slowed_by: how many times longer the one is than the other.
        turns_in_original, turns_in_longest: turns within the original and within the longest length.
    """

    index: int
    channels: tuple[int, int]
    axis: str | None
    frequency: float
    wavelength: float | None
    plain_wavelength: float
    slowed_by: float | None
    turns_in_original: float | None
    turns_in_longest: float | None


def pairs_of(rotary: Rotary, *, original: int | None = None, longest: int | None = None) -> tuple[Pair, ...]:
    """The pairs of an encoding, those that stand still, too.

    Args:
        rotary: the encoding, for the length that it is at.
        original, longest: lengths within which turns are counted.

    >>> [pair.wavelength for pair in pairs_of(Rotary(head_dim=4, layout="half"))]
    [6.283185307179586, 628.3185307179587]
    """
    plain, slow = replace(rotary, scaling=None).frequencies().tolist(), rotary.frequencies().tolist()
    first, second = channel_pairs(rotary.head_dim, len(slow), rotary.pairing, rotary.pairing.split).tolist()
    axes = [AXES[axis] for axis in rotary.axes] if isinstance(rotary, MultimodalRotary) else [None] * len(slow)
    return tuple(
        Pair(
            index=i,
            channels=(first[i], second[i]),
            axis=axes[i],
            frequency=slow[i],
            wavelength=math.tau / slow[i] if slow[i] else None,
            plain_wavelength=math.tau / plain[i],
            slowed_by=plain[i] / slow[i] if slow[i] else None,
            turns_in_original=original and original * slow[i] / math.tau,
            turns_in_longest=longest and longest * slow[i] / math.tau,
        )
        for i in range(len(slow))
    )


def slowing(rotary: Rotary, pairs: tuple[Pair, ...]) -> str:
    """Which of the pairs are kept, blended or divided, in words.

    >>> from posenc_core import Linear
    >>> rotary = Rotary(head_dim=4, layout="half", scaling=Linear(factor=8))
    >>> slowing(rotary, pairs_of(rotary))
    'divided by 8: pairs 0–1'
    """
    runs = [(treatment, list(run)) for treatment, run in groupby(pairs, lambda pair: _treatment(rotary, pair))]
    return "; ".join(f"{treatment}{_range(treatment, run)}: {_numbers(run)}" for treatment, run in runs)


def _treatment(rotary: Rotary, pair: Pair) -> str:
    """What the scaling did to a pair, in words."""
    if pair.slowed_by is None:
        return "standing still"
    if math.isclose(pair.slowed_by, 1, rel_tol=1e-12):
        return "kept"
    if isinstance(rotary.scaling, Linear | Llama3 | Proportional | YaRN):
        factor = rotary.scaling.factor
        return f"divided by {factor:g}" if math.isclose(pair.slowed_by, factor, rel_tol=1e-12) else "blended, "
    return ""


def _range(treatment: str, run: list[Pair]) -> str:
    """Between which numbers pairs are divided, where each is by its own."""
    if treatment not in ("", "blended, "):
        return ""
    divisors = [f"{divisor:.3g}" for divisor in sorted(pair.slowed_by or 0 for pair in run)]
    return f"divided by {divisors[0]}" + (f" to {divisors[-1]}" if divisors[0] != divisors[-1] else "")


def _numbers(run: list[Pair]) -> str:
    first, last = run[0].index, run[-1].index
    return f"pair {first}" if first == last else f"pairs {first}–{last}"
