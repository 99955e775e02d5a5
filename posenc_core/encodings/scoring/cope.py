"""CoPE: the scoring encoding whose positions depend on the content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..._array_api.checks import check_integer
from ..._array_api.namespace import Array, Weights, dtype_of, namespace_of, shape_of, take_nd
from ...attention.attend import AttentionInputs
from ...attention.forgetting_gates import sigmoid, sums_to_last_checked
from ...attention.relative import Positions, pick_columns
from ...positions.sequences import arange_like
from ..base import Parameter
from .base import ContentScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class Cope(ContentScoring):
    """Contextual position encoding (CoPE): a key's position is the sum of the gates from it to the query.

    The gates are the sigmoids of the scores, 0 for hidden keys. q · e[position] is added to the score, interpolated
    linearly between two rows of the learned table e. Keys count in the order of the array; the positions of tokens are
    not used. Apply a causal mask before; without one, keys after the query also count.

    Args:
        num_heads: number of heads.
        head_dim: width of each head's queries and keys.
        max_position: number of rows of the table, which the heads share; larger positions share the last row.
    Raises:
        ValueError: if a number is not positive.
    Source: Golovneva et al. 2024, section 4 and listing 1 (arXiv:2405.18719); the table starts at 0, as there.

    >>> Cope(num_heads=2, head_dim=4, max_position=64).parameters()
    {'table': Parameter(shape=(64, 4), std=0.0, mean=0.0)}
    """

    max_position: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_position", self.max_position)

    needs_all_keys: ClassVar[bool] = True

    def parameters(self) -> dict[str, Parameter]:
        return {"table": Parameter(shape=(self.max_position, self.head_dim), std=0.0)}

    def scores(
        self, weights: Weights, query_positions: Positions, key_positions: Positions, content: AttentionInputs
    ) -> Array:
        xp, q = namespace_of(content.q), content.q
        by_row = xp.matmul(q, xp.matrix_transpose(xp.astype(weights["table"], dtype_of(q))))
        by_row = xp.broadcast_to(by_row, (*shape_of(content.scores)[:-1], self.max_position))
        return _interpolate(by_row, sums_to_last_checked(sigmoid(content.scores)))


def _interpolate(by_row: Array, positions: Array) -> Array:
    """Return each row at real positions of columns, up to the last: `(..., columns), (..., keys) -> (..., keys)`."""
    xp = namespace_of(by_row)
    last = xp.full_like(positions, by_row.shape[-1] - 1)
    positions = xp.minimum(positions, last)
    low = xp.astype(positions, xp.int32)
    high = xp.minimum(low + 1, xp.astype(last, xp.int32))
    columns = xp.astype(arange_like(by_row.shape[-1], like=by_row), dtype_of(positions))
    whole = take_nd(columns, low, axis=0)  # some pass gradients to `low`
    below = pick_columns(by_row, low)
    return below + (pick_columns(by_row, high) - below) * (positions - whole)
