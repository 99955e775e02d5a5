"""Mistakes in queries and keys as magnitudes at angles (PoPE): magnitudes, phases, frequencies, order of channels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.encodings import PoPE, Rotary

from ..candidates import Candidate, Float64s
from .base import Change, Mistake, base_mistakes, with_outcome, with_positions, with_tables
from .rotary import identity, swap_cos_and_sin

PERIOD = 2 * np.pi
Magnitude = Callable[[Float64s], Float64s]
MAGNITUDES: dict[str, Magnitude] = {
    "relu(x)": lambda x: np.maximum(x, 0),
    "exp(x)": lambda x: np.exp(np.minimum(x, 700)),
    "abs(x)": np.abs,
    "sigmoid(x)": lambda x: 1 / (1 + np.exp(-np.maximum(x, -700))),
    "silu(x)": lambda x: x / (1 + np.exp(-np.maximum(x, -700))),
    "elu(x) + 1": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
    "x ** 2": np.square,
}


def polar_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the mistakes in queries and keys of this encoding, except those in positions."""
    yield Mistake("softplus missing", "the magnitudes are the channels themselves", _with_magnitudes(lambda x: x))
    for formula, magnitude in MAGNITUDES.items():
        name, description = "another function for softplus", f"the magnitudes are {formula}"
        yield Mistake(name, description, _with_magnitudes(magnitude))
    yield from _phase_mistakes()
    description = "cosine and sine of a channel lie side by side; in the form `products`, any order is right"
    yield Mistake("channels in another order", description, with_outcome(_side_by_side))
    yield Mistake("cos and sin swapped", "the products with the sine come first", with_tables(swap_cos_and_sin))
    yield Mistake("sign flipped", "angles have the opposite sign", with_tables(lambda cos, sin: (cos, -sin)))
    yield Mistake("sign flipped", "the angles of positions have the opposite sign", with_positions(np.negative))
    yield Mistake("not rotated", "all angles are 0", with_tables(identity))
    yield from _frequency_mistakes(encoding)


def _phase_mistakes() -> Iterator[Mistake]:
    """Yield the mistakes in phases; those in their bounds show only with phases out of bounds."""
    for description, change in (
        ("phases are subtracted", lambda phase: -_bounded(phase)),
        ("phases are subtracted, and have no bounds", lambda phase: -phase),
    ):
        yield Mistake("sign of phases flipped", description, _with_phases(change))
    yield Mistake("phases ignored", "the phases of keys count as 0", _with_phases(np.zeros_like))
    for sign, words in ((1, "the"), (-1, "the opposite")):
        description = f"queries have {words} phases of keys"
        yield Mistake("phases on queries", description, partial(_with_phases_of_queries, sign=sign))
    yield Mistake("phases without bounds", "phases count as they are", _with_phases(lambda phase: phase))
    for low, high, words in (
        (0, PERIOD, "0 and 2π"),
        (-np.pi, np.pi, "-π and π"),
        (-PERIOD, PERIOD, "-2π and 2π"),
        (-np.pi, 0, "-π and 0"),
    ):
        bounded = partial(np.clip, a_min=low, a_max=high)
        yield Mistake("phases with other bounds", f"phases are bounded by {words}", _with_phases(bounded))
    reverse = _with_phases(lambda phase: _bounded(phase)[::-1])
    yield Mistake("heads reversed", "the heads of phases are in reverse order", reverse)
    first = _with_phases(lambda phase: np.broadcast_to(_bounded(phase)[:1], phase.shape))
    yield Mistake("phases of the first head", "all heads have the phases of the first", first)


def _frequency_mistakes(encoding: Any) -> Iterator[Mistake]:
    width = encoding.head_dim
    channels = np.arange(width)
    for description, exponents in (
        (f"exponents are 2c / {width}, not c / {width}", 2 * channels / width),
        (f"exponents are c / {2 * width}, not c / {width}", channels / (2 * width)),
        (f"exponents are c / {width - 1}, from 0 to 1", channels / max(width - 1, 1)),
    ):
        yield Mistake("wrong denominator", description, _with_exponents(exponents))
    for description, exponents in (
        ("channels c and c + head_dim / 2 have one frequency, as in RoPE", 2 * (channels % -(-width // 2)) / width),
        ("channels 2c and 2c + 1 have one frequency, as in RoPE", 2 * (channels // 2) / width),
    ):
        yield Mistake("frequencies of RoPE", description, _with_exponents(exponents))
    yield from base_mistakes(encoding, PoPE.base)


def _with_magnitudes(magnitude: Magnitude) -> Change:
    return lambda candidate: [replace(candidate, apply=partial(_apply, magnitude=magnitude))]


def _apply(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any, *, magnitude: Magnitude) -> Float64s:
    magnitudes = magnitude(x)
    return np.concatenate([magnitudes * cos, magnitudes * sin], axis=-1)


def _side_by_side(x: Float64s, result: Float64s) -> Float64s:
    return np.stack(np.split(result, 2, axis=-1), axis=-1).reshape(result.shape)


def _bounded(phase: Float64s) -> Float64s:
    return np.clip(phase, -PERIOD, 0)


def _with_phases(change: Callable[[Float64s], Any]) -> Change:
    return lambda candidate: [_phased(candidate, "phase", change(candidate.weights["phase"]))]


def _with_phases_of_queries(candidate: Candidate, sign: int) -> list[Candidate]:
    return [_phased(candidate, "query_phase", sign * _bounded(candidate.weights["phase"]))]


def _phased(candidate: Candidate, name: str, phase: Any) -> Candidate:
    """Return the candidate with the same angles between -2π and 0, where the encoding leaves phases as they are."""
    within_period = -np.mod(-np.asarray(phase, np.float64), PERIOD)
    return replace(candidate, weights={**candidate.weights, name: within_period})


def _with_exponents(exponents: Float64s) -> Change:
    def change(candidate: Candidate) -> list[Candidate]:
        encoding: Any = copy.copy(candidate.encoding)
        frequencies = tuple(map(float, encoding.base**-exponents))
        rotary = Rotary(head_dim=2 * encoding.head_dim, layout="half", frequencies=frequencies)
        object.__setattr__(encoding, "rotary", rotary)
        return [replace(candidate, encoding=encoding)]

    return change
