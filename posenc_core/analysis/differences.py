"""Differences of two rotary encodings: which pairs rotate otherwise, from which position on, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_flag, check_integer, check_number, check_type, shown
from ..encodings.rotary.base import RotaryEncoding
from ..positions.sequences import LIMIT
from ..rotation import channel_pairs, rotate_pairs
from ..tables._fixed_point import TWO_PI, high_precision

TOLERANCE = 1e-3
HALF_ULP = 2.0**-9  # of bfloat16, for entries from ½ to 1
FirstOff: TypeAlias = tuple[tuple[float, int | None], ...]
_UNIT = 2**128  # of a radian
_DENSE = 2**12  # positions that are tried one by one for the largest distance


@dataclass(frozen=True, kw_only=True)
class Property:
    """A property in which the two encodings differ.

    Attributes:
        name: such as `"layout"` or `"rotated channels"`.
        a, b: its values.
    """

    name: str
    a: Any
    b: Any


@dataclass(frozen=True, kw_only=True)
class PairDifference:
    """One pair of channels that rotates otherwise; a frequency of 0 stands for a pair that does not rotate.

    Attributes:
        index: the index of its frequency.
        channels_a, channels_b: its two channels; None where no pair has this index.
        axis_a, axis_b: the axis of the positions that rotates it.
        frequency_a, frequency_b: radians per position; negative for inverse rotation.
        first_off: as in `Difference`.
        angle: the difference of the angles at the last position, in radians, whole turns included.
        distance: the largest distance found of a unit vector rotated by one and by the other encoding.
        farthest: the position of that distance.
    """

    index: int
    channels_a: tuple[int, int] | None
    channels_b: tuple[int, int] | None
    axis_a: int
    axis_b: int
    frequency_a: float
    frequency_b: float
    first_off: FirstOff
    angle: float
    distance: float
    farthest: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The differences of two encodings in sequences of one length.

    Attributes:
        seq_len: the length that frequencies are for; None if they depend on no length.
        positions: how many positions were compared, from 0.
        same: whether the two rotate alike at these positions.
        first_off: pairs of a bound and the first position at which a rotated unit vector differs by more than it; None
            if no position below 2**31 does.
        properties: those that differ, whether or not a rotation depends on them.
        pairs: those that rotate otherwise at these positions.
    """

    seq_len: int | None
    positions: int
    same: bool
    first_off: FirstOff
    properties: tuple[Property, ...]
    pairs: tuple[PairDifference, ...]


@dataclass(frozen=True)
class _Turn:
    """The rotation of one pair."""

    index: int
    channels: tuple[int, int] | None
    axis: int
    frequency: Decimal
    factor: float


def difference(
    a: RotaryEncoding,
    b: RotaryEncoding,
    *,
    positions: int,
    any_layout: bool = False,
    tolerance: float = TOLERANCE,
    seq_len: int | None = None,
) -> Difference:
    """Compare two rotary encodings at the positions `0 … positions - 1`, on each axis alike.

    Args:
        a, b: the encodings.
        positions: how many positions.
        any_layout: compare the pairs by their index, whichever channels they have.
        tolerance: the largest distance of rotated unit vectors that counts as the same.
        seq_len: the length of the sequence, for frequencies that depend on it.
    Raises:
        TypeError: if `a` or `b` is not a rotary encoding, or a number is none.
        ValueError: if a number is out of range, learned matrices mix the frequencies of an encoding (`FoPE`), or it
            learns them for each head (`MixedRotary`).

    >>> from posenc_core import Linear, Rotary
    >>> plain = Rotary(head_dim=4, layout="half")
    >>> found = difference(plain, Rotary(head_dim=4, layout="half", base=10001), positions=4096)
    >>> found.first_off[0], found.pairs[0].index
    ((0.001, 2001), 1)
    """
    for name, encoding in (("a", a), ("b", b)):
        check_type(name, encoding, RotaryEncoding, "a rotary encoding")
        check_angles(name, encoding)
    positions = check_integer("positions", positions, maximum=LIMIT)
    any_layout = check_flag("any_layout", any_layout)
    check_tolerance(tolerance)
    a, b = a.at(seq_len), b.at(seq_len)
    bounds = tuple(sorted({tolerance, HALF_ULP}))
    other_channels = not _fit(a, b, any_layout=any_layout)
    pairs = tuple(_pairs(a, b, by_index=any_layout or other_channels, positions=positions, bounds=bounds))
    firsts = [dict(pair.first_off) for pair in pairs]
    if other_channels:
        firsts.append(dict(_first_off_of_matrices(a, b, bounds)))
    earliest = {bound: min((p for f in firsts if (p := f[bound]) is not None), default=None) for bound in bounds}
    return Difference(
        seq_len=seq_len,
        positions=positions,
        same=is_same(a, b, positions=positions, any_layout=any_layout, tolerance=tolerance),
        first_off=tuple(earliest.items()),
        properties=tuple(_properties(a, b, other_channels=other_channels)),
        pairs=tuple(
            pair
            for pair in pairs
            if pair.axis_a != pair.axis_b or _is_before(dict(pair.first_off)[tolerance], positions)
        ),
    )


def check_angles(name: str, rotary: RotaryEncoding) -> None:
    """Raise unless each pair is rotated by one angle that is known."""
    if not rotary.has_frequencies:
        raise ValueError(f"`{name}` must have known frequencies, got {shown(rotary)}, whose weights have them.")
    if rotary.mixes_rows:
        raise ValueError(
            f"`{name}` must have one frequency for each pair, got {shown(rotary)}, whose matrices mix them."
        )


def check_tolerance(tolerance: object) -> None:
    """Raise unless `tolerance` is a number above 0 and at most 1."""
    check_number("tolerance", tolerance, above=0)
    if tolerance > 1:  # type: ignore[operator]
        raise ValueError(f"`tolerance` must be at most 1, got {shown(tolerance)}.")


def is_same(
    a: RotaryEncoding,
    b: RotaryEncoding,
    *,
    positions: int,
    any_layout: bool = False,
    tolerance: float = TOLERANCE,
    seq_len: int | None = None,
) -> bool:
    """Return whether two rotary encodings rotate alike, as `difference` does; arguments as there."""
    a, b = a.at(seq_len), b.at(seq_len)
    return _fit(a, b, any_layout=any_layout) and all(
        one.axis == other.axis
        and not _is_before(first_off(one.factor, other.factor, _rate(one, other), tolerance), positions)
        for one, other in _matched(_turns(a), _turns(b), by_index=any_layout)
    )


def first_off(factor_a: float, factor_b: float, rate: float, bound: float) -> int | None:
    """Return the first position at which `|a exp(i p wa) - b exp(i p wb)|` exceeds a bound; None if none does.

    Args:
        factor_a, factor_b: the attention factors a and b.
        rate: `wa - wb`, radians per position.
        bound: at most 1.

    >>> first_off(1.0, 1.0, 0.25, 0.5)
    3
    """
    if abs(factor_a - factor_b) > bound:
        return 0
    sine = math.sqrt((bound**2 - (factor_a - factor_b) ** 2) / (4 * factor_a * factor_b))
    if sine >= 1:
        return None
    turn, nearest = int(Fraction(TWO_PI) * _UNIT), int(2 * math.asin(sine) * _UNIT) + 1
    position = _first_between(int(Fraction(rate) * _UNIT) % turn, turn, nearest, turn - nearest)
    return None if position is None or position >= LIMIT else position


def _first_between(step: int, turn: int, low: int, high: int) -> int | None:
    """Return the first number of steps after which one is between two places of a circle, both above 0."""
    if 2 * step > turn:  # the other way round is shorter
        step, low, high = turn - step, turn - high, turn - low
    if step == 0 or low > high:
        return None
    steps = -(-low // step)
    if steps * step <= high:
        return steps
    # No place of the first turn is between them, so count turns: the steps left over at each are a smaller circle.
    turns = _first_between(-turn % step, step, low % step, high % step)
    return None if turns is None else -(-(low + turns * turn) // step)


def _is_before(position: int | None, end: int) -> bool:
    return position is not None and position < end


def _turns(encoding: RotaryEncoding) -> list[_Turn]:
    """Return the pairs that rotate."""
    count, sign = encoding.pairs, -1 if encoding.direction == "inverse" else 1
    channels = channel_pairs(encoding.head_dim, count, encoding.pairing, encoding.pairing.split).T.tolist()
    factors = encoding.attention_factors.tolist()
    rows = zip(channels, encoding.axes, encoding.exact_frequencies()[:count], factors, strict=True)
    return [
        _Turn(index, (first, second), axis, sign * frequency, factor)
        for index, ((first, second), axis, frequency, factor) in enumerate(rows)
    ]


def _fit(a: RotaryEncoding, b: RotaryEncoding, *, any_layout: bool) -> bool:
    """Return whether heads have one width, and no channel is in one pair of `a` and in another of `b`."""
    pairs = {turn.channels for encoding in (a, b) for turn in _turns(encoding)}
    channels = [channel for pair in pairs if pair for channel in pair]
    return a.head_dim == b.head_dim and (any_layout or len(set(channels)) == len(channels))


def _pairs(
    a: RotaryEncoding, b: RotaryEncoding, *, by_index: bool, positions: int, bounds: tuple[float, ...]
) -> Iterator[PairDifference]:
    """Yield the pairs of the two that have the same channels, or the same index."""
    for one, other in _matched(_turns(a), _turns(b), by_index=by_index):
        rate = _rate(one, other)
        distance, farthest = _largest(one.factor, other.factor, rate, positions)
        yield PairDifference(
            index=one.index if one.channels else other.index,
            channels_a=one.channels,
            channels_b=other.channels,
            axis_a=one.axis,
            axis_b=other.axis,
            frequency_a=float(one.frequency),
            frequency_b=float(other.frequency),
            first_off=tuple((bound, first_off(one.factor, other.factor, rate, bound)) for bound in bounds),
            angle=abs(rate) * (positions - 1),
            distance=distance,
            farthest=farthest,
        )


def _matched(a: list[_Turn], b: list[_Turn], *, by_index: bool) -> Iterator[tuple[_Turn, _Turn]]:
    if by_index:
        partners = list(zip_longest(a, b))
    else:
        ours, theirs = ({turn.channels: turn for turn in turns} for turns in (a, b))
        partners = [(ours.get(key), theirs.get(key)) for key in {**ours, **theirs}]
    for one, other in partners:
        yield one or _still(other), other or _still(one)


def _rate(one: _Turn, other: _Turn) -> float:
    """Return the difference of the frequencies, rounded once."""
    with high_precision():
        return float(one.frequency - other.frequency)


def _still(turn: _Turn) -> _Turn:
    """Return a pair that does not rotate, beside one that does."""
    return replace(turn, channels=None, frequency=Decimal(0), factor=1.0)


def _largest(factor_a: float, factor_b: float, rate: float, positions: int) -> tuple[float, int]:
    """Return the largest distance found, and its position: of all small positions, and of those nearest half a turn."""
    step = abs(math.remainder(rate, math.tau))
    tried = [np.arange(min(positions, _DENSE)), np.array([positions - 1])]
    if step:
        tried.append(np.rint(np.arange(1, 8, 2) * math.pi / step).clip(0, positions - 1).astype(np.int64))
    candidates = np.concatenate(tried)
    squares = (factor_a - factor_b) ** 2 + 4 * factor_a * factor_b * np.sin(candidates * (step / 2)) ** 2
    best = int(np.argmax(squares))
    return math.sqrt(squares[best]), int(candidates[best])


def _first_off_of_matrices(a: RotaryEncoding, b: RotaryEncoding, bounds: tuple[float, ...]) -> FirstOff:
    """Return the first positions at which the two, as matrices, differ by more than the bounds in any direction."""
    if a.head_dim != b.head_dim:
        return tuple((bound, 0) for bound in bounds)
    found: dict[float, int | None] = dict.fromkeys(bounds)
    for position in range(_DENSE):
        distance = float(np.linalg.norm(_matrix(a, position) - _matrix(b, position), ord=2))
        found |= {bound: position for bound in bounds if found[bound] is None and distance > bound}
        if None not in found.values():
            break
    return tuple(found.items())


def _matrix(encoding: RotaryEncoding, position: int) -> npt.NDArray[np.float64]:
    """Return the rotation at a position as a matrix, its rows in the order of the input's channels."""
    pairing = encoding.pairing._replace(join=encoding.pairing.split)
    rotated: npt.NDArray[np.float64] = rotate_pairs(
        np.eye(encoding.head_dim), *encoding.cos_sin([position]), pairing=pairing
    )
    return rotated


def _properties(a: RotaryEncoding, b: RotaryEncoding, *, other_channels: bool) -> Iterator[Property]:
    for name, read in _PROPERTIES.items():
        values = read(a), read(b)
        if values[0] != values[1] and (other_channels or name not in ("layout", "placement")):
            yield Property(name=name, a=values[0], b=values[1])
    if a.pairing.split == b.pairing.split and a.pairing.join != b.pairing.join:
        yield Property(name="order of the result", a=a.pairing.join, b=b.pairing.join)


def _axes(encoding: RotaryEncoding) -> str:
    """Return in words how many pairs each axis rotates."""
    counts = [encoding.axes.count(axis) for axis in range(encoding.num_axes)]
    return "one" if encoding.num_axes == 1 else f"{encoding.num_axes}, with {', '.join(map(str, counts))} pairs"


_PROPERTIES = {
    "head": lambda encoding: encoding.head_dim,
    "rotated channels": lambda encoding: 2 * encoding.pairs,
    "layout": lambda encoding: encoding.pairing.split,
    "placement": lambda encoding: encoding.pairing.placement if 2 * encoding.pairs < encoding.head_dim else "all",
    "direction": lambda encoding: encoding.direction,
    "attention factor": lambda encoding: encoding.attention_factor,
    "axes": _axes,
}
