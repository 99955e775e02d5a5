"""Test calls: the calls that a function is checked with, in an order that reveals stale caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding, PositionScoring

from .candidates import Candidate, Float64s
from .signatures import Signature

MAX_POSITION = 2**20
FAR = (1000, 4090, 8200, 32760, 65531, 131065, 262139, 524283, 1048563)  # first positions, on both sides of powers of 2
PREFILL = 600  # tokens from position 0: more than bfloat16 can count
MAY_REFUSE = ("each row its own", "out of order")  # a function may accept consecutive positions only
BATCH = 2
HALVES = ("bfloat16", "float16")
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
    """

    name: str
    dtype: str
    positions: npt.NDArray[Any]
    num_queries: int
    tokens: tuple[Float64s, ...]
    expected: Candidate
    is_optional: bool = False

    @property
    def position_arguments(self) -> tuple[npt.NDArray[Any], ...]:
        """The positions, as the function takes them."""
        if not self.num_queries:
            return (self.positions,)
        return self.positions[: self.num_queries], self.positions[self.num_queries :]

    @property
    def description(self) -> str:
        """Shapes, dtype and positions of the call, in words."""
        shapes = " and ".join(str(x.shape) for x in self.tokens)
        tokens = f"{shapes} in {self.dtype} at " if self.tokens else ""
        ends = [
            " and ".join(f"{row[0]} … {row[-1]}" for row in np.atleast_2d(positions))
            for positions in self.position_arguments
        ]
        return f"{tokens}positions {' for keys '.join(ends)}"

    def sample_rows(self, most: int) -> npt.NDArray[np.int64] | None:
        """Return at most `most` rows, evenly spaced, to compare candidates at; None if that is all of them."""
        length = self.positions.shape[-1]
        if self.num_queries or length <= most:
            return None
        return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))

    def at(self, rows: npt.NDArray[np.int64] | None) -> TestCall:
        """Return this call at these rows only; at all rows if None."""
        if rows is None:
            return self
        tokens = tuple(x[..., rows, :] for x in self.tokens)
        return self._replace(positions=self.positions[..., rows], tokens=tokens, expected=self.expected.at(rows))


def calls_of(
    encoding: Encoding, signature: Signature, *, end: int, takes: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[TestCall]:
    """Yield all test calls in order: near, from elsewhere, one token, far, out of order, in other dtypes, again.

    Args:
        encoding: the encoding that the function must compute.
        signature: what the function takes.
        end: the first position that is not tested.
        takes: dtypes to test besides float32, and names of `OTHER_POSITIONS`.
        optional: which of them the function may refuse.
    """
    if isinstance(encoding, PositionScoring):
        yield from _bias_calls(encoding, signature, end)
    else:
        yield from _token_calls(encoding, signature, end, tuple(name for name in takes if name in HALVES), optional)
    for name in (name for name in takes if name in OTHER_POSITIONS):
        positions, queries = OTHER_POSITIONS[name], 5 if isinstance(encoding, PositionScoring) else 0
        yield _call(encoding, signature, name, "float32", np.r_[positions[:queries], positions], queries)


def _token_calls(
    encoding: Encoding, signature: Signature, end: int, dtypes: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[TestCall]:
    """Yield the calls for tables, sums and rotations."""
    for name, positions in _float32_positions(end):
        yield _call(encoding, signature, name, "float32", positions)._replace(is_optional=name in MAY_REFUSE)
    prefill = np.arange(min(PREFILL, end))
    if not signature.has_tokens:
        yield _call(encoding, signature, "from 0", "float32", prefill)
        return
    for dtype in dtypes:
        for name, first in (("from elsewhere", min(4001, end - 13)), ("from 0", 0)):
            positions = prefill if first <= 0 else np.arange(first, first + 13)
            call = _call(encoding, signature, f"{dtype}, {name}", dtype, positions)
            yield call._replace(is_optional=dtype in optional)
        yield _call(encoding, signature, f"after {dtype}", "float32", prefill)


def _float32_positions(end: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    near, elsewhere = (3, 100) if end > 200 else (1, max(end // 2, 1))
    length = min(17, end - elsewhere)
    yield "near", np.arange(near, near + length)
    yield "from elsewhere", np.arange(elsewhere, elsewhere + length)
    yield "near again", np.arange(near, near + length)
    for position in (elsewhere + length - 5, elsewhere + length - 1):
        yield "one token", np.array([position])
    rows = np.stack([np.arange(near, near + 7), np.arange(elsewhere, elsewhere + 7)]) % end
    yield "each row its own", rows
    for first in (first for first in FAR if first + 13 <= end):
        yield "far", np.arange(first, first + 13)
    yield "out of order", np.array([9, 2, 30, 4, 4, 77, 0, 51, 23, 1, 65]) % end


def _bias_calls(encoding: Encoding, signature: Signature, end: int) -> Iterator[TestCall]:
    for name, queries, keys in (
        ("near", range(17), range(17)),
        ("the last of many", range(20, 23), range(23)),
        ("one token", range(23, 24), range(24)),
        ("far", range(end - 5, end), range(end - 13, end)),
        ("far apart", range(end - 5, end), range(5)),
        ("near again", range(17), range(17)),
    ):
        yield _call(encoding, signature, name, "float32", np.r_[queries, keys], len(queries))


def _call(
    encoding: Encoding, signature: Signature, name: str, dtype: str, positions: npt.NDArray[Any], num_queries: int = 0
) -> TestCall:
    generator = np.random.default_rng(positions.size)
    tokens = signature.tokens(generator, (BATCH, positions.shape[-1]), dtype)
    expected = Candidate(encoding=encoding, positions=positions, num_queries=num_queries)
    return TestCall(name, dtype, positions, num_queries, tokens, expected)
