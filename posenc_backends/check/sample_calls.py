"""Test calls: the calls that a function is checked with, in an order that reveals stale caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding
from posenc_core.encodings.remapping import RemappedRotary

from .candidates import Candidate, Float64s, keys_have_tables
from .signatures import GROUPED, HEADS, Bias, OfPairs, Signature

MAX_POSITION = 2**20
LIMIT_OF_POSITIONS = 2**31  # of a check that asks for more
FAR = (1000, 4090, 8200, 32760, 65531, 131065, 262139, 524283, 1048563)  # first positions, on both sides of powers of 2
FARTHER = (2**22 - 6, 2**24 - 6, 3 * 2**24 + 5, 2**28 - 6, 2**31 - 13)  # float32 represents the integers to 2**24
PREFILL = 600  # tokens from position 0: more than bfloat16 can count
MAY_REFUSE = (  # a function may accept consecutive positions only
    "fewer heads of keys", "each row its own", "out of order", "sparse", "repeated", "unsorted", "each row unsorted",
)  # fmt: skip
OUT_OF_ORDER = ([9, 2, 30, 4, 4, 77, 0, 51, 18, 23, 1, 40, 65], [9, 4, 51, 0, 40, 23, 1, 30, 77, 2, 18, 4, 65])
LONG = 2049
RANDOM_CALLS = 24
SIZES = (1, 2, 3, 5, 8, 17, 33, 64, 127, 257)  # lengths of random calls
MANY_HEADS = ((1, 1), (2, 1), (3, 3), (5, 1), (6, 2), (8, 8))
KINDS = ("consecutive", "sparse", "repeated", "unsorted", "each row its own", "each row unsorted")
HALVES = ("bfloat16", "float16")
PAIRS = (Bias, OfPairs)  # forms of functions that take the positions of queries and of keys
OTHER_POSITIONS = {  # tested only on request; float32 represents them all
    "negative": np.arange(-13, 4),
    "real": np.array([0.5, 3.25, 2.75, 9.125, 33.5, 100.0625, 1000.75, 4090.5, 7.0]),
}


class TestCall(NamedTuple):
    """One call of the checked function.

    Attributes:
        name: what the call tests.
        dtype: dtype of the tokens.
        positions: `(length,)` or `(batch, length)`; for a bias, the query positions followed by the key positions.
        num_queries: for a bias, how many of the positions belong to queries.
        tokens: the other arrays, in float64.
        expected: the candidate without a mistake.
        is_optional: whether the function may refuse the call.
        batch, heads: the sizes of the tokens, as `Signature.tokens` takes them.
        is_strided: whether tokens are views whose axes of heads and positions are swapped in memory.
    """

    name: str
    dtype: str
    positions: npt.NDArray[Any]
    num_queries: int
    tokens: tuple[Float64s, ...]
    expected: Candidate
    is_optional: bool = False
    batch: int = 2
    heads: tuple[int, int] = HEADS
    is_strided: bool = False

    @property
    def position_arguments(self) -> tuple[npt.NDArray[Any], ...]:
        """The positions, as the function takes them."""
        if not self.num_queries:
            return (self.positions,)
        return self.positions[..., : self.num_queries], self.positions[..., self.num_queries :]

    @property
    def description(self) -> str:
        """Shapes, dtype and positions of the call, in words."""
        shapes = " and ".join(str(x.shape) for x in self.tokens)
        tokens = f"{shapes} in {self.dtype} at " if self.tokens else ""
        ends = [
            " and ".join(f"{row[0]} … {row[-1]}" for row in positions.reshape(-1, positions.shape[-1]))
            for positions in self.position_arguments
        ]
        return f"{tokens}positions {' for keys '.join(ends)}"

    def sample_rows(self, most: int) -> npt.NDArray[np.int64] | None:
        """Return at most `most` rows, evenly spaced, to compare candidates at; None if that is all of them."""
        length = self.positions.shape[-1]
        if self.num_queries or self.is_strided or length <= most:
            return None
        return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))

    def at(self, rows: npt.NDArray[np.int64] | None) -> TestCall:
        """Return this call at these rows only; at all rows if None."""
        if rows is None:
            return self
        tokens = tuple(x[..., rows, :] for x in self.tokens)
        return self._replace(positions=self.positions[..., rows], tokens=tokens, expected=self.expected.at(rows))


@dataclass(frozen=True)
class Caller:
    """The settings and the norm that all calls of a check share, and the exact tables that were computed so far."""

    encoding: Encoding
    signature: Signature
    weights: Mapping[str, Any]
    norm: Any = None
    tables: dict[Any, tuple[Any, ...]] = field(default_factory=dict)

    def call(self, name: str, dtype: str, positions: Any, num_queries: int = 0, **options: Any) -> TestCall:
        """Return a call at these positions, `(length,)` or `(batch, length)`; axes are added if the encoding has more.

        Tokens are those of `np.random.default_rng(number of positions)`.
        """
        batch, heads = options.get("batch", 2), options.get("heads", HEADS)
        generator = np.random.default_rng(positions.size)
        length = positions.shape[-1]
        on_axes = _on_axes(positions, self.encoding.num_axes)
        tokens = self.signature.tokens(generator, (batch, length), dtype, heads, num_queries)
        shared: dict[str, Any] = {
            "encoding": self.encoding,
            "weights": self.weights,
            "computed": self.tables,
            "norm": self.norm,
        }
        expected = Candidate(positions=on_axes, num_queries=num_queries, **shared)
        optional = options.pop("is_optional", name in MAY_REFUSE)
        return TestCall(name, dtype, on_axes, num_queries, tokens, expected, optional, **options)

    def consecutive(self, name: str, first: int, length: int, **options: Any) -> TestCall:
        """Return a call in float32 at consecutive positions; where queries have their own, they are the last ones."""
        positions = np.arange(first, first + length)
        queries = positions[-(length // 3) :] if isinstance(self.signature, PAIRS) else positions[:0]
        return self.call(name, "float32", np.r_[queries, positions], len(queries), **options)


def _on_axes(positions: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return positions that differ between the axes: as given, reversed, halved, and so on."""
    if count == 1:
        return positions
    return np.stack([(positions[..., ::-1] if axis % 2 else positions) // (axis // 2 + 1) for axis in range(count)])


def calls_of(caller: Caller, *, end: int, takes: tuple[str, ...], optional: tuple[str, ...]) -> Iterator[TestCall]:
    """Yield all test calls in order: near, from elsewhere, one token, far, out of order, in other dtypes, again.

    Args:
        caller: the encoding, what the function takes, and the parameters.
        end: the first position that is not tested.
        takes: dtypes to test besides float32, and names of `OTHER_POSITIONS`.
        optional: which of them the function may refuse.
    """
    of_pairs = isinstance(caller.signature, PAIRS)
    dtypes = tuple(name for name in takes if name in HALVES)
    yield from (_pair_calls if of_pairs else _token_calls)(caller, end, dtypes, optional)
    for name in (name for name in takes if name in OTHER_POSITIONS):
        positions, queries = OTHER_POSITIONS[name], 5 if of_pairs else 0
        yield caller.call(name, "float32", np.r_[positions[:queries], positions], queries)


def random_calls(
    caller: Caller, *, end: int, dtypes: tuple[str, ...], num_shapes: int = RANDOM_CALLS, seed: int = 0
) -> Iterator[TestCall]:
    """Yield calls of random sizes at random positions, far and near, of each kind of positions in turn.

    Args:
        caller: the encoding, what the function takes, and the parameters.
        end: the first position that is not tested.
        dtypes: to test besides float32.
        num_shapes: how often to draw sizes and a dtype again; frameworks that compile for each shape take few.
        seed: of the draws.
    """
    each = -(-RANDOM_CALLS // num_shapes)
    kept: tuple[Any, ...] = ()
    generator, kinds = np.random.default_rng(seed), _kinds(caller)
    if keys_have_tables(caller.encoding):  # which overflow
        dtypes = tuple(name for name in dtypes if name != "float16")
    for number in range(RANDOM_CALLS):
        kind, length = kinds[number % len(kinds)], int(generator.choice(SIZES))
        batch = int(generator.integers(1, 4))
        if number % each:
            length, batch, *_ = kept
        reach = min(end, int(2 ** generator.uniform(5, max(20, np.log2(end)))) + length)
        positions = _random_positions(generator, kind, (batch, min(length, end)), reach)
        heads = MANY_HEADS[int(generator.integers(len(MANY_HEADS)))]
        queries = _some_queries(generator, positions) if isinstance(caller.signature, PAIRS) else positions[..., :0]
        dtype = str(generator.choice(("float32", *dtypes)))
        if number % each:
            *_, heads, dtype = kept
        kept, sizes = (length, batch, heads, dtype), {"batch": batch, "heads": heads}
        positions = np.concatenate([queries, positions], axis=-1)
        call = caller.call(kind, dtype, positions, queries.shape[-1], **sizes, is_strided=bool(number % 2))
        yield call._replace(is_optional=call.is_optional or dtype != "float32")


def _kinds(caller: Caller) -> tuple[str, ...]:
    """Return the kinds of positions that the function takes."""
    if not isinstance(caller.signature, PAIRS):
        return KINDS
    kinds = KINDS[:1] if caller.encoding.needs_all_keys else KINDS[:4]
    return (*kinds, "each row its own") if isinstance(caller.signature, OfPairs) else kinds


def _some_queries(generator: np.random.Generator, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the positions of up to 17 queries, one after the other among those of the keys."""
    length = keys.shape[-1]
    count = int(generator.integers(1, min(length, 17) + 1))
    first = generator.integers(0, length - count + 1, keys.shape[:-1])  # in each row, so that rows are not alike
    return np.take_along_axis(keys, np.asarray(first)[..., None] + np.arange(count), axis=-1)


def _random_positions(generator: np.random.Generator, kind: str, shape: tuple[int, int], end: int) -> npt.NDArray[Any]:
    batch, length = shape
    drawn = generator.integers(0, end, shape)
    if kind == "consecutive":
        return np.arange(length) + int(generator.integers(0, max(end - length, 1)))
    if kind == "each row its own":
        return np.arange(length) + generator.integers(0, max(end - length, 1), (batch, 1))
    if kind == "each row unsorted":
        return drawn
    if kind == "repeated":
        return np.sort(drawn[0] // 3 * 2)
    return np.sort(drawn[0]) if kind == "sparse" else drawn[0]


def _token_calls(caller: Caller, end: int, dtypes: tuple[str, ...], optional: tuple[str, ...]) -> Iterator[TestCall]:
    """Yield the calls for tables, sums and rotations."""
    for name, positions in _float32_positions(end):
        yield caller.call(name, "float32", positions)
    prefill = np.arange(min(PREFILL, end))
    if not caller.signature.has_tokens:
        yield caller.call("from 0", "float32", prefill)
        return
    for dtype in dtypes:
        for name, first in (("from elsewhere", min(4001, end - 13)), ("from 0", 0)):
            positions = prefill if first <= 0 else np.arange(first, first + 13)
            yield caller.call(f"{dtype}, {name}", dtype, positions, is_optional=dtype in optional)
        yield caller.call(f"after {dtype}", "float32", prefill)
    if caller.encoding.widening > 1:
        yield caller.call("fewer heads of keys", "float32", prefill[:9], heads=GROUPED)
    yield caller.call("one row", "float32", prefill[:5], batch=1, heads=(1, 1))
    yield caller.call("a view", "float32", prefill[:9], batch=3, heads=(3, 3), is_strided=True)
    yield caller.call("long", "float32", np.arange(min(LONG, end)), batch=1, heads=(2, 1))


def _float32_positions(end: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    near, elsewhere = (3, 100) if end > 200 else (1, max(end // 2, 1))
    length = min(17, end - elsewhere)
    yield "near", np.arange(near, near + length)
    yield "from elsewhere", np.arange(elsewhere, elsewhere + length)
    yield "near again", np.arange(near, near + length)
    for position in (elsewhere + length - 5, elsewhere + length - 1):
        yield "one token", np.array([position])
    rows = np.stack([np.arange(first, first + min(13, length)) for first in (near, elsewhere)])
    yield "each row its own", rows
    for first in (first for first in (*FAR, *FARTHER) if first + 13 <= end):
        yield "far", np.arange(first, first + 13)
    for order in OUT_OF_ORDER:  # of the same ends, extremes and sum, which a cache may be keyed by
        yield "out of order", np.array(order) % end


def _pair_calls(caller: Caller, end: int, dtypes: tuple[str, ...], optional: tuple[str, ...]) -> Iterator[TestCall]:
    """Yield the calls for numbers of pairs, biases among them."""
    if isinstance(caller.encoding, RemappedRotary):
        edges = _edges(caller.encoding, end)
        yield caller.call("at the edges", "float32", np.r_[edges, edges], len(edges))
    near, last = range(min(17, end)), max(end - 5, 0)
    for name, queries, keys in (
        ("near", near, near),
        ("the last of many", range(20, 23), range(23)),
        ("one token", range(23, 24), range(24)),
        ("far", range(last, end), range(max(end - 13, 0), end)),
        ("far apart", range(last, end), range(end - last)),
        ("near again", near, near),
    ):
        if max(queries[-1], keys[-1]) < end:
            yield caller.call(name, "float32", np.r_[queries, keys], len(queries))
    if not isinstance(caller.signature, OfPairs):
        return
    if caller.encoding.widening > 1:
        yield caller.call("fewer heads of keys", "float32", np.r_[np.arange(3, 12), np.arange(17)], 9, heads=GROUPED)
    pairs = np.r_[np.arange(8, 17), np.arange(17)]
    other = np.r_[np.arange(9), np.arange(17)] + min(100, end - 17)  # other distances than in the first row
    yield caller.call("each row its own", "float32", np.stack([pairs + 3, other]), 9)
    for dtype in dtypes:
        for name, first in (("from elsewhere", min(4001, end - 17)), ("from 0", 0)):
            yield caller.call(f"{dtype}, {name}", dtype, pairs + first, 9, is_optional=dtype in optional)
        yield caller.call(f"after {dtype}", "float32", pairs, 9)


def _edges(encoding: Any, end: int) -> npt.NDArray[np.int64]:
    """Return positions on both sides of those where regions of a remapping begin, and some between them."""
    size, local = encoding.remapping.get("window") or encoding.chunk_len, encoding.remapping.get("local_size", 0)
    begins = [*range(0, 4 * size, size), local, size + local]
    between = np.random.default_rng(0).integers(0, min(4 * size, end), 13)
    edges = np.unique(np.r_[(np.array(begins)[:, None] + np.arange(-2, 3)).ravel(), between])
    return edges[(edges >= 0) & (edges < end)]
