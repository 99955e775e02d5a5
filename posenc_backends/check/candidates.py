"""Candidates: what a function may have computed, the encoding itself or one with a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.analysis.precision import ROUNDED
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Additive, Encoding, PositionScoring, QueryEncoding, RotaryEncoding, Tabular
from posenc_core.encodings.additive.base import in_columns
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.rotation import rotate_pairs
from posenc_core.tables.frequencies import as_float64

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
Apply = Callable[[Float64s, Float64s, Float64s, Any], Float64s]
Outcome = Callable[[Float64s, Float64s], Float64s]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A computation that a function may have made.

    Attributes:
        encoding: the encoding, possibly with another field.
        positions: `(..., length)`; for a scoring encoding, the query positions followed by the key positions.
        dtype: of exact tables, which are rounded once.
        num_queries: for a scoring encoding, how many of the positions belong to queries.
        arithmetic: the precision of the angles.
        changes: functions from positions and tables to tables, applied in order at the end; keys of XPos have tables
            of their own.
        apply: `(x, cos, sin, encoding) -> result`, if tables are applied in another way than by `rotate`.
        outcomes: functions from tokens and results to results, applied in order.
        weights: the parameters of the encoding, by name; `query_phase` of a mistake gives queries of `PoPE` phases.
        mask_positions: of a remapping, the positions by which keys after a query are hidden; None for `positions`.
        norm: of queries and keys, a `Normalization`; None without.
        computed: the exact tables so far, which all candidates of a check share.
    """

    encoding: Any  # an `Encoding` of any class
    positions: npt.NDArray[Any]
    num_queries: int = 0
    arithmetic: Arithmetic = EXACT
    dtype: type[np.floating[Any]] = np.float32
    changes: tuple[Callable[..., Tables], ...] = ()
    apply: Apply | None = None
    outcomes: tuple[Outcome, ...] = ()
    weights: Mapping[str, Any] = field(default_factory=dict)
    mask_positions: npt.NDArray[Any] | None = None
    norm: Any = None
    computed: dict[Any, tuple[Any, ...]] = field(default_factory=dict, compare=False, repr=False)

    def tables(self) -> Tables:
        """Compute cosine and sine, or a table, or a bias, in float64.

        Raises:
            ValueError: if the encoding is not defined at these positions.
        """
        rows = tuple(np.asarray(table, np.float64) for table in self._unchanged_tables())
        mixed = self.encoding.mixed(self.weights, rows) if isinstance(self.encoding, Tabular) else rows
        return self._changed(tuple(np.asarray(table) for table in mixed))

    @property
    def unrounded(self) -> Candidate:
        """This candidate with tables that are not rounded to float32, where the encoding has angles."""
        encoding = getattr(self.encoding, "rotary", self.encoding)
        return replace(self, dtype=np.float64) if has_angles(encoding) else self

    def with_fields(self, **fields: Any) -> Candidate:
        """Return this candidate with other fields of the encoding.

        Raises:
            TypeError, ValueError: if the encoding rejects them.
        """
        return replace(self, encoding=replace(self.encoding, **fields))

    def with_change(self, change: Callable[..., Tables], *, of_positions: bool = False) -> Candidate:
        """Return this candidate with one more change of its tables, a function of their positions as well, or not."""
        one = change if of_positions else lambda _, *tables: change(*tables)
        return replace(self, changes=(*self.changes, one))

    def at(self, rows: npt.NDArray[np.int64] | None) -> Candidate:
        """Return this candidate at these rows only; at all rows if None."""
        return self if rows is None else replace(self, positions=self.positions[..., rows])

    def _changed(self, tables: Tables) -> Tables:
        for change in self.changes:
            parts = (tables,) if len(tables) != 4 else (tables[:2], tables[2:])
            tables = tuple(table for part in parts for table in change(self.positions, *part))
        return tables

    def _unchanged_tables(self) -> tuple[Any, ...]:
        encoding, positions = self.encoding, self.positions
        if isinstance(encoding, PositionScoring):
            return (self._bias(encoding),)
        if isinstance(encoding, QueryEncoding):
            return (_factors(encoding, self.weights, positions),)
        if isinstance(encoding, QueryKeyEncoding) and (encoding.widening > 1 or encoding.computes_rows):
            return self._polar(encoding) if encoding.widening > 1 else self._cos_sin_by_head(encoding)
        if self.arithmetic != EXACT:
            return self._rounded_tables()
        if encoding.parameters() and not isinstance(encoding, RotaryEncoding):
            return (_learned_table(encoding, self.weights, positions),)
        return self._exact_tables(self.dtype)

    def _exact_tables(self, dtype: type[np.floating[Any]]) -> tuple[Any, ...]:
        """Return the tables without a mistake in their numbers, which many candidates have."""
        key = (self.encoding, dtype, self.positions.dtype, self.positions.shape, self.positions.tobytes())
        if key not in self.computed:
            self.computed[key] = _exact_tables(self.encoding, self.positions, dtype)
        return self.computed[key]

    def added_scores(self, q: Float64s, k: Float64s) -> Tables:
        """Compute what an encoding that looks at queries and keys adds to their scores; 0 at keys that are hidden."""
        encoding = self.encoding
        queries, keys = self.positions[: self.num_queries], self.positions[self.num_queries :]
        hidden = keys > queries[:, None] if encoding.needs_all_keys else np.zeros((1, 1), bool)
        scores = np.where(hidden, -np.inf, q @ np.swapaxes(k, -1, -2) / np.sqrt(encoding.head_dim))
        weights = {**encoding.constants(0), **self.weights}
        added = np.asarray(encoding.scores(weights, queries, keys, AttentionInputs(q, k, scores)), np.float64)
        (changed,) = self._changed((added,))
        return (np.where(hidden, 0, np.broadcast_to(changed, scores.shape)),)

    def _bias(self, encoding: PositionScoring) -> Any:
        queries, keys = self.positions[: self.num_queries], self.positions[self.num_queries :]
        if not encoding.parameters():
            return encoding.bias(queries, keys)
        return encoding.score({**encoding.constants(0), **self.weights}, queries, keys)

    def _cos_sin_by_head(self, encoding: Any) -> Tables:
        """Compute cosine and sine of angles that are sums over the axes, `(..., heads, length, pairs)`."""
        angles = np.zeros(1)
        for own, each in zip(self.positions, self.weights["frequencies"], strict=True):
            term = _angles(own[..., None, :, None], each[:, None, :], self.arithmetic)
            angles = _rounded(angles + term, self.arithmetic.angles)
        sign = -1 if encoding.direction == "inverse" else 1
        return np.cos(angles).astype(self.dtype), (sign * np.sin(angles)).astype(self.dtype)

    def _polar(self, encoding: Any) -> Tables:
        """Compute cosine and sine of queries, then those of keys."""
        return (*self._with_phases(encoding, "query_phase"), *self._with_phases(encoding, "phase"))

    def _with_phases(self, encoding: Any, name: str) -> Tables:
        """Compute cosine and sine of the angles of positions and phases, `(..., heads or 1, length, head_dim)`."""
        phase = np.clip(self.weights.get(name, np.zeros((1, encoding.head_dim))), -2 * np.pi, 0)[:, None, :]
        if self.arithmetic != EXACT:
            angles = _angles(self.positions[..., None, :, None], encoding.frequencies(), self.arithmetic)
            angles = _rounded(angles + phase, self.arithmetic.angles)
            return np.cos(angles), np.sin(angles)
        rows = encoding.cos_sin(self.positions, dtype=self.dtype)
        cos, sin = (np.asarray(row, np.float64)[..., None, :, :] for row in rows)
        along, across = np.cos(phase), np.sin(phase)
        return cos * along - sin * across, sin * along + cos * across

    def _rounded_tables(self) -> Tables:
        """Compute each column at the rounded angle; a column that is not a sine or cosine stays exact."""
        frequencies, (at_zero, at_quarter) = _frequencies(self.encoding), _columns_at_0_and_90_degrees(self.encoding)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            angles = _angles(by_column(self.encoding, self.positions), frequencies, self.arithmetic)
        if not np.isfinite(angles).all():
            raise ValueError("Angles overflow.")
        cos, sin = np.cos(angles), np.sin(angles)
        if isinstance(self.encoding, RotaryEncoding):
            cos, sin = cos * at_zero, sin * at_quarter
            if frequencies.all():
                return cos, sin
            exact = self._exact_tables(np.float32)  # a pair that stands still may have any constants
            return tuple(np.where(frequencies == 0, *both) for both in zip(exact, (cos, sin), strict=True))
        table = cos * at_zero + sin * at_quarter
        if not frequencies.all():
            table = np.where(frequencies == 0, self._exact_tables(np.float32)[0], table)
        return (table,)


def arithmetic_within(arithmetic: Arithmetic, ulps: int) -> Iterator[Arithmetic]:
    """Yield the arithmetic with frequencies that are off by 0, 1, -1, … up to `ulps` ulp."""
    yield arithmetic
    for count in range(1, ulps + 1):
        yield arithmetic._replace(ulps=count)
        yield arithmetic._replace(ulps=-count)


def apply_tables(x: Float64s, cos: Float64s, sin: Float64s, encoding: Any) -> Float64s:
    """Return tokens as the encoding makes them of cosine and sine: rotated, or magnitudes at angles."""
    if encoding.widening > 1:
        return np.asarray(encoding.queries_of(x, cos, sin))
    return np.asarray(rotate_pairs(x, cos, sin, pairing=encoding.pairing))


def _exact_tables(
    encoding: Encoding, positions: npt.NDArray[Any], dtype: type[np.floating[Any]] = np.float32
) -> tuple[Any, ...]:
    if isinstance(encoding, RotaryEncoding):
        if encoding.keys_differ:
            return tuple(encoding.rows(positions).values())
        return encoding.cos_sin(positions, dtype=dtype)
    if isinstance(encoding, Additive):
        return (encoding.table(positions, dtype),)
    raise TypeError(f"`encoding` must have a table, got {encoding!r}.")


def has_angles(encoding: Encoding) -> bool:
    """Whether each column is the sine or cosine of an angle on one axis, or a number without rounding."""
    if isinstance(encoding, QueryKeyEncoding) and not encoding.needs_attention:
        return not keys_have_tables(encoding)
    return isinstance(encoding, Additive) and encoding.num_axes == 1 and not encoding.parameters()


def keys_have_tables(encoding: Encoding) -> bool:
    """Whether keys have tables of their own, which change the lengths of pairs with the position."""
    return "key_cos" in getattr(encoding, "table_names", ())


def by_column(encoding: Encoding, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the positions that multiply the frequencies: `(..., length, 1)`, or `(..., length, columns)` by axis."""
    if encoding.num_axes == 1 or not isinstance(encoding, RotaryEncoding):
        return positions[..., None]
    return np.moveaxis(positions[list(encoding.axes)], 0, -1)


def _factors(encoding: QueryEncoding, weights: Mapping[str, Any], positions: npt.NDArray[Any]) -> Any:
    """Return the factors of queries, `(..., length, 1)`, with an axis of heads before where each has its own."""
    if not weights:
        return encoding.rows(positions)["factors"]
    slope, intercept = (np.reshape(weights[name], (-1, 1, 1)) for name in ("slope", "intercept"))
    return slope * np.log(positions[..., None, :, None] + 1.0) + intercept  # of float64, unlike those of a layer


def _learned_table(encoding: Any, weights: Mapping[str, Any], positions: npt.NDArray[Any]) -> Any:
    if "table" in weights:
        if (positions < 0).any() or (positions >= encoding.limit).any():
            raise ValueError("There is no such row.")
        return weights["table"][positions + encoding.offset]
    constants = encoding.constants(0)
    frequencies = as_float64(encoding._frequencies()) * np.exp(weights["alpha"])  # constants are rounded to float32
    return in_columns(positions[..., None] * frequencies, constants["places"].astype(np.int64))


@lru_cache(maxsize=16)
def _columns_at_0_and_90_degrees(encoding: Encoding) -> Tables:
    """Return the entry of each column at angle 0 and at π/2; for a rotation, the factors of cosine and sine."""
    if isinstance(encoding, RotaryEncoding):
        factors = encoding.attention_factors
        factors = factors if np.ptp(factors) else factors[0]  # there may be more columns than pairs
        return np.array(factors), np.array(-factors if encoding.direction == "inverse" else factors)
    frequencies = _frequencies(encoding)
    quarters = np.divide(np.pi / 2, frequencies, out=np.zeros_like(frequencies), where=frequencies != 0)
    (at_zero,), (at_quarter,) = _exact_tables(encoding, np.zeros(1, np.int64)), _exact_tables(encoding, quarters)
    return np.asarray(at_zero[0], np.float64), np.asarray(np.diagonal(at_quarter), np.float64)


@lru_cache(maxsize=16)
def _frequencies(encoding: Encoding) -> Float64s:
    if isinstance(encoding, RotaryEncoding):
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
