"""Signatures: what a checked function takes, what it returns, and what it must return."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np

from posenc_backends.conformance.errors import pair_lengths
from posenc_core._array_api.checks import check_known, shown
from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import (
    Additive,
    ContentScoring,
    Encoding,
    LearnedQueryScale,
    PoPE,
    PositionScoring,
    QueryScale,
    RotaryEncoding,
)
from posenc_core.encodings.base import TokenRows
from posenc_core.encodings.remapping import RemappedRotary, whole

from .candidates import Candidate, Float64s, apply_tables

# Scores add up some twenty rounded products: their unit is 4 ulp of the largest. CoPE looks up rows at a sum of up to
# 24 gates, which is off by up to 12 * 16 half ulps of a row: its unit is 16 ulp.
SUMS, SUMS_OF_GATES = 4.0, 16.0
PHASES = 2.0  # ulp of the largest magnitude: phases bounded by the float32 number next to -2π are off by 1.7e-7
QUERY_WIDTH = 8  # of queries that are multiplied by a factor
HEADS = (4, 2)  # of queries and of keys: grouped-query attention
GROUPED = (4, 1)  # of the calls in which each head of keys with phases serves four of queries, which may be refused


@dataclass(frozen=True)
class Signature(ABC):
    """The arguments and results of a function.

    Attributes:
        encoding: the encoding that the function must compute.
    """

    encoding: Any

    name: ClassVar[str]
    has_angles: ClassVar[bool] = True
    has_tokens: ClassVar[bool] = True  # if not, the function has no gradient and no other dtype
    outputs: ClassVar[tuple[str, ...]] = ("result",)

    def tokens(
        self,
        generator: np.random.Generator,
        shape: tuple[int, int],
        dtype: str,
        heads: tuple[int, int] = HEADS,
        num_queries: int = 0,
    ) -> tuple[Float64s, ...]:
        """Draw the arrays that the function takes besides positions; `shape` is `(batch, length)`."""
        shapes = self.shapes(shape, heads, num_queries)
        return tuple(ROUNDED[dtype](generator.standard_normal(s)).astype(np.float64) for s in shapes)

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        """Return the shapes of these arrays; none by default."""
        return []

    @abstractmethod
    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        """Compute what the function returns if it computes the candidate.

        Args:
            candidate: an encoding at positions.
            tokens: the arrays of `tokens`.
            width: number of columns that the function returns; tables have one for each pair or for each channel.
        """

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        """Return the numbers whose ulp is the unit of error for one output; by default its own numbers."""
        return np.abs(results)

    @property
    def sums(self) -> float:
        """The part of these units that allows for sums in float32, which half precision rounds once."""
        return 1.0


class RotateQueriesAndKeys(Signature):
    """`(q, k, positions) -> (q, k)`; arrays are `(batch, heads, length, head_dim)`."""

    name = "rotation"
    outputs: ClassVar[tuple[str, ...]] = ("queries", "keys")

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        counts = (self.encoding.table_heads or count for count in heads[: len(self.outputs)])
        return [(shape[0], count, shape[1], self.encoding.head_dim) for count in counts]

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        tables = candidate.tables()
        return tuple(
            _rotated(candidate, x, *(tables[2:] if number and len(tables) == 4 else tables[:2]))
            for number, x in enumerate(tokens)
        )

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        lengths = np.asarray(pair_lengths(candidate.encoding, results))
        if candidate.encoding.mixes_rows:  # of a sum of many terms, each rounded
            return np.full_like(lengths, lengths.max(initial=0))
        whole_rows = candidate.apply is not None
        return np.broadcast_to(lengths.max(axis=-1, keepdims=True), lengths.shape) if whole_rows else lengths


def _rotated(candidate: Candidate, x: Float64s, *tables: Float64s) -> Float64s:
    """Return the tokens rotated by cosine and sine, as the candidate applies them."""
    encoding = candidate.encoding
    used = (table[..., : encoding.pairs] for table in tables)
    return _applied(candidate, x, *(t if t.ndim == 2 or encoding.table_heads else t[:, None] for t in used))


def _applied(candidate: Candidate, x: Float64s, cos: Float64s, sin: Float64s) -> Float64s:
    return _with_outcomes(candidate, x, (candidate.apply or apply_tables)(x, cos, sin, candidate.encoding))


def _with_outcomes(candidate: Candidate, x: Float64s, result: Float64s) -> Float64s:
    return reduce(lambda so_far, outcome: outcome(x, so_far), candidate.outcomes, result)


class Rotate(RotateQueriesAndKeys):
    """`(x, positions) -> x`."""

    name = "turn"
    outputs = ("result",)


class PolarQueriesAndKeys(Signature):
    """`(q, k, positions) -> (q, k)` of `PoPE`, twice as wide; arrays are `(batch, heads, length, head_dim)`."""

    name = "rotation"
    outputs: ClassVar[tuple[str, ...]] = ("queries", "keys")

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        return _polar_shapes(self.encoding, shape[0], heads, (shape[1], shape[1]))

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return _polar(candidate, *tokens, *candidate.tables())

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.full_like(results, PHASES * np.abs(results).max(initial=0))


def _polar_shapes(
    encoding: PoPE, batch: int, heads: tuple[int, int], lengths: tuple[int, int]
) -> list[tuple[int, ...]]:
    times = heads[0] // heads[1] if heads == GROUPED else 1
    counts = encoding.num_heads * times, encoding.num_heads
    return [(batch, count, length, encoding.head_dim) for count, length in zip(counts, lengths, strict=True)]


def _polar(candidate: Candidate, q: Float64s, k: Float64s, *tables: Float64s) -> tuple[Float64s, Float64s]:
    """Return queries and keys as magnitudes at angles, from cosine and sine of queries and those of keys."""
    of_queries = (np.repeat(table, q.shape[1] // table.shape[-3], axis=-3) for table in tables[:2])
    return _applied(candidate, q, *of_queries), _applied(candidate, k, *tables[2:])


class CosSin(Signature):
    """`positions -> (cos, sin)`, with one column for each pair, or two."""

    name = "table"
    has_tokens = False
    outputs = ("cos", "sin")

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        tables = candidate.tables()
        if width != 2 * tables[0].shape[-1]:
            return tables
        if candidate.encoding.layout == "interleaved":
            return tuple(np.repeat(table, 2, axis=-1) for table in tables)
        return tuple(np.concatenate([table, table], axis=-1) for table in tables)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        encoding = candidate.encoding
        size = np.abs(results).max(initial=0) if encoding.mixes_rows else encoding.attention_factor
        return np.full_like(results, size)


class Table(Signature):
    """`positions -> table`, shape `(length, dim)`."""

    name = "table"
    has_tokens = False

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return candidate.tables()

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        encoding = candidate.encoding
        frequencies = (
            np.atleast_2d(encoding.angular_frequencies()) if isinstance(encoding, Additive) else np.zeros((1, 1))
        )
        is_sinusoid = (frequencies != 0).any(axis=0)
        return np.where(is_sinusoid, np.maximum(np.abs(results), 1), np.abs(results))


class Add(Signature):
    """`(x, positions) -> x + rows`; `x` is `(batch, length, dim)`."""

    name = "addition"

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        return [(*shape, self.encoding.dim)]

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return (_with_outcomes(candidate, tokens[0], tokens[0] + candidate.tables()[0]),)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.maximum(np.abs(results), 1)


class Factors(Table):
    """`positions -> factors` of queries, shape `(length, 1)`."""

    has_angles = False


class ScaleQueries(Signature):
    """`(x, positions) -> x * factor`; queries `x` are `(batch, heads, length, head_dim)`."""

    name = "scale"
    has_angles = False

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        return [(shape[0], getattr(self.encoding, "num_heads", heads[0]), shape[1], QUERY_WIDTH)]

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        (factors,) = candidate.tables()
        return (tokens[0] * (factors[:, None] if candidate.positions.ndim > 1 and not candidate.weights else factors),)

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.full_like(results, np.abs(results).max(initial=0)) if candidate.weights else np.abs(results)


class Bias(Signature):
    """`(query_positions, key_positions) -> bias`, shape `(heads, queries, keys)`."""

    name = "bias"
    has_angles = False
    has_tokens = False

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return candidate.tables()

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.full_like(results, np.abs(results).max(initial=0)) if self.encoding.parameters() else np.abs(results)


class OfPairs(Signature):
    """`(q, k, query_positions, key_positions) -> a number for each pair`, `(batch, heads, queries, keys)`."""

    has_angles = False

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        count, lengths = getattr(self.encoding, "num_heads", heads[0]), (num_queries, shape[1] - num_queries)
        return [(shape[0], count, length, self.encoding.head_dim) for length in lengths]

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        positions, masked = candidate.positions, candidate.mask_positions
        if positions.ndim == 1:
            return (self.of_row(candidate, *tokens),)
        rows = []
        for row, (q, k) in enumerate(zip(*tokens, strict=True)):
            own = replace(candidate, positions=positions[row % len(positions)])  # one row may stand for all
            if masked is not None:
                own = replace(own, mask_positions=masked[row])
            rows.append(self.of_row(own, q[None], k[None]))
        return (np.concatenate(rows),)

    @abstractmethod
    def of_row(self, candidate: Candidate, q: Float64s, k: Float64s) -> Float64s:
        """Return the numbers of queries and keys whose positions are the same in all rows of the batch."""

    @property
    def sums(self) -> float:
        return SUMS_OF_GATES if self.encoding.needs_all_keys else SUMS

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return np.full_like(results, self.sums * np.abs(results).max(initial=0))


class Scores(OfPairs):
    """`(q, k, query_positions, key_positions) -> what is added to the scores`, `(batch, heads, queries, keys)`."""

    name = "scores"

    def of_row(self, candidate: Candidate, q: Float64s, k: Float64s) -> Float64s:
        (scores,) = candidate.added_scores(q, k)
        return scores


class Products(OfPairs):
    """`(q, k, query_positions, key_positions) -> products`, `(batch, heads, queries, keys)`, 0 for hidden keys."""

    name = "products"

    def of_row(self, candidate: Candidate, q: Float64s, k: Float64s) -> Float64s:
        at, count = candidate.positions, candidate.num_queries
        queries, keys = np.split(at, [count])
        q, k = (
            _in_all_rotations(candidate, x, own, keys=own is keys)
            for x, own in zip((q, k), (queries, keys), strict=True)
        )
        masked = at if candidate.mask_positions is None else candidate.mask_positions
        products = candidate.encoding.products_by_region(q, k, queries, keys)
        return np.where(masked[count:] > masked[:count, None], 0, products)


def _in_all_rotations(candidate: Candidate, x: Float64s, positions: Any, *, keys: bool) -> Float64s:
    """Return the tokens rotated by each of their remapped positions, one rotation after the other."""
    encoding = candidate.encoding
    remapped = encoding.remapped(positions.astype(np.float64))
    inner = [replace(candidate, encoding=encoding.rotary, positions=whole(at), num_queries=0) for at in remapped]
    rows = tuple(table for one in inner for table in one.tables())
    return encoding.apply(x, TokenRows(rows, partial(_rotated, inner[0]), {}, keys))


class PolarProducts(OfPairs):
    """`(q, k, query_positions, key_positions) -> products` of `PoPE`, `(batch, heads, queries, keys)`."""

    name = "products"

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        return _polar_shapes(self.encoding, shape[0], heads, (num_queries, shape[1] - num_queries))

    def of_row(self, candidate: Candidate, q: Float64s, k: Float64s) -> Float64s:
        count, (cos, sin, key_cos, key_sin) = candidate.num_queries, candidate.tables()
        of_queries = (table[..., :count, :] for table in (cos, sin))
        at_q, at_k = _polar(candidate, q, k, *of_queries, *(table[..., count:, :] for table in (key_cos, key_sin)))
        return np.asarray(at_q @ np.repeat(at_k, q.shape[1] // k.shape[1], axis=1).swapaxes(-1, -2))

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        return PHASES * super().magnitudes(candidate, results)


SIGNATURES: dict[type[Any], dict[int, type[Any]]] = {  # by the number of arguments
    RotaryEncoding: {3: RotateQueriesAndKeys, 2: Rotate, 1: CosSin},
    PoPE: {3: PolarQueriesAndKeys, 4: PolarProducts},
    Additive: {1: Table, 2: Add},
    QueryScale: {1: Factors, 2: ScaleQueries},
    LearnedQueryScale: {2: ScaleQueries},
    PositionScoring: {2: Bias},
    ContentScoring: {4: Scores},
    RemappedRotary: {4: Products},
}


def signature_of(function: Callable[..., Any], encoding: Encoding, name: str | None) -> Any:
    """Return the signature of this name, or the one with as many arguments as the function takes.

    Raises:
        TypeError: if encodings of this type cannot be checked.
        ValueError: if the encoding has no such signature, or the number of arguments matches none.
    """
    cls = next((cls for cls in SIGNATURES if isinstance(encoding, cls)), None)
    if cls is None:
        raise TypeError(f"`spec` must be a rotary, an additive, a query or a scoring encoding, got {shown(encoding)}.")
    signatures = SIGNATURES[cls]
    by_name = {signature.name: signature for signature in signatures.values()}
    if name is not None:
        check_known("form", name, tuple(by_name))
        return by_name[name](encoding)
    count = _num_arguments(function, default=max(signatures))
    if count not in signatures:
        choices = ", ".join(map(repr, by_name))
        raise ValueError(f"`function` takes {count} arguments, which matches no signature; pass `form`, of {choices}.")
    return signatures[count](encoding)


def _num_arguments(function: Callable[..., Any], *, default: int) -> int:
    """Count the arguments that the function needs; return `default` if it cannot be inspected."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return default
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return default
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [number for number, p in enumerate(positional, 1) if p.default is p.empty or "pos" in p.name]
    return max(needed, default=0)
