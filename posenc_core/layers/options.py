"""What a `MultiHeadAttention` is made with and called with, checked, and what it gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._array_api.checks import check_integer, check_rank, is_specialized, is_static
from .._array_api.namespace import shape_of
from ..encodings import ContentScoring, Encoding, RotaryEncoding, Scoring
from .base import whole


class Options(NamedTuple):
    """What a call of `MultiHeadAttention` says beside its tokens.

    Attributes:
        valid_lens: how many keys count, those of the cache too, `(batch,)` or `(batch, queries)`.
        start: the position of the first query, or of that of each row; with a cache, how many tokens it holds.
        positions: of the queries, `(queries,)` or `(batch, queries)`, in place of counting from `start`.
        key_positions: of the keys, those of the cache too, in place of counting from 0.
        mask: True where a query sees a key, broadcasts to `(batch, num_heads, queries, keys)`.
        causal: whether keys after a query are hidden from it.
        cache: keys and values of the tokens before, as the call before gave them, or `()` to begin with.
        weights: whether the attention weights are asked for.
    """

    valid_lens: Any = None
    start: Any = 0
    positions: Any = None
    key_positions: Any = None
    mask: Any = None
    causal: bool = False
    cache: Any = None
    weights: bool = False


class AttentionOutput(NamedTuple):
    """What `MultiHeadAttention` gives where weights or a cache are asked for.

    Attributes:
        result: shape `(batch, queries, num_hiddens)`.
        weights: of the keys, before any dropout, `(batch, num_heads, queries, keys)`; () where not asked for.
        cache: keys, rotated where positions rotate them, and values of all tokens so far, each of shape
            `(batch, num_kv_heads, length, head_dim)`; () where not asked for.
    """

    result: Any
    weights: Any = ()
    cache: Any = ()


def check_attention(
    num_hiddens: int, num_heads: int, position: Encoding | None, num_kv_heads: int | None = None
) -> int:
    """The number of heads of keys and values, once the sizes divide and the encoding of positions fits them."""
    check_integer("num_hiddens", num_hiddens)
    check_integer("num_heads", num_heads)
    if num_hiddens % num_heads:
        raise ValueError(f"`num_hiddens` must be a multiple of `num_heads` {num_heads}, got {num_hiddens}.")
    _check_position(position, num_heads, num_hiddens // num_heads)
    if num_kv_heads is None:
        return num_heads
    check_integer("num_kv_heads", num_kv_heads)
    if num_heads % num_kv_heads:
        divisors = ", ".join(str(n) for n in range(1, num_heads + 1) if num_heads % n == 0)
        raise ValueError(f"`num_kv_heads` must divide `num_heads` {num_heads}, as {divisors} do, got {num_kv_heads}.")
    return num_kv_heads


def _check_position(position: Encoding | None, num_heads: int, head_dim: int) -> None:
    if not isinstance(position, RotaryEncoding | Scoring | None):
        raise TypeError(
            f"`position` must be a rotary or scoring encoding or None, got {position!r}; "
            "PositionalEncoding adds the others to tokens."
        )
    if isinstance(position, Scoring) and position.num_heads != num_heads:
        raise ValueError(f"`position` must have `num_heads` {num_heads}, got {position!r}.")
    if isinstance(position, RotaryEncoding | ContentScoring) and position.head_dim != head_dim:
        raise ValueError(f"`position` must have `head_dim` {head_dim}, num_hiddens / num_heads, got {position!r}.")


def check_valid_lens(shape: tuple[Any, ...], values: Any, sizes: tuple[Any, ...]) -> None:
    """Raise unless lengths of this shape and these values (None: unknown) fit `(batch, queries, keys)`."""
    batch, queries, keys = sizes
    if all(map(is_static, (*shape, *sizes))) and shape not in ((batch,), (batch, queries)):
        raise ValueError(f"`valid_lens` must have shape ({batch},) or ({batch}, {queries}), got {shape}.")
    if values is None:
        return
    if whole(values).dtype.kind != "i":
        raise TypeError(f"`valid_lens` must be integers, got {values.dtype}: {values.ravel()[:3]} …")
    if is_static(keys) and values.size and not 0 <= values.min() <= values.max() <= keys:
        wrong = values.max() if values.max() > keys else values.min()
        raise ValueError(f"`valid_lens` must lie from 0 to the number of keys {keys}, got {wrong}.")


def cached_length(cache: Any, start: Any, keys: Any) -> int:
    """How many tokens a cache holds, once it is clear that they are `start`, and that new `keys` go after them.

    Args:
        cache: a pair (keys, values) of shape `(batch, num_kv_heads, start, head_dim)`, or `()`; None holds none.
        start: the position of the first new token.
        keys: `(batch, num_kv_heads, length, head_dim)`.
    """
    if cache is None:
        return 0
    if not isinstance(cache, (tuple, list)) or len(cache) not in (0, 2):
        raise TypeError(f"`cache` must be a pair (keys, values), or () to begin with, got {type(cache).__name__}.")
    if type(start) is not int:
        raise ValueError("`start` must be one integer with a `cache`, its length; `positions` may differ in each row.")
    batch, heads, _, head_dim = shape_of(keys)
    for array in cache:
        check_rank("cache", array, minimum=4, maximum=4, axes="(batch, num_kv_heads, start, head_dim)")
    length = shape_of(cache[0])[2] if cache else 0
    if is_static(length) and is_specialized(start, keys) and not is_specialized(length, keys):
        raise ValueError(
            f"`cache` must have a length that stays where `start` is the number {start}, got {length}; give `start` and the "
            "cache another length in another program."
        )
    if is_static(length) and start != length:
        raise ValueError(f"`start` must be the length of the `cache`, {length}, got {start}.")
    for array in cache:
        wanted, sizes = (batch, heads, start, head_dim), shape_of(array)
        if any(is_static(a) and is_static(b) and a != b for a, b in zip(sizes, wanted, strict=True)):
            raise ValueError(f"`cache` must have shape {wanted} to go before the new keys, got {sizes}.")
    return start
