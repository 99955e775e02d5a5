"""Mistakes in rotary encodings (RoPE): pairs, signs, factors and frequencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_core.encodings import Rotary, RotaryEncoding
from posenc_core.scaling import NTK, AttentionFactor, Linear, Llama3, YaRN

from ..candidates import Tables
from .application import application_mistakes
from .base import Mistake, with_fields, with_tables

BASES = (10000, 500000, 1e6, 5e6, 1e7, 100, 1000, 50000, 100000, 150000, 160000)  # those of models, the usual one first


def rotary_mistakes(encoding: RotaryEncoding) -> Iterator[Mistake]:
    """Yield the mistakes in rotations of this encoding."""
    for layout in ("interleaved", "half", "interleaved_to_half"):
        if layout != encoding.layout:
            yield Mistake("layout swapped", f"pairs are those of layout {layout!r}", with_fields(layout=layout))
    direction = "inverse" if encoding.direction == "forward" else "forward"
    yield Mistake("sign flipped", f"pairs rotate in direction {direction!r}", with_fields(direction=direction))
    yield Mistake("cos and sin swapped", "the cosine is where the sine belongs", with_tables(swap_cos_and_sin))
    yield from _factor_mistakes(encoding.attention_factor)
    yield Mistake("not rotated", "the function returns its input", with_tables(identity))
    yield from application_mistakes(encoding.layout)
    if encoding.table_heads is not None:
        yield Mistake("heads reversed", "the heads are in reverse order", with_tables(_reverse_heads))
    if isinstance(encoding, Rotary):
        yield from _frequency_mistakes(encoding)


def _frequency_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    if encoding.own is None:
        yield from _denominator_mistakes(encoding)
        yield from _base_mistakes(encoding)
    if encoding.rotary_dim is not None:
        yield from _placement_mistakes(encoding)
    if encoding.scaling is not None:
        yield from _scaling_mistakes(encoding)


def _factor_mistakes(factor: float) -> Iterator[Mistake]:
    name = "attention factor"
    if factor != 1:
        description = f"cosine and sine lack the factor {factor:.6g}"
        yield Mistake(f"{name} missing", description, with_tables(_multiply(1 / factor)))
        description = f"cosine and sine are multiplied by {factor:.6g} twice"
        yield Mistake(f"{name} squared", description, with_tables(_multiply(factor)))
    yield Mistake(f"{name} doubled", "cosine and sine are twice as large", with_tables(_multiply(2)))


def _base_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    for base in BASES:
        if base != encoding.base:
            name = "base ignored" if base == Rotary.base else "wrong base"
            yield Mistake(name, f"the base is {base:.10g}", with_fields(base=base))


def _denominator_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield exponents with another denominator than `rotary_dim`."""
    channels, head_dim, name = encoding.rotary_channels, encoding.head_dim, "wrong denominator"
    i = np.arange(channels // 2)
    if channels != head_dim:
        names = ("head_dim", "layout", "base", "scaling", "precision")  # and no sections, which count pairs that rotate
        whole = Rotary(**{field: getattr(encoding, field) for field in names})
        description = f"exponents are 2i / {head_dim} with `head_dim`, not 2i / {channels} with `rotary_dim`"
        yield _with_frequencies(name, description, encoding, whole.frequencies()[: channels // 2])
    slowdown = encoding.frequencies() / replace(encoding, scaling=None).frequencies()
    for description, exponents in (
        (f"exponents are i / {channels}, not 2i / {channels}", i / channels),
        (f"exponents are i / {channels // 2 - 1}, from 0 to 1", i / max(channels // 2 - 1, 1)),
    ):
        yield _with_frequencies(name, description, encoding, encoding.base**-exponents * slowdown)


def _placement_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    description = f"all {encoding.head_dim} channels rotate"
    yield Mistake("rotary_dim ignored", description, with_fields(rotary_dim=None, placement="lead"))
    for placement in ("lead", "trail", "spread"):
        if placement != encoding.placement:
            description = f"the channels that rotate are those of placement {placement!r}"
            yield Mistake("placement swapped", description, with_fields(placement=placement))


def _scaling_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield scalings that are left out, or confused with others."""
    scaling, plain = encoding.scaling, replace(encoding, scaling=None).frequencies()
    name, scaled, pairs = type(scaling).__name__, encoding.frequencies(), encoding.rotary_channels // 2
    yield Mistake("scaling ignored", f"{name} is left out", with_fields(scaling=None))
    if encoding.attention_factor != 1:
        description = f"{name} is left out, except for its attention factor"
        yield _with_frequencies("scaling ignored", description, encoding, plain)
    factor = getattr(scaling, "factor", None) or 1.0
    if factor > 1:
        description = "every frequency is divided by the same number"
        yield Mistake("wrong scaling", f"{description}, {factor:g}", with_fields(scaling=Linear(factor=factor)))
        if pairs > 1:
            common = factor ** (2 * pairs / (2 * pairs - 2))
            yield _with_frequencies("wrong scaling", f"{description}, {common:.4g}", encoding, plain / common)
        description = f"the base is raised as in NTK by {factor:g}"
        yield Mistake("wrong scaling", description, with_fields(scaling=NTK(factor=factor)))
    if isinstance(scaling, YaRN):
        reversed_ramp = plain + plain / factor - scaled
        description = "the ramp is reversed: high frequencies are scaled"
        yield _with_frequencies("wrong scaling", description, encoding, reversed_ramp)
        unscaled = replace(encoding, scaling=None)
        yield _with_frequencies("wrong scaling", f"{description}; the factor is missing", unscaled, reversed_ramp)
        other = replace(scaling, truncate=not scaling.truncate)
        description = f"the ramp is that of truncate={other.truncate}"
        yield Mistake("truncate ignored", description, with_fields(scaling=other))
    if isinstance(scaling, Llama3):
        usual = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
        if usual != scaling:
            description = "the numbers are those of Llama 3.1, whatever the model's are"
            yield Mistake("wrong scaling", description, with_fields(scaling=usual))


def _with_frequencies(name: str, description: str, encoding: Rotary, frequencies: Any) -> Mistake:
    """Return the mistake of these frequencies, with the attention factor of the encoding."""
    factor = encoding.attention_factor
    scaling = None if factor == 1 else AttentionFactor(attention_factor=factor)
    fields: dict[str, Any] = {"frequencies": tuple(map(float, frequencies)), "base": Rotary.base, "scaling": scaling}
    return Mistake(name, description, with_fields(**fields))


def _reverse_heads(cos: Any, sin: Any) -> Tables:
    return cos[..., ::-1, :, :], sin[..., ::-1, :, :]


def swap_cos_and_sin(cos: Any, sin: Any) -> Tables:
    """Return each table in place of the other."""
    return sin, cos


def identity(cos: Any, sin: Any) -> Tables:
    """Return the tables of a rotation by 0."""
    return np.ones_like(cos), np.zeros_like(sin)


def _multiply(factor: float) -> Callable[..., Tables]:
    return lambda *tables: tuple(table * factor for table in tables)
