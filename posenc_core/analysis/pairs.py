"""Pairs: the frequency of each RoPE pair and what a scaling did to it, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from .._array_api.checks import check_integer, check_items, check_type
from ..encodings import RotaryEncoding
from ..rotation import channel_pairs
from ..scaling import Linear, Llama3, Proportional, YaRN

AXES = ("time", "height", "width")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair of channels; None stands for an infinite or unknown number.

    Attributes:
        index: the index of its frequency.
        channels: the two channels of a head.
        axis: the axis whose position rotates it, if positions have several axes.
        frequency: radians per position.
        wavelength: positions per turn of 2π.
        plain_wavelength: positions per turn without the scaling.
        slowed_by: `wavelength / plain_wavelength`.
        turns_in_original, turns_in_longest: number of turns within the original and within the longest length.
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


def pairs_of(rotary: RotaryEncoding, *, original: int | None = None, longest: int | None = None) -> tuple[Pair, ...]:
    """Return all pairs of an encoding, including pairs of frequency 0, which are not rotated.

    Args:
        rotary: the encoding; if its frequencies depend on the length, `rotary.at(length)`.
        original, longest: the lengths in which turns are counted.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or a length is not an integer.
        ValueError: if a length is not positive.

    >>> from posenc_core import Rotary
    >>> [pair.wavelength for pair in pairs_of(Rotary(head_dim=4, layout="half"))]
    [6.283185307179586, 628.3185307179587]
    """
    check_type("rotary", rotary, RotaryEncoding, "a rotary encoding")
    original, longest = (
        None if length is None else check_integer(name, length)
        for name, length in (("original", original), ("longest", longest))
    )
    plain, scaled = rotary.unscaled().frequencies().tolist(), rotary.frequencies().tolist()
    of_head = min(len(scaled), rotary.head_dim // 2)  # tables may have the pairs of each head, one head after another
    first, second = channel_pairs(rotary.head_dim, of_head, rotary.pairing, rotary.pairing.split).tolist()
    names = AXES if rotary.num_axes == len(AXES) else [f"axis {axis}" for axis in range(rotary.num_axes)]
    axes = [names[axis] for axis in rotary.axes] if rotary.num_axes > 1 else [None] * len(scaled)
    return tuple(
        Pair(
            index=i,
            channels=(first[i % of_head], second[i % of_head]),
            axis=axes[i],
            frequency=scaled[i],
            wavelength=math.tau / scaled[i] if scaled[i] else None,
            plain_wavelength=math.tau / plain[i],
            slowed_by=plain[i] / scaled[i] if scaled[i] else None,
            turns_in_original=original and original * scaled[i] / math.tau,
            turns_in_longest=longest and longest * scaled[i] / math.tau,
        )
        for i in range(len(scaled))
    )


def describe_scaling(rotary: RotaryEncoding, pairs: tuple[Pair, ...]) -> str:
    """Return in words which pairs keep their frequency, and which are blended, divided or mixed.

    Raises:
        TypeError: if `rotary` is not a rotary encoding, or `pairs` are not the result of `pairs_of`.

    >>> from posenc_core import Linear, Rotary
    >>> rotary = Rotary(head_dim=4, layout="half", scaling=Linear(factor=8))
    >>> describe_scaling(rotary, pairs_of(rotary))
    'divided by 8: pairs 0–1'
    """
    check_type("rotary", rotary, RotaryEncoding, "a rotary encoding")
    check_items("pairs", pairs, Pair, "pairs, from `pairs_of`")
    runs = [(treatment, list(run)) for treatment, run in groupby(pairs, lambda pair: _treatment(rotary, pair))]
    return "; ".join(f"{treatment}{_divisors(treatment, run)}: {_indices(run)}" for treatment, run in runs)


def _treatment(rotary: RotaryEncoding, pair: Pair) -> str:
    """Return in words what the scaling, or the mixing, did to a pair."""
    if rotary.mixes_rows:
        return "mixed" if pair.frequency else "constant"
    if pair.slowed_by is None:
        return "not rotated"
    if math.isclose(pair.slowed_by, 1, rel_tol=1e-12):
        return "kept"
    scaling = getattr(rotary, "scaling", None)
    if isinstance(scaling, Linear | Llama3 | Proportional | YaRN):
        factor = scaling.factor
        return f"divided by {factor:g}" if math.isclose(pair.slowed_by, factor, rel_tol=1e-12) else "blended, "
    return ""


def _divisors(treatment: str, run: list[Pair]) -> str:
    """Return the divisors of pairs that have a divisor each."""
    if treatment not in ("", "blended, "):
        return ""
    divisors = [f"{divisor:.3g}" for divisor in sorted(pair.slowed_by or 0 for pair in run)]
    return f"divided by {divisors[0]}" + (f" to {divisors[-1]}" if divisors[0] != divisors[-1] else "")


def _indices(run: list[Pair]) -> str:
    first, last = run[0].index, run[-1].index
    return f"pair {first}" if first == last else f"pairs {first}–{last}"
