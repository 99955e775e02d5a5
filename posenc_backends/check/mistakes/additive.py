"""Mistakes of additive tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.encodings import Additive, Sinusoidal
from posenc_core.encodings.additive.sinusoidal import CONVENTIONS

from .candidates import Sketch, Tables

Mistake = tuple[str, str, Callable[[Sketch], Iterable[Sketch]]]


def additive_mistakes(encoding: Additive) -> Iterator[Mistake]:
    """Name, words and change of each."""
    if isinstance(encoding, Sinusoidal):
        for convention in CONVENTIONS:
            if convention != encoding.convention:
                told = f"the columns are those of convention {convention!r}"
                yield "layout swapped", told, partial(_but, convention=convention)
        split = encoding.convention not in ("interleaved", "column_index")
        yield (
            "cos and sin swapped",
            "cosines are where sines belong",
            partial(_then, change=partial(_swapped, split=split)),
        )
    base = next((field.default for field in fields(encoding) if field.name == "base"), None)
    if isinstance(base, int | float) and getattr(encoding, "base", base) != base:
        yield "base ignored", f"the base is {base:g}", partial(_but, base=base)
    if (encoding.angular_frequencies() != 0).any():
        yield "sign flipped", "sines have the other sign", _flipped


def _but(sketch: Sketch, **fields: Any) -> list[Sketch]:
    return [sketch.but(**fields)]


def _then(sketch: Sketch, change: Callable[..., Tables]) -> list[Sketch]:
    return [sketch.then(change)]


def _flipped(sketch: Sketch) -> list[Sketch]:
    return [replace(sketch, positions=-sketch.positions)]


def _swapped(table: Any, *, split: bool) -> Tables:
    half = table.shape[-1] // 2
    if split:
        return (np.concatenate([table[..., half : 2 * half], table[..., :half], table[..., 2 * half :]], axis=-1),)
    order = np.arange(table.shape[-1])
    order[: 2 * half] = order[: 2 * half].reshape(-1, 2)[:, ::-1].ravel()
    return (table[..., order],)
