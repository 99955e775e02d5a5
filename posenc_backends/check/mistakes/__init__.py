"""Hypotheses: the mistakes that are known, each as what a callable returns that makes it; the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Additive, Encoding, Rotary

from .additive_errors import additive_mistakes
from .bias_errors import bias_mistakes
from .calls import Question
from .candidates import Arithmetic, Sketch, Tables, fitted
from .scaling_errors import frequency_mistakes

STEPS = {"float32": 16, "bfloat16": 3, "float16": 3}  # how far other ways to a power are off, in last places
FLOAT32 = {"frequencies": "float32", "angles": "float32"}


class Hypothesis(NamedTuple):
    """A mistake.

    Attributes:
        mistake: its name.
        told: what the callable does, in words.
        change: from the right sketch to the wrong ones; where they are several, each column may be that of another.
        is_state: whether earlier calls are to blame.
    """

    mistake: str
    told: str
    change: Callable[[Sketch], Iterable[Sketch]]
    is_state: bool = False

    def sketches(self, right: Sketch) -> Iterator[Sketch]:
        """The wrong sketches; none where the encoding cannot be wrong like that."""
        try:
            yield from self.change(right)
        except (TypeError, ValueError):
            return


def both(one: Hypothesis, other: Hypothesis) -> Hypothesis:
    """Two mistakes at once."""

    def change(sketch: Sketch) -> Iterator[Sketch]:
        for first in one.change(sketch):
            yield from other.change(first)

    return Hypothesis(f"{one.mistake}, {other.mistake}", f"{one.told}, and {other.told}", change)


def plain(encoding: Encoding) -> Iterator[Hypothesis]:
    """Mistakes that show in a single call, less those of arithmetic."""
    if isinstance(encoding, Rotary):
        yield from _rotary(encoding)
    elif isinstance(encoding, Additive):
        for mistake, told, change in additive_mistakes(encoding):
            yield Hypothesis(mistake, told, change)
    else:
        for mistake, told, change in bias_mistakes(encoding):
            yield Hypothesis(mistake, told, change)
        return
    yield from _positions()


def of_arithmetic(encoding: Encoding) -> Iterator[Hypothesis]:
    """Mistakes of narrow numbers."""
    if not isinstance(encoding, Rotary | Additive):
        return
    in_float32 = _rounding("float32 angles", "angles are rounded to float32", **FLOAT32)
    yield in_float32
    for dtype in ("bfloat16", "float16"):
        name, told = f"{dtype} positions", f"positions are rounded to {dtype}"
        yield _rounding(name, told, positions=dtype)
        yield _rounding(name, f"{told}, angles to float32", positions=dtype, **FLOAT32)
        told = f"an offset is rounded to {dtype} and added to a range in it"
        yield both(Hypothesis(name, told, partial(_started, dtype=dtype)), in_float32)._replace(mistake=name, told=told)
        told = f"frequencies are rounded to {dtype}"
        yield _rounding(f"{dtype} frequencies", told, frequencies=dtype, angles="float32")
        name = f"{dtype} angles"
        yield _rounding(name, f"angles are rounded to {dtype}", positions=dtype, angles=dtype)
        told = f"positions, frequencies and angles are rounded to {dtype}"
        yield _rounding(name, told, positions=dtype, frequencies=dtype, angles=dtype)
        yield Hypothesis(f"{dtype} tables", f"cosine and sine are rounded to {dtype}", _afterwards(_rounded_to(dtype)))


def of_state(question: Question, earlier: list[Question]) -> Iterator[Hypothesis]:
    """Mistakes that earlier calls leave behind."""
    length, told = question.positions.shape[-1], set()
    if question.queries:
        return
    for before in earlier:
        if before.positions.shape[-1] < length or before.queries or before.positions.ndim > 1:
            continue
        rows = before.positions[:length]
        if rows.tobytes() in told or np.array_equal(rows, question.positions):
            continue
        told.add(rows.tobytes())
        alike = before.positions.shape == question.positions.shape
        mistake = "offset ignored after the first call" if alike else "stale cache"
        words = f"the rows are those of an earlier call, of positions {rows[0]} … {rows[-1]}"
        yield Hypothesis(mistake, words, partial(_at, positions=rows), is_state=True)


def _rotary(encoding: Rotary) -> Iterator[Hypothesis]:
    for layout in ("interleaved", "half", "interleaved_to_half"):
        if layout != encoding.layout:
            yield _fields("layout swapped", f"pairs are those of layout {layout!r}", layout=layout)
    way = "inverse" if encoding.direction == "forward" else "forward"
    yield _fields("sign flipped", f"pairs turn the other way round, {way!r}", direction=way)
    yield Hypothesis("cos and sin swapped", "the cosine is where the sine belongs", _afterwards(_swapped))
    yield from _factors(encoding.attention_factor)
    yield Hypothesis("not turned", "what comes in goes out", _afterwards(_still))
    for mistake, told, fields in frequency_mistakes(encoding):
        yield _fields(mistake, told, **fields)


def _factors(factor: float) -> Iterator[Hypothesis]:
    if factor != 1:
        told = f"cosine and sine lack the factor {factor:.6g}"
        yield Hypothesis("attention factor missing", told, _afterwards(_times(1 / factor)))
        told = f"cosine and sine are multiplied by {factor:.6g} twice"
        yield Hypothesis("attention factor squared", told, _afterwards(_times(factor)))
    yield Hypothesis("attention factor doubled", "cosine and sine are twice as large", _afterwards(_times(2)))


def _positions() -> Iterator[Hypothesis]:
    for step in (1, -1):
        told = f"positions are {'larger' if step > 0 else 'smaller'} by 1"
        yield Hypothesis("positions off by one", told, partial(_moved, step=step))
    yield Hypothesis("positions ignored", "positions are counted from 0", partial(_counted, first=0))
    yield Hypothesis("positions ignored", "positions are counted from 1", partial(_counted, first=1))
    yield Hypothesis("positions taken as consecutive", "only the first position is looked at", _consecutive)
    yield Hypothesis("positions of the first row", "all rows have the positions of the first", _first_row)
    told = "positions are counted from the end"
    yield Hypothesis("positions reversed", told, _reversed)
    yield Hypothesis("sign of positions ignored", "negative positions are taken for positive ones", _unsigned)
    for words, whole in (("to the nearest", np.rint), ("down", np.floor)):
        yield Hypothesis("positions made whole", f"positions are rounded {words}", partial(_whole, whole=whole))


def _rounding(mistake: str, told: str, **dtypes: str) -> Hypothesis:
    """Numbers rounded on the way; frequencies may be off as far as other ways to a power are."""
    arithmetic = Arithmetic(**dtypes)  # type: ignore[arg-type]  # names of dtypes

    def change(sketch: Sketch) -> Iterator[Sketch]:
        exact = sketch.but(precision="exact") if isinstance(sketch.encoding, Rotary) else sketch
        steps = STEPS[arithmetic.frequencies] if arithmetic.frequencies else 0
        for divides in (False, True) if steps else (False,):
            for each in fitted(arithmetic._replace(divides=divides), steps):
                yield replace(exact, arithmetic=each)

    return Hypothesis(mistake, told, change)


def _fields(mistake: str, told: str, **fields: Any) -> Hypothesis:
    return Hypothesis(mistake, told, lambda sketch: [sketch.but(**fields)])


def _afterwards(change: Callable[..., Tables]) -> Callable[[Sketch], Iterable[Sketch]]:
    return lambda sketch: [sketch.then(change)]


def _swapped(cos: Any, sin: Any) -> Tables:
    return sin, cos


def _still(cos: Any, sin: Any) -> Tables:
    return np.ones_like(cos), np.zeros_like(sin)


def _times(factor: float) -> Callable[..., Tables]:
    return lambda *tables: tuple(table * factor for table in tables)


def _rounded_to(dtype: str) -> Callable[..., Tables]:
    return lambda *tables: tuple(ROUNDED[dtype](table).astype(np.float64) for table in tables)


def _at(sketch: Sketch, positions: Any) -> list[Sketch]:
    return [replace(sketch, positions=np.broadcast_to(positions, sketch.positions.shape))]


def _unsigned(sketch: Sketch) -> list[Sketch]:
    return _at(sketch, np.abs(sketch.positions)) if (sketch.positions < 0).any() else []


def _whole(sketch: Sketch, whole: Callable[..., Any]) -> list[Sketch]:
    return _at(sketch, whole(sketch.positions)) if sketch.positions.dtype.kind == "f" else []


def _moved(sketch: Sketch, step: int) -> list[Sketch]:
    return _at(sketch, sketch.positions + step)


def _counted(sketch: Sketch, first: int) -> list[Sketch]:
    return _at(sketch, np.arange(sketch.positions.shape[-1]) + first)


def _consecutive(sketch: Sketch) -> list[Sketch]:
    return _at(sketch, sketch.positions[..., :1] + np.arange(sketch.positions.shape[-1]))


def _started(sketch: Sketch, dtype: str) -> list[Sketch]:
    """As an offset is added to a range of that dtype."""
    first, arange_like = sketch.positions[..., :1], np.arange(sketch.positions.shape[-1])
    return _at(sketch, ROUNDED[dtype](ROUNDED[dtype](first) + ROUNDED[dtype](arange_like)).astype(np.float64))


def _first_row(sketch: Sketch) -> list[Sketch]:
    return _at(sketch, sketch.positions[:1]) if sketch.positions.ndim > 1 else []


def _reversed(sketch: Sketch) -> list[Sketch]:
    return _at(sketch, sketch.positions[..., ::-1])
