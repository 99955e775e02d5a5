"""Mistakes in rotary encodings (RoPE): pairs, signs, factors and frequencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations
from typing import Any

import numpy as np

from posenc_core._array_api.checks import shown
from posenc_core.encodings import AxialRotary, Rotary, RotaryEncoding

from ..candidates import Tables
from .application import application_mistakes
from .base import Mistake, base_mistakes, own_mistakes, reverse_heads, with_fields, with_frequencies, with_tables
from .scaling import scaling_mistakes

SWAPPED, OF_ATTENTION = "layout swapped", "indexer rotated in the attention's layout"
MOST_ORDERS = 25  # of the scalings of axes: all of four


def rotary_mistakes(encoding: RotaryEncoding) -> Iterator[Mistake]:
    """Yield the mistakes in rotations of this encoding."""
    for layout in ("interleaved", "half", "interleaved_to_half"):
        if layout != encoding.layout:
            yield Mistake(SWAPPED, f"pairs are those of layout {layout!r}", with_fields(layout=layout))
    direction = "inverse" if encoding.direction == "forward" else "forward"
    yield Mistake("sign flipped", f"pairs rotate in direction {direction!r}", with_fields(direction=direction))
    yield Mistake("cos and sin swapped", "the cosine is where the sine belongs", with_tables(swap_cos_and_sin))
    yield from _factor_mistakes(encoding)
    yield Mistake("not rotated", "the function returns its input", with_tables(identity))
    yield from application_mistakes(encoding.layout)
    if encoding.table_heads is not None:
        yield Mistake("heads reversed", "the heads are in reverse order", with_tables(reverse_heads))
    yield from own_mistakes(encoding)


@own_mistakes.register
def _frequency_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    if encoding.own is None:
        yield from _denominator_mistakes(encoding)
        yield from base_mistakes(encoding, Rotary.base)
        yield from _unit_and_order_mistakes(encoding)
        yield from _size_mistakes(encoding)
    if encoding.rotary_dim is not None:
        yield from _placement_mistakes(encoding)
    if encoding.scaling is not None:
        yield from scaling_mistakes(encoding)


@own_mistakes.register
def _axis_mistakes(encoding: AxialRotary) -> Iterator[Mistake]:
    """Yield scalings that are left out, or are those of other axes."""
    if encoding.scaling is None:
        return
    yield Mistake("scaling ignored", "no axis is scaled", with_fields(scaling=None))
    if isinstance(encoding.scaling, tuple):
        for scaling in encoding.scaling:
            yield Mistake("wrong scaling", f"each axis is scaled by {shown(scaling)}", with_fields(scaling=scaling))
        for order in islice(permutations(encoding.scaling), 1, MOST_ORDERS):
            yield Mistake("wrong scaling", f"the scalings of axes are {shown(order)}", with_fields(scaling=order))


def _factor_mistakes(encoding: RotaryEncoding) -> Iterator[Mistake]:
    name, factor, factors = "attention factor", encoding.attention_factor, encoding.attention_factors
    by: Any = factors if np.ptp(factors) else factor  # there may be more columns than pairs
    if factor != 1:
        description = f"cosine and sine lack the factor {factor:.6g}"
        yield Mistake(f"{name} missing", description, with_tables(_multiply(1 / by)))
        description = f"cosine and sine are multiplied by {factor:.6g} twice"
        yield Mistake(f"{name} squared", description, with_tables(_multiply(by)))
        for words, change in (("sine", lambda cos, sin: (cos, sin / by)), ("cosine", lambda cos, sin: (cos / by, sin))):
            description = f"the {words} lacks the factor {factor:.6g}, the other table has it"
            yield Mistake(f"{name} missing", description, with_tables(change))
    yield Mistake(f"{name} doubled", "cosine and sine are twice as large", with_tables(_multiply(2)))


def _denominator_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield exponents with another denominator than `rotary_dim`."""
    channels, head_dim, name = encoding.rotary_channels, encoding.head_dim, "wrong denominator"
    i = np.arange(channels // 2)
    if channels != head_dim:
        names = ("head_dim", "layout", "base", "scaling", "precision")  # and no sections, which count pairs that rotate
        whole = Rotary(**{field: getattr(encoding, field) for field in names})
        description = f"exponents are 2i / {head_dim} with `head_dim`, not 2i / {channels} with `rotary_dim`"
        yield with_frequencies(name, description, encoding, whole.frequencies()[: channels // 2])
    slowdown = encoding.frequencies() / replace(encoding, scaling=None).frequencies()
    for description, exponents in (
        (f"exponents are i / {channels}, not 2i / {channels}", i / channels),
        (f"exponents are i / {channels // 2 - 1}, from 0 to 1", i / max(channels // 2 - 1, 1)),
        (f"exponents are 4i / {channels}, not 2i / {channels}", 4 * i / channels),
    ):
        yield with_frequencies(name, description, encoding, encoding.base**-exponents * slowdown)


def _unit_and_order_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield frequencies in another unit, in another order, or with exponents of the opposite sign."""
    right, name = encoding.frequencies(), "wrong unit of angles"
    for description, factor in (
        ("angles are multiplied by π / 180, as degrees are", np.pi / 180),
        ("angles are multiplied by 180 / π: they are degrees", 180 / np.pi),
        ("angles are multiplied by 2π, as turns are", 2 * np.pi),
    ):
        yield with_frequencies(name, description, encoding, right * factor)
    if len(right) > 1:
        yield with_frequencies("frequencies reversed", "the lowest frequency is the first", encoding, right[::-1])
        slowdown = right / replace(encoding, scaling=None).frequencies()
        exponents = np.arange(len(right)) / len(right)
        description = "exponents have the opposite sign, so that frequencies grow"
        yield with_frequencies("wrong exponent", description, encoding, encoding.base**exponents * slowdown)
        description = "all exponents are 0, as of a division of integers"
        yield with_frequencies("wrong exponent", description, encoding, slowdown)


def _size_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield rotations of another share of the channels: an eighth, a quarter, a half or three quarters."""
    for size in sorted({2 * (encoding.head_dim * eighths // 16) for eighths in (1, 2, 4, 6)}):
        if 0 < size < encoding.head_dim and size != encoding.rotary_channels:
            description = f"{size} channels rotate, not {encoding.rotary_channels}"
            yield Mistake("wrong rotary_dim", description, with_fields(rotary_dim=size))


def _placement_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    description = f"all {encoding.head_dim} channels rotate"
    yield Mistake("rotary_dim ignored", description, with_fields(rotary_dim=None, placement="lead"))
    for placement in ("lead", "trail", "spread"):
        if placement != encoding.placement:
            description = f"the channels that rotate are those of placement {placement!r}"
            yield Mistake("placement swapped", description, with_fields(placement=placement))


def swap_cos_and_sin(cos: Any, sin: Any) -> Tables:
    """Return each table in place of the other."""
    return sin, cos


def identity(cos: Any, sin: Any) -> Tables:
    """Return the tables of a rotation by 0."""
    return np.ones_like(cos), np.zeros_like(sin)


def _multiply(factor: Any) -> Callable[..., Tables]:
    return lambda *tables: tuple(table * factor for table in tables)
