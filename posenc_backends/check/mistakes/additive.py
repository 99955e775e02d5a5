"""Mistakes in additive tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, get_args

import numpy as np

from posenc_core.encodings import Additive, GridSinusoidal, Sinusoidal, Timestep
from posenc_core.encodings.additive.grid_sinusoidal import GridConvention
from posenc_core.encodings.additive.sinusoidal import CONVENTIONS

from ..candidates import Float64s, Outcome, Tables
from .base import BASES, Mistake, own_mistakes, with_fields, with_outcome, with_positions, with_tables


def additive_mistakes(encoding: Additive) -> Iterator[Mistake]:
    """Yield the mistakes in tables of this encoding, and in how they are added."""
    yield from own_mistakes(encoding)
    yield from _base_mistakes(encoding)
    for step, words in ((2, "larger"), (-2, "smaller")) if encoding.num_axes == 1 else ():
        description = f"rows are those of positions {words} by 2, as with rows for padding"
        yield Mistake("wrong offset", description, with_positions(partial(np.add, step)))
    if (encoding.angular_frequencies() != 0).any():
        yield Mistake("sign flipped", "sines have the opposite sign", with_positions(np.negative))
    yield from _mistakes_of_adding(encoding)


@own_mistakes.register
def _grid_mistakes(encoding: GridSinusoidal) -> Iterator[Mistake]:
    for convention in get_args(GridConvention):
        if convention != encoding.convention:
            description = f"the columns are those of convention {convention!r}"
            yield Mistake("layout swapped", description, with_fields(convention=convention))


def _base_mistakes(encoding: Additive) -> Iterator[Mistake]:
    default = next((field.default for field in fields(encoding) if field.name == "base"), None)
    if not isinstance(default, int | float):
        return
    for base in dict.fromkeys((default, *BASES)):
        if base != getattr(encoding, "base", base):
            name = "base ignored" if base == default else "wrong base"
            yield Mistake(name, f"the base is {base:g}", with_fields(base=base))


@own_mistakes.register
def _timestep_mistakes(encoding: Timestep) -> Iterator[Mistake]:
    order = "cos_first" if encoding.order == "sin_first" else "sin_first"
    yield Mistake("layout swapped", f"the order of the columns is {order!r}", with_fields(order=order))
    for shift in (0.0, 1.0):
        if shift != encoding.shift:
            description = f"exponents are i / (h - {shift:g}), as with shift={shift:g}"
            yield Mistake("wrong denominator", description, with_fields(shift=shift))
    for scale in (1.0, 1000.0):
        if scale != encoding.scale:
            yield Mistake("wrong scale", f"times are multiplied by {scale:g}", with_fields(scale=scale))


@own_mistakes.register
def _sinusoidal_mistakes(encoding: Sinusoidal) -> Iterator[Mistake]:
    sines_first = ("concatenated", "tensor2tensor")
    for convention in CONVENTIONS:
        if convention != encoding.convention:
            is_alike = {convention, encoding.convention} == {*sines_first} and encoding.dim % 2 == 0
            words = "frequencies" if is_alike else "columns"
            name = "wrong denominator" if is_alike else "layout swapped"
            description = f"the {words} are those of convention {convention!r}"
            yield Mistake(name, description, with_fields(convention=convention))
    halves = encoding.convention not in ("interleaved", "column_index")
    swap = with_tables(partial(_swap_cos_and_sin, halves=halves))
    yield Mistake("cos and sin swapped", "cosines are where sines belong", swap)
    if encoding.convention == "interleaved":
        columns = np.arange(encoding.dim)
        for words, exponents in (
            ("column j has the exponent j / dim, so that sine and cosine differ", columns / encoding.dim),
            ("column j has the exponent 2j / dim, so that sine and cosine differ", 2 * columns / encoding.dim),
        ):
            change = partial(_sines_and_cosines, frequencies=encoding.base**-exponents)
            yield Mistake("wrong denominator", words, with_tables(change, of_positions=True))


def _mistakes_of_adding(encoding: Additive) -> Iterator[Mistake]:
    """Yield the mistakes of `x + rows`, which tables alone do not have."""
    root = float(np.sqrt(encoding.dim))
    scaled = f"tokens are multiplied by {root:.6g}, the root of the width"
    outcomes: dict[tuple[str, str], Outcome] = {
        ("not added", "the function returns its input"): lambda x, result: x,
        ("multiplied instead of added", "tokens are multiplied by the rows"): lambda x, result: x * (result - x),
        ("tokens scaled", scaled): lambda x, result: result + x * (root - 1),
    }
    for (name, description), outcome in outcomes.items():
        yield Mistake(name, description, with_outcome(outcome))
    description = "each row of the batch has the row of its number, as if the first axis were that of positions"
    yield Mistake("batch taken for positions", description, with_outcome(partial(_add_by_batch, encoding=encoding)))


def _add_by_batch(x: Float64s, result: Float64s, *, encoding: Additive) -> Float64s:
    if encoding.parameters() or encoding.num_axes > 1:
        raise ValueError("There is no such row.")
    return np.asarray(x + encoding.table(np.arange(len(x)))[:, None])


def _sines_and_cosines(positions: Any, _: Float64s, *, frequencies: Float64s) -> Tables:
    """Return sines in even columns and cosines in odd ones, each of its own frequency."""
    angles = positions[..., None] * frequencies
    return (np.where(np.arange(len(frequencies)) % 2 == 1, np.cos(angles), np.sin(angles)),)


def _swap_cos_and_sin(table: Any, *, halves: bool) -> Tables:
    half = table.shape[-1] // 2
    if halves:
        return (np.concatenate([table[..., half : 2 * half], table[..., :half], table[..., 2 * half :]], axis=-1),)
    order = np.arange(table.shape[-1])
    order[: 2 * half] = order[: 2 * half].reshape(-1, 2)[:, ::-1].ravel()
    return (table[..., order],)
