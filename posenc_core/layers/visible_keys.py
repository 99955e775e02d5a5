"""The keys that queries see in one call of attention."""

from __future__ import annotations

from typing import Any

from .._array_api.checks import check_broadcasts, host_array
from .._array_api.namespace import namespace_of, shape_of
from ..attention import check_mask
from ..attention.masks import all_of, causal_checked, sliding_window_checked, valid_lengths_checked
from ..positions.sequences import arange_like
from .backend import Backend, Given, Tensor
from .heads import Heads
from .inputs import as_integers, check_valid_lens, host_values
from .token_positions import TokenPositions, array_like


def visible_keys(  # noqa: PLR0913 - all that hides keys
    q: Tensor,
    at: TokenPositions,
    backend: Backend,
    *,
    valid_lens: Given,
    mask: Tensor,
    keys_mask: Tensor,
    order: TokenPositions | None,
    window: int | None,
    num_heads: int,
    part: Heads | None,
) -> Tensor:
    """Return one mask of all that hides keys, `(batch, heads, queries, keys)` or broadcasting to that; or None.

    Args:
        q: queries, `(batch, heads, queries, head_dim)`.
        at: the positions of queries and keys.
        backend: of the layer.
        valid_lens, mask: as in a call of attention.
        keys_mask: True for keys that count, `(batch, keys)`, as a framework gives it.
        order: the positions after which keys are hidden; None if none are.
        window: that of the layer.
        num_heads: the number of heads that `mask` has.
        part: the heads of the queries, or None for all.
    """
    batch, queries, keys = at.sizes
    masks: list[Any] = []
    if valid_lens is not None:
        host = host_values(valid_lens, backend)
        check_valid_lens(shape_of(valid_lens) if host is None else host.shape, host, at.sizes)
        lengths = valid_lens if host is None else backend.from_numpy(as_integers(host), like=q)
        masks.append(valid_lengths_checked(lengths, arange_like(keys, like=q)))
    if order is not None:
        masks.append(causal_checked(*order.in_order().arrays(q, backend)))
    if window is not None and not at.is_within(window):
        masks.append(sliding_window_checked(*at.in_order().arrays(q, backend), window))
    if mask is not None:
        mask = host_array("mask", mask) if isinstance(mask, (list, tuple)) else mask
        check_mask(mask, (batch, num_heads, queries, keys))
        mask = array_like("mask", mask, q, backend)
        masks.append(mask if part is None else part.of_mask(mask))
    if keys_mask is not None and not (at.cached and mask is not None):
        if at.cached:
            raise ValueError(
                "`mask` must say which keys count, those of the `cache` included, got that of new tokens alone."
            )
        check_broadcasts("keys_mask", keys_mask, (batch, keys))
        xp = namespace_of(q)
        masks.append(xp.expand_dims(xp.expand_dims(keys_mask, axis=1), axis=1))
    return all_of(*masks) if masks else None
