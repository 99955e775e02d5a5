"""Candidates: what a function may have computed, the encoding itself or one with a mistake."""

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
    """The precision of the angles. None keeps a number exact.

    Attributes:
        positions, frequencies, angles: the dtype that each is rounded to, by name.
        ulps: by how many ulp every frequency is off, as with other ways to compute a power.
        divides: whether positions are divided by wavelengths instead of multiplied by frequencies.
    """

    positions: str | None = None
    frequencies: str | None = None
    angles: str | None = None
    ulps: int = 0
    divides: bool = False


EXACT = Arithmetic()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A computation that a function may have made.

    Attributes:
        encoding: the encoding, possibly with another field.
        positions: `(..., length)`; for a scoring encoding, the query positions followed by the key positions.
        num_queries: for a scoring encoding, how many of the positions belong to queries.
        arithmetic: the precision of the angles.
        changes: functions from tables to tables, applied in order at the end.
    """

    encoding: Encoding
    positions: npt.NDArray[Any]
    num_queries: int = 0
    arithmetic: Arithmetic = EXACT
    changes: tuple[Callable[..., Tables], ...] = ()

    def tables(self) -> Tables:
        """Compute cosine and sine, or a table, or a bias, in float64.

        Raises:
            ValueError: if the encoding is not defined at these positions.
        """
        tables = tuple(np.asarray(table, np.float64) for table in self._unchanged_tables())
        for change in self.changes:
            tables = change(*tables)
        return tables

    def with_fields(self, **fields: Any) -> Candidate:
        """Return this candidate with other fields of the encoding.

        Raises:
            TypeError, ValueError: if the encoding rejects them.
        """
        changed: Any = replace(self.encoding, **fields)
        return replace(self, encoding=changed)

    def with_change(self, change: Callable[..., Tables]) -> Candidate:
        """Return this candidate with one more change of its tables."""
        return replace(self, changes=(*self.changes, change))

    def at(self, rows: npt.NDArray[np.int64] | None) -> Candidate:
        """Return this candidate at these rows only; at all rows if None."""
        return self if rows is None else replace(self, positions=self.positions[..., rows])

    def _unchanged_tables(self) -> tuple[Any, ...]:
        encoding, positions = self.encoding, self.positions
        if isinstance(encoding, PositionScoring):
            return (encoding.bias(positions[: self.num_queries], positions[self.num_queries :]),)
        if self.arithmetic != EXACT:
            return self._rounded_tables()
        return _exact_tables(encoding, positions)

    def _rounded_tables(self) -> Tables:
        """Compute each column at the rounded angle; a column that is not a sine or cosine stays exact."""
        frequencies, (at_zero, at_quarter) = _frequencies(self.encoding), _columns_at_0_and_90_degrees(self.encoding)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            angles = _angles(self.positions[..., None], frequencies, self.arithmetic)
        if not np.isfinite(angles).all():
            raise ValueError("Angles overflow.")
        cos, sin = np.cos(angles), np.sin(angles)
        if isinstance(self.encoding, Rotary):
            return cos * at_zero, sin * at_quarter
        table = cos * at_zero + sin * at_quarter
        if not frequencies.all():
            table = np.where(frequencies == 0, _exact_tables(self.encoding, self.positions)[0], table)
        return (table,)


def arithmetic_within(arithmetic: Arithmetic, ulps: int) -> Iterator[Arithmetic]:
    """Yield the arithmetic with frequencies that are off by 0, 1, -1, … up to `ulps` ulp."""
    yield arithmetic
    for count in range(1, ulps + 1):
        yield arithmetic._replace(ulps=count)
        yield arithmetic._replace(ulps=-count)


def _exact_tables(encoding: Encoding, positions: npt.NDArray[Any]) -> tuple[Any, ...]:
    if isinstance(encoding, Rotary):
        return encoding.cos_sin(positions)
    if isinstance(encoding, Additive):
        return (encoding.table(positions),)
    raise TypeError(f"`encoding` must have a table, got {encoding!r}.")


@lru_cache(maxsize=16)
def _columns_at_0_and_90_degrees(encoding: Encoding) -> Tables:
    """Return the entry of each column at angle 0 and at π/2; for a rotation, the factors of cosine and sine."""
    if isinstance(encoding, Rotary):
        factor = encoding.attention_factor
        return np.array(factor), np.array(-factor if encoding.direction == "inverse" else factor)
    frequencies = _frequencies(encoding)
    quarters = np.divide(np.pi / 2, frequencies, out=np.zeros_like(frequencies), where=frequencies != 0)
    (at_zero,), (at_quarter,) = _exact_tables(encoding, np.zeros(1, np.int64)), _exact_tables(encoding, quarters)
    return np.asarray(at_zero[0], np.float64), np.asarray(np.diagonal(at_quarter), np.float64)


@lru_cache(maxsize=16)
def _frequencies(encoding: Encoding) -> Float64s:
    if isinstance(encoding, Rotary):
        return encoding.frequencies()
    if isinstance(encoding, Additive):
        return np.broadcast_to(encoding.angular_frequencies(), (encoding.dim,))
    raise TypeError(f"`encoding` must have angles, got {encoding!r}.")


def _angles(positions: Any, frequencies: Float64s, arithmetic: Arithmetic) -> Float64s:
    """Return positions × frequencies, rounded; the product of two float32 numbers is exact in float64."""
    positions = _rounded(positions, arithmetic.positions)
    factors = 1 / frequencies if arithmetic.divides else frequencies
    if arithmetic.frequencies is not None:
        factors = _moved_by_ulps(_rounded(factors, arithmetic.frequencies), arithmetic)
    return _rounded(positions / factors if arithmetic.divides else positions * factors, arithmetic.angles)


def _moved_by_ulps(numbers: Float64s, arithmetic: Arithmetic) -> Float64s:
    digits = {"float32": 24, "bfloat16": 8, "float16": 11}[arithmetic.frequencies or "float32"]
    size = np.abs(np.where((numbers == 0) | np.isinf(numbers), 1, numbers))
    return numbers + arithmetic.ulps * 2.0 ** (np.floor(np.log2(size)) + 1 - digits)


def _rounded(numbers: Any, dtype: str | None) -> Float64s:
    return np.asarray(numbers if dtype is None else ROUNDED[dtype](numbers), np.float64)
