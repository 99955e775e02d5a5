"""Forgetting attention: the scoring encoding with a forget gate for each token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..._array_api.checks import check_number
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of
from ...attention.attend import AttentionInputs
from ...attention.forgetting_gates import decay_bias_checked, log_sigmoid_checked, sum_of_visible_checked
from ...attention.relative import Positions
from ..base import Parameter
from .base import ContentScoring, Pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class ForgettingBias(ContentScoring):
    """Forgetting attention (FoX): a key's score decays by the forget gates of the tokens after it, up to the query.

    The bias is the sum of `log(sigmoid(w · k + b))` over the visible keys after the key. Here k has the keys of all
    heads, and w and b are learned for each head. The paper has the token in place of k; if the projection of keys is a
    square matrix, both express the same gates, and a cache of keys is enough to decode. Keys count in the order of the
    array; the positions of tokens are not used. Apply a causal mask before; without one, keys after the query also
    count.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        gate_bias: the initial b; gates start near its sigmoid.
        std: standard deviation of the normal distribution of the initial w.
    Raises:
        ValueError: if a number is not positive, or `std` negative.
    Source: Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", section 3
        (arXiv:2503.02130). The initial b is that of x-transformers.

    >>> [parameter.shape for parameter in ForgettingBias(num_heads=2, head_dim=4).parameters().values()]
    [(2, 4, 2), (2,)]
    """

    gate_bias: float = 5.0
    std: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("gate_bias", self.gate_bias)
        check_number("std", self.std, minimum=0)

    needs_all_keys: ClassVar[bool] = True

    sums_later_keys: ClassVar[bool] = True

    mixes_heads: ClassVar[bool] = True

    head_axes: ClassVar[Mapping[str, int]] = {"w": 2, "b": 0}

    def parameters(self) -> dict[str, Parameter]:
        return {
            "w": Parameter(shape=(self.num_heads, self.head_dim, self.num_heads), std=self.std),
            "b": Parameter(shape=(self.num_heads,), std=0.0, mean=self.gate_bias),
        }

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        return decay_bias_checked(_log_gates(weights, content.k), content.scores)

    def sum_of_keys(self, weights: Weights, content: AttentionInputs) -> Array:
        return sum_of_visible_checked(_log_gates(weights, content.k), content.scores)

    lookup_inputs: ClassVar[tuple[str, ...]] = ("keys",)

    def lookup_tables(self, weights: Weights, q: Any, k: Any) -> dict[str, Array]:
        """Return the sum of `log(sigmoid(w · k + b))` over all keys up to each, `(batch, heads, keys)`."""
        gates = _log_gates(weights, k)
        return {"sums": namespace_of(gates).cumulative_sum(gates, axis=-1)}

    def score_of(self, weights: Weights, tables: Weights, scores: Array, pairs: Pairs) -> Array:
        """Return the sum at the key of the query less that at the key, as if no key before the query were hidden."""
        sums = tables["sums"]
        return sums[pairs.row, pairs.head, pairs.query_position] - sums[pairs.row, pairs.head, pairs.key]


def _log_gates(weights: Weights, k: Array) -> Array:
    """Return the logarithm of the gate of each key for each head, `(..., heads, keys)`."""
    xp = namespace_of(k)
    w, b = (xp.astype(weights[name], dtype_of(k)) for name in ("w", "b"))
    by_head = xp.matrix_transpose(xp.sum(xp.matmul(k, w), axis=-3, keepdims=False))
    return log_sigmoid_checked(by_head + xp.expand_dims(b, axis=-1))
