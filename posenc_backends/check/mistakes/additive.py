"""Mistakes in additive tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.encodings import Additive, Sinusoidal
from posenc_core.encodings.additive.sinusoidal import CONVENTIONS

from ..candidates import Candidate, Tables
from .base import Mistake, with_fields, with_tables


def additive_mistakes(encoding: Additive) -> Iterator[Mistake]:
    """Yield the mistakes in tables of this encoding."""
    if isinstance(encoding, Sinusoidal):
        for convention in CONVENTIONS:
            if convention != encoding.convention:
                description = f"the columns are those of convention {convention!r}"
                yield Mistake("layout swapped", description, with_fields(convention=convention))
        halves = encoding.convention not in ("interleaved", "column_index")
        swap = with_tables(partial(_swap_cos_and_sin, halves=halves))
        yield Mistake("cos and sin swapped", "cosines are where sines belong", swap)
    base = next((field.default for field in fields(encoding) if field.name == "base"), None)
    if isinstance(base, int | float) and getattr(encoding, "base", base) != base:
        yield Mistake("base ignored", f"the base is {base:g}", with_fields(base=base))
    if (encoding.angular_frequencies() != 0).any():
        yield Mistake("sign flipped", "sines have the opposite sign", _negate_positions)


def _negate_positions(candidate: Candidate) -> list[Candidate]:
    return [replace(candidate, positions=-candidate.positions)]


def _swap_cos_and_sin(table: Any, *, halves: bool) -> Tables:
    half = table.shape[-1] // 2
    if halves:
        return (np.concatenate([table[..., half : 2 * half], table[..., :half], table[..., 2 * half :]], axis=-1),)
    order = np.arange(table.shape[-1])
    order[: 2 * half] = order[: 2 * half].reshape(-1, 2)[:, ::-1].ravel()
    return (table[..., order],)
