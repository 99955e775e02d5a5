"""Mistakes of low precision: angles or tables in float32, bfloat16 or float16."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Rotary, RotaryEncoding
from posenc_core.encodings.remapping import RemappedRotary

from ..candidates import EXACT, Arithmetic, Candidate, arithmetic_within, has_angles
from .base import Mistake, at_positions, combine, has_base, of_rotary, rounded_tables, with_fields

ROUNDED_PARTS = ("positions", "frequencies", "angles")
FREQUENCY_ULPS = {"float32": 16, "bfloat16": 3, "float16": 3}  # how far other ways to compute a power are off


def mistakes_of_rounding(encoding: Any, *, with_powers: bool = True) -> Iterator[Mistake]:
    """Yield the mistakes of low precision; none for a bias.

    Args:
        encoding: the encoding.
        with_powers: whether frequencies may also be off as other ways to compute a power are, which takes long to try.
    """
    rounding = partial(_rounding_of, with_powers=with_powers)
    if isinstance(encoding, RemappedRotary):
        yield from map(of_rotary, mistakes_of_rounding(encoding.rotary, with_powers=with_powers))
    if not has_angles(encoding):
        return
    float32 = Arithmetic(frequencies="float32", angles="float32")
    in_float32 = rounding("float32 angles", "angles are rounded to float32", float32)
    yield in_float32
    description = "angles are rounded to float32, frequencies are not"
    yield rounding("float32 angles", description, Arithmetic(angles="float32"))
    yield POSITIONS_IN_FLOAT32
    for dtype in ("bfloat16", "float16"):
        name, description = f"{dtype} positions", f"positions are rounded to {dtype}"
        yield rounding(name, description, Arithmetic(positions=dtype))
        yield rounding(name, f"{description}, angles to float32", float32._replace(positions=dtype))
        yield rounding(name, f"{description}, angles to float32", Arithmetic(positions=dtype, angles="float32"))
        description = f"an offset is rounded to {dtype} and added to a range in {dtype}"
        offset = Mistake(name, description, partial(_offset_plus_range, dtype=dtype))
        yield combine(offset, in_float32)._replace(name=name, description=description)
        name, description = f"{dtype} frequencies", f"frequencies are rounded to {dtype}"
        for angles in ("float32", None):
            yield rounding(name, description, Arithmetic(frequencies=dtype, angles=angles))
        if has_base(encoding) and encoding.scaling is None:
            exponents = ROUNDED[dtype](np.arange(0, encoding.rotary_channels, 2) / encoding.rotary_channels)
            rounded = with_fields(frequencies=tuple(encoding.base ** -exponents.astype(np.float64)), base=Rotary.base)
            yield Mistake(name, f"exponents of the base are rounded to {dtype}", rounded)
        name = f"{dtype} angles"
        yield rounding(name, f"angles are rounded to {dtype}", Arithmetic(positions=dtype, angles=dtype))
        description = f"angles are rounded to {dtype}, positions are not"
        for frequencies in (None, "float32"):
            yield rounding(name, description, Arithmetic(frequencies=frequencies, angles=dtype))
        arithmetic = Arithmetic(positions=dtype, frequencies=dtype, angles=dtype)
        yield rounding(name, f"positions, frequencies and angles are rounded to {dtype}", arithmetic)
        description = f"cosine and sine are rounded to {dtype}"
        yield Mistake(f"{dtype} tables", description, rounded_tables(dtype))


def _rounding_of(name: str, description: str, arithmetic: Arithmetic, *, with_powers: bool) -> Mistake:
    """Return the mistake of this arithmetic; frequencies may also be off as other ways to compute a power are.

    Beside another mistake of low precision, each number has the rounding of the later one that rounds it.
    """

    def change(candidate: Candidate) -> Iterator[Candidate]:
        is_rotary = isinstance(candidate.encoding, RotaryEncoding)
        exact = candidate.with_fields(precision="exact") if is_rotary else candidate
        if candidate.arithmetic != EXACT:
            dtypes = {name: getattr(arithmetic, name) or getattr(candidate.arithmetic, name) for name in ROUNDED_PARTS}
            yield replace(exact, arithmetic=candidate.arithmetic._replace(**dtypes))
            return
        ulps = FREQUENCY_ULPS[arithmetic.frequencies] if arithmetic.frequencies and with_powers else 0
        for divides in (False, True) if ulps else (False,):
            for variant in arithmetic_within(arithmetic._replace(divides=divides), ulps):
                yield replace(exact, arithmetic=variant)

    return Mistake(name, description, change)


def _positions_in_float32(candidate: Candidate) -> list[Candidate]:
    """Return the candidate at float32 positions, unless float32 represents them all; frequencies stay as they are."""
    positions = ROUNDED["float32"](candidate.positions).astype(np.float64)
    if np.array_equal(positions, candidate.positions):
        return []
    arithmetic = candidate.arithmetic._replace(positions=candidate.arithmetic.positions or "float32")
    return [replace(one, arithmetic=arithmetic) for one in at_positions(candidate, positions)]  # may be past the last


POSITIONS_IN_FLOAT32 = Mistake("float32 positions", "positions are rounded to float32", _positions_in_float32)


def _offset_plus_range(candidate: Candidate, dtype: str) -> list[Candidate]:
    """Return positions computed as `offset + arange(length)` in this dtype."""
    first, counted = candidate.positions[..., :1], np.arange(candidate.positions.shape[-1])
    positions = ROUNDED[dtype](ROUNDED[dtype](first) + ROUNDED[dtype](counted))
    return at_positions(candidate, positions.astype(np.float64))
