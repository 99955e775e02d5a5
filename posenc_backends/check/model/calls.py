"""Run a model on equal tokens at many positions, and read what each layer multiplies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .additive import ALIKE, Lengths, Rows, Scores
from .judge import Observation
from .protocol import Addition, Call, Float64s, ModelAdapter, Product, Trace

NEAR = np.stack([np.arange(3, 20), np.arange(100, 117)])  # of two rows
SINGLE_ROWS = np.r_[0, NEAR.ravel()][:, None]  # of rows of one token
FAR = np.array(
    [0, 31, 32, 33, 127, 128, 500, 511, 1000, 2047, 2048, 4095, 4096, 8191, 10000, 32767, 65537, 100003, 131071]
)[:, None]
OTHER, NUMBER = re.compile(r"indexer|compress|cross|enc_?dec|encoder_attn|vision|visual"), r"(?<=\.)\d+(?=\.)"
OWN_POSITIONS = np.arange(67)  # of a model that counts tokens itself
FIRST = "not judged: position 0, which others are compared with, as the rotation cannot be left out"
PAIRS = 192  # tokens of the call in which biases are read
CACHE_LENGTH = 5  # tokens before the one that is judged
AFTER_CACHE = f"after a cache of {CACHE_LENGTH}"
COUNTS = "after a cache, the model does not count positions itself: give them, as `generate` does"


class Seen(NamedTuple):
    """The products and sums of a model in a call, by module.

    Attributes:
        name: of the call.
        rotations, indexers: the queries and keys of each layer, and of its indexer.
        lengths: of queries without rotation.
        scores: of each layer.
        rows: that are added to tokens, in order.
        layers: whether tokens depend on positions when they enter, of each layer.
        is_given: whether the model was given positions.
    """

    name: str
    rotations: dict[str, Observation] = {}  # noqa: RUF012  # never changed
    indexers: dict[str, Observation] = {}  # noqa: RUF012
    lengths: dict[str, Lengths] = {}  # noqa: RUF012
    scores: dict[str, Scores] = {}  # noqa: RUF012
    rows: tuple[tuple[str, Rows], ...] = ()
    layers: dict[str, bool] = {}  # noqa: RUF012
    is_given: bool = True


class Calls:
    """The calls of one check.

    Args:
        adapter: the model.
        num_axes: of positions.
        limit: how many positions a table has; None for any number.
        remarks: to which it adds what was not run or not judged.
    """

    def __init__(self, adapter: ModelAdapter, num_axes: int, limit: int | None, remarks: list[str]) -> None:
        self.adapter, self.num_axes, self.remarks = adapter, num_axes, remarks
        self.limit = np.inf if limit is None else limit

    def all(self) -> Iterator[Seen]:
        """Yield what the model does near position 0 and far from it, for pairs of tokens, and after a cache."""
        yield from self._of_tokens()
        yield from self._of_pairs()
        yield from self._after_cache()

    def past_the_table(self) -> Seen | None:
        """Return what the model does at the first position without a row; None if it refuses, or takes none."""
        if not np.isfinite(self.limit):
            return None
        if not self.adapter.takes_positions:
            self.remarks.append("not run: positions past the table, as the model takes none")
            return None
        if not self.adapter.checks_rows:
            self.remarks.append("not run: positions past the table, where the framework reads other memory")
            return None
        at = np.array([[0], [self.limit], [self.limit + 1]], np.int64)
        try:
            return self._observe("past the table", at)[0]
        except Exception:  # noqa: BLE001 - as it should
            return None

    def _of_tokens(self) -> Iterator[Seen]:
        if not self.adapter.takes_positions:
            own = OWN_POSITIONS[self.limit > OWN_POSITIONS]
            self.remarks.append(f"not run: positions past {own[-1]}, as the model takes none")
            near, is_alike = self._observe(f"up to {own[-1]}", own[None], is_given=False)
            self.remarks += [] if is_alike else [FIRST]
            yield near._replace(is_given=False)
            return
        near, is_alike = Seen(""), False
        if self.adapter.dtype == "float32" and self.limit > NEAR.max():
            before = len(self.remarks)
            near, is_alike = self._observe("near 0", NEAR)
            if not is_alike:
                del self.remarks[before:]
        if not is_alike:  # where tokens change others, by convolutions or weights whose sum is not 1 in half precision
            near, is_alike = self._observe("near 0", SINGLE_ROWS[SINGLE_ROWS[:, 0] < self.limit])
        self.remarks += [] if is_alike else [FIRST]
        yield near
        far = np.unique([*FAR[FAR[:, 0] < self.limit, 0], *([self.limit - 1] if np.isfinite(self.limit) else [])])
        try:
            yield self._observe(f"up to {int(far.max()):,}", far.astype(np.int64)[:, None])[0]
        except Exception as error:  # noqa: BLE001 - whatever the model raises past the end of its table
            self.remarks.append(f"not run: positions past {NEAR.max()}: {error}")

    def _of_pairs(self) -> Iterator[Seen]:
        """Yield the scores of the first tokens, whose positions the model counts."""
        length = int(min(PAIRS, self.limit))
        call = Call(np.full((1, length), self.adapter.token), None, with_scores=True)
        if self.adapter.needs_positions:
            call = call._replace(positions=self._on_axes(np.arange(length)[None]))
        try:
            rotated, plain = self.adapter.run(call), self.adapter.run(call, is_rotated=False)
        except Exception as error:  # noqa: BLE001 - whatever the model raises
            self.remarks.append(f"not judged: biases of scores: {type(error).__name__}: {error}")
            return
        name, positions = f"of pairs up to {length - 1}", np.arange(length)
        seen, _ = self._by_module(name, positions, rotated, plain)
        scores = self._scores(name, call.queries, positions, plain.products)
        yield Seen(name, lengths=seen.lengths, scores=scores, rows=seen.rows, is_given=call.positions is not None)

    def _after_cache(self) -> Iterator[Seen]:
        """Yield what each layer multiplies for a token after a cache of others."""
        if not self.adapter.takes_cache:
            self.remarks.append("not run: a token after a cache, as the model takes none of a known form")
            return
        try:
            counted = self._decode(is_given=False)
            if counted is None:
                self.remarks.append("not run: a token after a cache, as the model returns none")
                return
            given = self._decode(is_given=True) if self.adapter.generates else counted
        except Exception as error:  # noqa: BLE001 - whatever the model raises
            self.remarks.append(f"not run: a token after a cache: {type(error).__name__}: {error}")
            return
        rotated, plain = given or counted
        if not _is_same(counted[0], rotated):
            self.remarks.append(COUNTS)
        at = np.full((self.num_axes, 1) if self.num_axes > 1 else 1, CACHE_LENGTH)
        seen, _ = self._by_module(AFTER_CACHE, at, rotated, plain)
        scores = self._scores(AFTER_CACHE, at.ravel()[:1], np.arange(CACHE_LENGTH + 1), plain.products)
        yield seen._replace(scores=scores, lengths={}, is_given=given is not counted)

    def _decode(self, *, is_given: bool) -> tuple[Trace, Trace] | None:
        """Return what the model does with a token after others, with rotation and without; None without a cache."""
        at = self._on_axes(np.arange(CACHE_LENGTH + 1)[None])
        tokens = np.full((1, CACHE_LENGTH + 1), self.adapter.token)
        traces = []
        for is_rotated in (True, False):
            before, now = (at[..., :-1], at[..., -1:]) if is_given else (None, None)
            first = self.adapter.run(Call(tokens[:, 1:], before, has_cache=True), is_rotated=is_rotated)
            if first.cache is None:
                return None
            call = Call(tokens[:, :1], now, first.cache, has_cache=True, with_scores=True)
            trace = self.adapter.run(call, is_rotated=is_rotated)
            of_text = [one for one in trace.products if one.k.shape[2] > 1]  # of an encoder, one token
            last = [one._replace(k=one.k[..., : CACHE_LENGTH + 1, :][..., -1:, :]) for one in of_text]
            traces.append(trace._replace(products=last))
        return traces[0], traces[1]

    def _observe(self, name: str, rows: npt.NDArray[Any], *, is_given: bool = True) -> tuple[Seen, bool]:
        """Return what each layer multiplies in a call at these positions, and whether all its tokens are alike."""
        at = self._on_axes(rows)
        call = Call(np.full(rows.shape, self.adapter.token), at if is_given else None)
        rotated = self.adapter.run(call)
        plain = self.adapter.run(call, is_rotated=False)
        positions = at[..., 0] if rows.shape[1] == 1 else at[..., 0, :] if rows.shape[0] == 1 else at
        return self._by_module(name, positions, rotated, plain)

    def _by_module(self, name: str, positions: npt.NDArray[Any], rotated: Trace, plain: Trace) -> tuple[Seen, bool]:
        """Return what each module multiplies first, and whether all tokens are alike."""
        found, is_alike, dtype = Seen(name, {}, {}, {}, {}), True, self.adapter.dtype
        for one, other in zip(rotated.products, plain.products, strict=True):
            pairs = [_pair(*both) for both in ((other.q, one.q), (other.k, one.k))]
            before, after, lengths, alike = zip(*pairs, strict=True)
            is_alike &= all(alike) or one.is_indexer
            if one.follows_positions:
                self.remarks.append(f"not judged: {one.name}, whose tokens depend on positions before they rotate")
                continue
            of_kind = found.indexers if one.is_indexer else found.rotations
            of_kind.setdefault(one.name, Observation(name, positions, before, after, dtype))
            if all(alike) and positions.ndim == 1 and not one.is_indexer:
                found.lengths.setdefault(one.name, Lengths(name, positions, lengths[0], dtype))
        own = positions if self.num_axes == 1 else positions[0]
        rows = [(one.name, Rows(name, own, _of_tokens(own, one), dtype)) for one in rotated.additions]
        return found._replace(rows=tuple(rows), layers=rotated.layers), is_alike

    def _scores(self, name: str, queries: Any, keys: Any, products: list[Product]) -> dict[str, Scores]:
        found: dict[str, Scores] = {}
        for one in products:
            if one.scores is not None and one.scores.shape[-2:] == (len(queries), len(keys)):
                lengths = [float(np.linalg.norm(x[:1], axis=-1).max()) for x in (one.q, one.k)]
                size = lengths[0] * lengths[1] / np.sqrt(one.q.shape[-1])
                found.setdefault(one.name, Scores(name, queries, keys, one.scores[0], size, self.adapter.dtype))
        return found

    def _on_axes(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return positions that differ between the axes, if there are several."""
        if self.num_axes == 1:
            return rows
        return np.stack([rows, *(np.roll(rows // axis, axis) for axis in range(1, self.num_axes))])


def _of_tokens(positions: npt.NDArray[Any], addition: Addition) -> Float64s:
    """Return the rows of an addition, one for each position."""
    return addition.rows.reshape(*positions.shape, addition.rows.shape[-1])


def _is_same(one: Trace, other: Trace) -> bool:
    """Return whether two runs multiply the same queries and add the same rows."""
    pairs = [(a.q, b.q) for a, b in zip(one.products, other.products, strict=True)]
    pairs += [(a.rows, b.rows) for a, b in zip(one.additions or (), other.additions or (), strict=True)]
    return not any(np.abs(a - b).max() > ALIKE * np.abs(a).max() for a, b in pairs)


def _pair(plain: Float64s, rotated: Float64s) -> tuple[Float64s, Float64s, Float64s, bool]:
    """Return an array without rotation and with it, `(rows, heads, length, width)`, lengths of the first relative to
    its first token, `(heads, length)`, and whether all tokens are alike but for these.

    Rows of one token become one row. If what should be without rotation depends on positions, the first token takes
    its place, whose position is 0.
    """
    if plain.shape[2] == 1:
        plain, rotated = plain.swapaxes(0, 2), rotated.swapaxes(0, 2)
    first = plain[:1, :, :1]
    size = np.maximum((first * first).sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    longer = (plain * first).sum(axis=-1, keepdims=True) / size
    is_alike = bool(np.abs(plain - longer * first).max() <= ALIKE * np.abs(plain).max())
    same = plain if is_alike else np.broadcast_to(rotated[:1, :, :1], rotated.shape)
    return same, rotated, longer[0, ..., 0], is_alike
