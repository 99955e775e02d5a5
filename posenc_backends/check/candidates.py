"""Sketches: an encoding, right or wrong in one respect, and the tables that it gives. The core computes them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Additive, Encoding, PositionScoring, Rotary

Float64s = npt.NDArray[np.float64]
Tables = tuple[Float64s, ...]


class Arithmetic(NamedTuple):
    """Numbers that angles are made of: each of the three is rounded to its dtype, or kept where that is None.

    Attributes:
        positions, frequencies, angles: names of dtypes.
        steps: by how many units in the last place every frequency is off, as other ways to a power are.
        divides: whether positions are divided by wavelengths, and not multiplied by frequencies.
    """

    positions: str | None = None
    frequencies: str | None = None
    angles: str | None = None
    steps: int = 0
    divides: bool = False


EXACT = Arithmetic()


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """What a callable may have computed.

    Attributes:
        encoding: the encoding, maybe with another field.
        positions: `(..., length)`; of a scoring encoding, those of queries and of keys, one after the other.
        queries: of a scoring encoding, how many of the positions are those of queries.
        arithmetic: what angles are rounded to.
        after: what is done to the tables in the end.
    """

    encoding: Encoding
    positions: npt.NDArray[Any]
    queries: int = 0
    arithmetic: Arithmetic = EXACT
    after: tuple[Callable[..., Tables], ...] = ()

    def tables(self) -> Tables:
        """Cosine and sine, or a table, or a bias, in float64.

        Raises:
            ValueError: if the encoding has no such positions.
        """
        made = tuple(np.asarray(table, np.float64) for table in self._made())
        for change in self.after:
            made = change(*made)
        return made

    def but(self, **fields: Any) -> Sketch:
        """The same sketch of an encoding with other fields.

        Raises:
            TypeError, ValueError: if there is none.
        """
        changed: Any = replace(self.encoding, **fields)
        return replace(self, encoding=changed)

    def then(self, change: Callable[..., Tables]) -> Sketch:
        """The same sketch, with its tables changed in the end."""
        return replace(self, after=(*self.after, change))

    def at(self, rows: npt.NDArray[np.int64] | None) -> Sketch:
        """The same sketch of these rows alone."""
        return self if rows is None else replace(self, positions=self.positions[..., rows])

    def _made(self) -> tuple[Any, ...]:
        encoding, positions = self.encoding, self.positions
        if isinstance(encoding, PositionScoring):
            return (encoding.bias(positions[: self.queries], positions[self.queries :]),)
        if self.arithmetic != EXACT:
            return self._rounded()
        return _tables(encoding, positions)

    def _rounded(self) -> Tables:
        """Of each column, the entry of the rounded angle; as it is, where the column is no sine or cosine."""
        rates, (still, quarter) = _rates(self.encoding), _waves(self.encoding)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            angles = _angles(self.positions[..., None], rates, self.arithmetic)
        if not np.isfinite(angles).all():
            raise ValueError("Angles overflow.")
        cos, sin = np.cos(angles), np.sin(angles)
        if isinstance(self.encoding, Rotary):
            return cos * still, sin * quarter
        table = cos * still + sin * quarter
        return (table if rates.all() else np.where(rates == 0, _tables(self.encoding, self.positions)[0], table),)


def fitted(arithmetic: Arithmetic, steps: int) -> Iterator[Arithmetic]:
    """The arithmetic with frequencies that are off by up to so many units in the last place, the nearest first."""
    yield arithmetic
    for step in range(1, steps + 1):
        yield arithmetic._replace(steps=step)
        yield arithmetic._replace(steps=-step)


def _tables(encoding: Encoding, positions: npt.NDArray[Any]) -> tuple[Any, ...]:
    if isinstance(encoding, Rotary):
        return encoding.cos_sin(positions)
    if isinstance(encoding, Additive):
        return (encoding.table(positions),)
    raise TypeError(f"`encoding` must have a table, got {encoding!r}.")


@lru_cache(maxsize=16)
def _waves(encoding: Encoding) -> Tables:
    """Of each column, the entry at angle 0 and at a quarter turn; of a rotation, of the cosine and of the sine."""
    if isinstance(encoding, Rotary):
        factor = encoding.attention_factor
        return np.array(factor), np.array(-factor if encoding.direction == "inverse" else factor)
    rates = _rates(encoding)
    quarters = np.divide(np.pi / 2, rates, out=np.zeros_like(rates), where=rates != 0)
    (still,), (turned,) = _tables(encoding, np.zeros(1, np.int64)), _tables(encoding, quarters)
    return np.asarray(still[0], np.float64), np.asarray(np.diagonal(turned), np.float64)


@lru_cache(maxsize=16)
def _rates(encoding: Encoding) -> Float64s:
    if isinstance(encoding, Rotary):
        return encoding.frequencies()
    if isinstance(encoding, Additive):
        return np.broadcast_to(encoding.angular_frequencies(), (encoding.dim,))
    raise TypeError(f"`encoding` must have angles, got {encoding!r}.")


def _angles(positions: Any, rates: Float64s, arithmetic: Arithmetic) -> Float64s:
    """Positions × frequencies, as narrow numbers have them; a product of two float32 is exact in float64."""
    known = _narrowed(positions, arithmetic.positions)
    factors = 1 / rates if arithmetic.divides else rates
    if arithmetic.frequencies is not None:
        factors = _stepped(_narrowed(factors, arithmetic.frequencies), arithmetic)
    return _narrowed(known / factors if arithmetic.divides else known * factors, arithmetic.angles)


def _stepped(numbers: Float64s, arithmetic: Arithmetic) -> Float64s:
    digits = {"float32": 24, "bfloat16": 8, "float16": 11}[arithmetic.frequencies or "float32"]
    size = np.abs(np.where((numbers == 0) | np.isinf(numbers), 1, numbers))
    return numbers + arithmetic.steps * 2.0 ** (np.floor(np.log2(size)) + 1 - digits)


def _narrowed(numbers: Any, dtype: str | None) -> Float64s:
    return np.asarray(numbers if dtype is None else ROUNDED[dtype](numbers), np.float64)
