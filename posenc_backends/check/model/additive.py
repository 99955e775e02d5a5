"""Compare rows that are added to tokens, biases of scores and factors of queries with those of their encodings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Additive, Alibi, PositionScoring

from ..candidates import Candidate, Float64s
from ..diagnosis import LIMIT, FoundMistake, found_in, measure
from ..precision_classes import UNKNOWN
from ..sample_calls import TestCall
from ..signatures import Bias, Factors, Table
from .judge import ENTRIES, NOT_FINITE, RADIANS, STILL, Judge
from .protocol import HIDDEN

MISSING, UNEXPECTED, PAST = "{} missing", "{} that the config does not have", "positions past the table"
ALIKE = 1e-4  # relative difference of numbers that are the same but for their rounding
Weights = list[tuple[str, Float64s]]


class Rows(NamedTuple):
    """The rows that are added to tokens in a call.

    Attributes:
        name: of the call.
        positions: `(length,)` or `(rows, length)`.
        rows: `(*positions.shape, dim)`.
        dtype: of the model.
    """

    name: str
    positions: npt.NDArray[np.int64]
    rows: Float64s
    dtype: str

    @property
    def call(self) -> TestCall:
        """The call, without what is expected."""
        return _call(self.name, self.dtype, self.positions)


class Scores(NamedTuple):
    """The scores that a layer's softmax takes in a call of equal tokens.

    Attributes:
        name: of the call.
        queries, keys: positions.
        scores: `(heads, queries, keys)`, up to a number for each query.
        size: of the scaled products of queries and keys, which may be left out of them.
        dtype: of the model.
    """

    name: str
    queries: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    scores: Float64s
    size: float
    dtype: str

    @property
    def call(self) -> TestCall:
        """The call, without what is expected."""
        return _call(self.name, self.dtype, np.r_[self.queries, self.keys], len(self.queries))


class Lengths(NamedTuple):
    """The lengths of a layer's queries before their rotation in a call.

    Attributes:
        name: of the call.
        positions: `(length,)`, the first of which has the smallest factor.
        lengths: `(heads, length)`, relative to the first.
        dtype: of the model.
    """

    name: str
    positions: npt.NDArray[np.int64]
    lengths: Float64s
    dtype: str

    @property
    def call(self) -> TestCall:
        """The call, without what is expected."""
        return _call(self.name, self.dtype, self.positions)


def _call(name: str, dtype: str, positions: Any, num_queries: int = 0) -> TestCall:
    dtype = "float32" if dtype == "float64" else dtype
    return TestCall(name, dtype, positions, num_queries, (), None)  # type: ignore[arg-type]


@dataclass(frozen=True)
class TableInModel(Table):
    """Rows of a model, whose angles may be rounded to float32, and its table to the dtype of tokens."""

    dtype: str
    outputs: ClassVar[tuple[str, ...]] = ("table",)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        sizes, frequencies = super().magnitudes(candidate, results), np.abs(self.encoding.angular_frequencies())
        if not frequencies.any():
            return sizes
        return sizes * (ENTRIES[self.dtype] + RADIANS[self.dtype] * candidate.positions[..., None] * frequencies)


@dataclass(frozen=True)
class BiasInModel(Bias):
    """Biases less that of the first key that a query sees, which softmax cannot tell apart.

    Attributes:
        visible: which keys a query sees, `(heads, queries, keys)`.
        size: of the scores that they are read from.
    """

    visible: npt.NDArray[np.bool_]
    size: float
    outputs: ClassVar[tuple[str, ...]] = ("bias",)

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return (relative_to_first(candidate.tables()[0], self.visible),)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.full_like(results, self.size)


@dataclass(frozen=True)
class FactorsInModel(Factors):
    """Factors of queries relative to that of the first position."""

    dtype: str
    outputs: ClassVar[tuple[str, ...]] = ("factor of queries",)

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        (factors,) = candidate.tables()
        return (factors / factors[:1],)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return ENTRIES[self.dtype] * np.abs(results)


def relative_to_first(bias: Float64s, visible: npt.NDArray[np.bool_]) -> Float64s:
    """Return a bias less that of the first key that each query sees, and 0 at keys that it does not."""
    first = visible.argmax(axis=-1)[..., None]
    bias = np.broadcast_to(bias, visible.shape)
    return np.where(visible, bias - np.take_along_axis(bias, first, axis=-1), 0)


def table_mistakes(judge: Judge, encoding: Additive | None, seen: list[Rows], weights: Weights) -> list[FoundMistake]:
    """Return the mistakes in the rows that are added to tokens, of the first call that shows one.

    Args:
        judge: finds mistakes.
        encoding: what should be added; None if nothing should.
        seen: the rows of each call.
        weights: tables of the model that may be the encoding's, if it learns.
    """
    if encoding is None:
        return [found_in(seen[0].call, UNEXPECTED.format("table"), "rows are added to tokens", error=np.inf)]
    columns = seen[0].rows.shape[-1]
    if columns != encoding.dim:
        return [found_in(seen[0].call, "wrong dim", f"rows have {columns} columns, not {encoding.dim}", error=np.inf)]
    signature = TableInModel(encoding, seen[0].dtype)
    diagnosis = judge.diagnosis(signature)
    table = {"table": nearest_table(seen[0].rows, weights)} if encoding.parameters() else {}
    for one in seen:
        if not np.isfinite(one.rows).all():
            return [found_in(one.call, NOT_FINITE, "rows are NaN or infinity", error=np.inf)]
        expected = Candidate(encoding=encoding, positions=one.positions, weights=table)
        diagnosis.add(measure(signature, one.call._replace(expected=expected), (one.rows,)))
        if diagnosis.mistakes:
            names = {mistake.name for mistake in diagnosis.mistakes}
            return [_wrong_rows(encoding, one, weights)] if table and UNKNOWN in names else diagnosis.mistakes
    return []


def _wrong_rows(encoding: Any, seen: Rows, weights: Weights) -> FoundMistake:
    """Return the mistake of other rows of a table, by their positions."""
    used = _positions_used(encoding, seen.rows, weights)
    positions = seen.positions.ravel()
    wrong, largest = np.flatnonzero(used != positions), int(used.max())
    steps = np.unique((positions - used)[wrong])
    period = int(np.gcd.reduce(steps)) if wrong.size else 0
    if wrong.size and (used == np.minimum(positions, largest)).all():
        return found_in(
            seen.call, "positions clamped", f"positions past {largest} have the row of {largest}", error=np.inf
        )
    if period > 1 and (used == positions % period).all():
        return found_in(seen.call, "positions wrapped", f"rows start again after {period} positions", error=np.inf)
    if not wrong.size:
        return found_in(seen.call, "rows changed", "rows are not those of the table", error=np.inf)
    first = wrong[0]
    words = f"position {positions[first]} has the row of {used[first]}"
    return found_in(seen.call, "wrong rows", words, error=np.inf)


def _positions_used(encoding: Any, rows: Float64s, weights: Weights) -> npt.NDArray[np.int64]:
    """Return the position whose row is nearest to each of some rows."""
    return np.asarray(_distances(rows, nearest_table(rows, weights)).argmin(axis=-1) - encoding.offset)


def nearest_table(rows: Float64s, weights: Weights) -> Float64s:
    """Return the table in which rows are found best."""
    return min((table for _, table in weights), key=lambda table: _distances(rows, table).min(axis=-1).sum())


def missing_table(call: str) -> FoundMistake:
    """Return the mistake of a model that adds no rows to its tokens."""
    return FoundMistake(
        name=MISSING.format("table"),
        description="nothing is added to tokens",
        outputs=(),
        calls=(call,),
        error=np.inf,
        start="at all positions.",
    )


def mistakes_past_the_table(encoding: Any, seen: Rows, weights: Weights) -> list[FoundMistake]:
    """Return the mistake of a model that has rows for positions past its table, where it should refuse them."""
    positions, rows = seen.positions[1:], seen.rows[1:]
    if np.isnan(rows).all():  # of JAX, which raises no errors
        return []
    used = _positions_used(encoding, rows, weights)
    words = f"positions {positions[0]} and {positions[1]} have the rows of {used[0]} and {used[1]}"
    return [found_in(seen.call, PAST, words, error=np.inf)]


def _distances(rows: Float64s, table: Float64s) -> Float64s:
    rows = rows.reshape(-1, rows.shape[-1])
    squares = (rows**2).sum(axis=-1)[:, None] + (table**2).sum(axis=-1)
    return np.asarray(squares - 2 * rows @ table.T)


def bias_mistakes(judge: Judge, encoding: PositionScoring | None, seen: Scores, weights: Weights) -> list[FoundMistake]:
    """Return the mistakes in the bias of a layer's scores; the arguments are those of `table_mistakes`."""
    visible = seen.scores > HIDDEN
    visible &= visible.any(axis=-1, keepdims=True)
    call = seen.call
    if np.isnan(seen.scores).any():
        return [found_in(call, NOT_FINITE, "scores are NaN", error=np.inf)]
    bias = relative_to_first(np.where(visible, seen.scores, 0), visible)
    size = max(float(np.abs(seen.scores[visible]).max(initial=0)), seen.size)
    has_bias = bool(np.abs(bias).max(initial=0) > STILL[seen.dtype] * size)
    if encoding is None:
        error = np.abs(bias).max(initial=0) * 2**24
        return [found_in(call, UNEXPECTED.format("bias"), "scores have a bias", error=error)] if has_bias else []
    heads = len(seen.scores)
    if heads != encoding.num_heads:
        words = f"scores have {heads} heads, not {encoding.num_heads}"
        return [found_in(call, "wrong num_heads", words, error=np.inf)]
    tables: list[dict[str, Float64s]] = [{"table": one} for _, one in weights] if encoding.parameters() else [{}]
    expected = (
        Candidate(encoding=encoding, positions=call.positions, num_queries=len(seen.queries), weights=one)
        for one in tables
    )
    calls = [call._replace(expected=one) for one in expected]
    largest = max(float(np.abs(relative_to_first(one.expected.tables()[0], visible)).max()) for one in calls)
    signature = BiasInModel(encoding, visible, float(ENTRIES[seen.dtype] * (size + largest)))
    nearest = next((one for one in calls if measure(signature, one, (bias,)).worst <= LIMIT), calls[0])
    diagnosis = judge.diagnosis(signature)
    if not has_bias and largest > STILL[seen.dtype] * size:
        counted = replace(nearest.expected, positions=np.r_[seen.queries * 0, seen.keys])
        if seen.queries.all() and measure(signature, nearest._replace(expected=counted), (bias,)).worst <= LIMIT:
            return [found_in(call, "positions ignored", "queries are counted from 0", error=np.inf)]
        return [found_in(call, MISSING.format("bias"), "nothing is added to scores", error=np.inf)]
    diagnosis.add(measure(signature, nearest, (bias,)))
    return diagnosis.mistakes


def in_bfloat16(encoding: Any, width: int) -> Alibi:
    """Return ALiBi with slopes that are rounded to bfloat16 and divided by the root of the width of a head."""
    slopes = ROUNDED["bfloat16"](encoding.constants(0)["slopes"]) / np.sqrt(width)
    return Alibi(num_heads=encoding.num_heads, slopes=tuple(map(float, slopes)))


def factor_mistakes(judge: Judge, encoding: Any, seen: Lengths) -> list[FoundMistake]:
    """Return the mistakes in the factors by which a layer multiplies its queries."""
    if encoding is None:
        change = np.abs(seen.lengths - 1).max()
        if change <= STILL[seen.dtype]:
            return []
        words = f"queries become longer by a factor of {seen.lengths.max():.6g}"
        return [found_in(seen.call, UNEXPECTED.format("factor of queries"), words, error=change * 2**24)]
    if encoding.parameters():
        return []
    signature = FactorsInModel(encoding, seen.dtype)
    call = seen.call._replace(expected=Candidate(encoding=encoding, positions=seen.positions))
    diagnosis = judge.diagnosis(signature)
    lengths = seen.lengths.mean(axis=0)
    diagnosis.add(measure(signature, call, (lengths[:, None],)))
    grows = encoding.factors(seen.positions) / encoding.factors(seen.positions[:1]) - 1
    ratio = (lengths[-1] - 1) / grows[-1] if grows[-1] else 0.0
    if UNKNOWN in {one.name for one in diagnosis.mistakes} and np.abs(lengths - 1 - ratio * grows).max() < ALIKE:
        words = f"the scale is {encoding.scale * ratio:.6g}, not {encoding.scale:.6g}"
        return [replace(diagnosis.mistakes[0], name="wrong scale", description=words)]
    return diagnosis.mistakes
