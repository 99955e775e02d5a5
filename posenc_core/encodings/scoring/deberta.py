"""DeBERTa's disentangled attention: the scoring encoding in which queries and keys meet vectors of offsets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from ..._array_api.checks import check_integer, check_known, check_number
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of
from ...attention.attend import AttentionInputs
from ...attention.buckets import FARTHEST, check_log_buckets, log_buckets_checked, offset_row
from ...attention.relative import Positions, offsets
from ..base import Parameter, Tables
from .base import ContentScoring, Pairs

Terms: TypeAlias = Literal["both", "c2p", "p2c"]
OF_TOKENS = {"K_r": "queries", "Q_r": "keys"}  # the tokens that vectors are multiplied by


@dataclass(frozen=True, kw_only=True, repr=False)
class DebertaBias(ContentScoring):
    """Disentangled attention: q · K_r and k · Q_r, with learned vectors K_r and Q_r per head and bucket of the offset.

    Scores become (q k + q · K_r[i - j] + k · Q_r[i - j]) / √(head_dim * terms), where the number of terms is 3 for
    `"both"`, else 2: the scores that are given, of q k / √head_dim, are divided by √terms as well. Models project one
    table of embeddings P for all layers: K_r = P W + b with the projection of positions, or with that of keys where the
    model shares it; Q_r likewise.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        max_distance: without buckets, larger distances share a vector; with buckets, they share the last one.
        num_buckets: number of buckets of a side, even; without, each distance has its own vector, as in the first
            version. DeBERTa v2 and v3 have 256 up to distance 512.
        terms: `"both"`, or one of them: `"c2p"`, content to position (q · K_r), or `"p2c"`.
        std: standard deviation of the normal distribution of the initial vectors.
    Raises:
        ValueError: if a number is not positive, `num_buckets` odd, below 4 or above `max_distance` or 4,096,
            `max_distance` above 2**24, `terms` unknown, or `std` negative.
    Source: He et al. 2021, section 3.1 (arXiv:2006.03654); He et al. 2023 (arXiv:2111.09543) for buckets.

    >>> DebertaBias(num_heads=2, head_dim=4, max_distance=512, num_buckets=256).parameters()["K_r"]
    Parameter(shape=(2, 512, 4), std=0.02, mean=0.0)
    """

    max_distance: int
    num_buckets: int | None = None
    terms: Terms = "both"
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance, maximum=FARTHEST)
        if self.num_buckets is not None:
            check_log_buckets(self.num_buckets, self.max_distance)
        check_known("terms", self.terms, get_args(Terms))
        check_number("std", self.std, minimum=0)

    needs_integer_positions: ClassVar[bool] = True

    @property
    def _span(self) -> int:
        return self.max_distance if self.num_buckets is None else self.num_buckets

    def constants(self, max_len: int) -> Tables:
        single = np.arange(self.max_distance + 1, dtype=np.int32)
        away = single if self.num_buckets is None else log_buckets_checked(self.num_buckets, self.max_distance)
        rows = np.concatenate([away[:0:-1], -away]) + self._span  # by key less query: keys before the query are first
        return {"buckets": np.minimum(rows, 2 * self._span - 1).astype(np.int32)}

    @property
    def head_axes(self) -> Mapping[str, int]:  # type: ignore[override]
        return dict.fromkeys(self.parameters(), 0)

    def parameters(self) -> dict[str, Parameter]:
        names = {"both": ("K_r", "Q_r"), "c2p": ("K_r",), "p2c": ("Q_r",)}[self.terms]
        shape = (self.num_heads, 2 * self._span, self.head_dim)
        return {name: Parameter(shape=shape, std=self.std) for name in names}

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, scale, added = namespace_of(content.scores), self._scale, self._divided(content.scores)
        if "K_r" in self.parameters():
            added = added + self._products(weights, "K_r", query_positions, key_positions, content.q * scale)
        if "Q_r" in self.parameters():
            of_keys = self._products(weights, "Q_r", key_positions, query_positions, content.k * scale)
            added = added + xp.matrix_transpose(of_keys)
        return added

    @property
    def _terms(self) -> int:
        return 1 + len(self.parameters())

    @property
    def _scale(self) -> float:
        return 1 / math.sqrt(self._terms * self.head_dim)

    def _divided(self, scores: Array) -> Array:
        """Return scores divided by the root of the number of terms, less the scores themselves; 0 for hidden keys."""
        xp, zeros = namespace_of(scores), namespace_of(scores).zeros_like(scores)
        visible = xp.where(scores > xp.full_like(zeros, -math.inf), scores, zeros)
        return visible * (1 / math.sqrt(self._terms) - 1)

    @property
    def lookup_inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(OF_TOKENS[name] for name in self.parameters())

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        of_tokens, tables = {"queries": q, "keys": k}, {}
        for name in self.parameters():
            x = of_tokens[OF_TOKENS[name]] * self._scale
            xp = namespace_of(x)
            tables[OF_TOKENS[name]] = xp.matmul(x, xp.matrix_transpose(xp.astype(weights[name], dtype_of(x))))
        return tables

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        row = offset_row(pairs.query_position, pairs.key_position, reach=self.max_distance)
        bucket, number = weights["buckets"][row], {"queries": pairs.query, "keys": pairs.key}
        added = self._divided(scores)
        for tokens, table in tables.items():
            added = added + table[pairs.row, pairs.head, number[tokens], bucket]
        return added

    def _products(self, weights: Weights, name: str, own: Positions, others: Positions, x: Array) -> Array:
        """Return the products of tokens with the vectors of their offsets: `(..., heads, own, others)`."""
        xp = namespace_of(x)
        relative = offsets(own, others, limit=self.max_distance, like=x)
        # the index is that of keys seen from a query; a query seen from a key has the opposite offset
        rows = relative.rows if name == "K_r" else -relative.rows + 2 * self.max_distance
        vectors = xp.take(xp.astype(weights[name], dtype_of(x)), xp.take(weights["buckets"], rows, axis=0), axis=1)
        return relative.expand_offsets(xp.matmul(x, xp.matrix_transpose(vectors)))
