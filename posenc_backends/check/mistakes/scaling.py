"""Mistakes in scalings of frequencies: left out, confused with others, or computed wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.encodings import Rotary
from posenc_core.scaling import NTK, Linear, Llama3, LongRoPE, NTKAlpha, YaRN

from ..candidates import Candidate, Float64s
from .base import Mistake, at_frequencies, combine, with_fields, with_frequencies

NAME = "wrong scaling"


def scaling_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield scalings that are left out, or confused with others."""
    scaling, plain = encoding.scaling, replace(encoding, scaling=None).frequencies()
    scaled, pairs, kind = encoding.frequencies(), encoding.rotary_channels // 2, type(scaling).__name__
    yield Mistake("scaling ignored", f"{kind} is left out", with_fields(scaling=None))
    if encoding.attention_factor != 1:
        description = f"{kind} is left out, except for its attention factor"
        yield with_frequencies("scaling ignored", description, encoding, plain)
    factor = getattr(scaling, "factor", None) or getattr(scaling, "alpha", None) or 1.0
    if factor > 1:
        yield from _other_scalings(encoding, plain, factor, pairs)
    for description, frequencies in _own_mistakes(encoding, plain, scaled):
        yield _at(encoding, description, frequencies)
        if encoding.attention_factor != 1:
            lost = f"{description}; the attention factor is missing"
            yield _at(replace(encoding, scaling=None), lost, frequencies)
    if isinstance(scaling, YaRN):
        other = replace(scaling, truncate=not scaling.truncate)
        description = f"the ramp is that of truncate={other.truncate}"
        yield Mistake("truncate ignored", description, with_fields(scaling=other))
    if isinstance(scaling, Linear):
        description = f"positions are divided by {scaling.factor:g} as integers, which loses the remainder"
        yield Mistake(NAME, description, partial(_divide_positions, factor=scaling.factor))
    if isinstance(scaling, LongRoPE):
        original = scaling.original_max_position_embeddings
        is_long = scaling.seq_len is not None and scaling.seq_len > original
        other_length = replace(scaling, seq_len=None if is_long else original + 1)
        description = f"divisors are those of {'shorter' if is_long else 'longer'} sequences"
        yield Mistake(NAME, description, with_fields(scaling=other_length))
    if isinstance(scaling, Llama3):
        usual = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
        if usual != scaling:
            description = "the numbers are those of Llama 3.1, whatever the model's are"
            yield Mistake(NAME, description, with_fields(scaling=usual))


def _at(encoding: Rotary, description: str, frequencies: Float64s) -> Mistake:
    """Return the mistake of these frequencies, which may be negative."""
    if (frequencies > 0).all():
        return with_frequencies(NAME, description, encoding, frequencies)
    sign = -1 if encoding.direction == "inverse" else 1
    changed = Mistake(NAME, description, at_frequencies(sign * frequencies))
    if encoding.scaling is not None:
        return changed
    unscaled = Mistake(NAME, description, with_fields(scaling=None))
    return combine(unscaled, changed)._replace(name=NAME, description=description)


def _other_scalings(encoding: Rotary, plain: Float64s, factor: float, pairs: int) -> Iterator[Mistake]:
    """Yield `Linear` and `NTK` in place of the scaling, with its attention factor or without."""
    description = "every frequency is divided by the same number"
    kept = "; the attention factor is kept"
    yield Mistake(NAME, f"{description}, {factor:g}", with_fields(scaling=Linear(factor=factor)))
    raised = f"the base is raised as in NTK by {factor:g}"
    if encoding.attention_factor != 1:
        yield with_frequencies(NAME, f"{description}, {factor:g}{kept}", encoding, plain / factor)
        frequencies = replace(encoding, scaling=NTK(factor=factor)).frequencies()
        yield with_frequencies(NAME, f"{raised}{kept}", encoding, frequencies)
    if pairs > 1:
        common = factor ** (2 * pairs / (2 * pairs - 2))
        yield with_frequencies(NAME, f"{description}, {common:.4g}", encoding, plain / common)
    yield Mistake(NAME, raised, with_fields(scaling=NTK(factor=factor)))


def _own_mistakes(encoding: Rotary, plain: Float64s, scaled: Float64s) -> Iterator[tuple[str, Float64s]]:
    """Yield wrong ways to compute the scaling, each with the frequencies that it gives."""
    scaling: Any = encoding.scaling
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(plain == 0, 1, scaled / plain)
    if isinstance(scaling, YaRN):
        yield "the ramp is reversed: high frequencies are scaled", plain + plain / scaling.factor - scaled
        yield from _yarn_mistakes(encoding, scaling, plain)
    if isinstance(scaling, Llama3):
        yield from _llama3_mistakes(scaling, plain)
    if isinstance(scaling, NTK | NTKAlpha) and len(plain) > 1:
        factor: float = scaling.factor if isinstance(scaling, NTK) else scaling.alpha
        channels = 2 * len(plain)
        exponents = np.arange(0, channels, 2) / channels
        for words, power in (
            ("by the factor, without an exponent", 1.0),
            ("with the exponent (d - 2) / d", (channels - 2) / channels),
            ("with the exponent d / (d - 1)", channels / (channels - 1)),
        ):
            yield f"the base is raised {words}", plain * factor ** (-power * exponents)
    yield "the scaling is applied twice", scaled * slowdown
    if (slowdown > 0).all():
        yield "frequencies are multiplied where they must be divided", plain / slowdown


def _yarn_mistakes(encoding: Rotary, scaling: YaRN, plain: Float64s) -> Iterator[tuple[str, Float64s]]:
    pairs, original = len(plain), float(scaling.original_max_position_embeddings)
    steps, last = np.arange(pairs), 2.0 * pairs - 1

    def index(turns: float, length: float = original) -> float:
        return float(pairs * np.log(length / (2 * np.pi * turns)) / np.log(encoding.base))

    def bounds(fast: float, slow: float) -> tuple[float, float]:
        return (np.floor(fast), np.ceil(slow)) if scaling.truncate else (fast, slow)

    def blended(weights: Any) -> Float64s:
        return np.asarray(plain / scaling.factor * weights + plain * (1 - weights))

    def ramp(low: float, high: float, at: Any = steps) -> Float64s:
        return np.asarray((at - low) / (high - low if high != low else 0.001))

    fast, slow = scaling.beta_fast, scaling.beta_slow
    low, high = bounds(index(fast), index(slow))
    low, high = max(low, 0.0), min(high, last)
    other = bounds(index(slow), index(fast))
    swapped = np.clip(ramp(max(other[0], 0.0), min(other[1], last)), 0, 1)
    yield "`beta_fast` and `beta_slow` are exchanged", blended(swapped)
    yield "the ramp is not limited to 0 … 1", blended(ramp(low, high))
    yield "the ramp has steps of channels, not of pairs", blended(np.clip(ramp(low, high, 2 * steps), 0, 1))
    for words, length in (
        ("2π is missing in the bounds of the ramp", 2 * np.pi * original),
        ("the original length is multiplied by the factor", scaling.factor * original),
    ):
        start, end = bounds(index(fast, length), index(slow, length))
        yield words, blended(np.clip(ramp(max(start, 0.0), min(end, last)), 0, 1))
    if fast != slow:
        turns = original * plain / (2 * np.pi)
        description = "the ramp is linear in turns, as in the paper, not in indices"
        yield description, blended(1 - np.clip((turns - slow) / (fast - slow), 0, 1))


def _llama3_mistakes(scaling: Llama3, plain: Float64s) -> Iterator[tuple[str, Float64s]]:
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns = scaling.original_max_position_embeddings * plain / (2 * np.pi)

    def blended(kept: Any) -> Float64s:
        return np.asarray(plain * ((1 - kept) / scaling.factor + kept))

    def kept(turns: Float64s, low: float = low, high: float = high) -> Float64s:
        return np.clip((turns - low) / (high - low), 0, 1)

    if low == high:
        return
    is_between = (turns >= low) & (turns <= high)
    yield "the blend is reversed", blended(np.where(is_between, 1 - kept(turns), kept(turns)))
    yield "there is no blend: frequencies below the high band are divided", blended(turns > high)
    yield "there is no blend: frequencies above the low band are kept", blended(turns >= low)
    yield "`low_freq_factor` and `high_freq_factor` are exchanged", blended(kept(turns, high, low))
    yield "2π is missing in the bounds of the bands", blended(kept(2 * np.pi * turns))
    yield "the original length is multiplied by the factor", blended(kept(scaling.factor * turns))


def _divide_positions(candidate: Candidate, factor: float) -> list[Candidate]:
    return [replace(candidate.with_fields(scaling=None), positions=candidate.positions // factor)]
