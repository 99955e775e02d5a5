"""Check the arguments that attention is made with."""

from __future__ import annotations

from typing import Any

from .._array_api.checks import check_flag, check_integer, check_type, shown
from ..encodings import Encoding, QKNorm, QueryEncoding, Tabular
from ..encodings.attention_encoding import AttentionEncoding


def check_attention(
    num_hiddens: int, num_heads: int, positions: tuple[Any, ...], num_kv_heads: int | None
) -> tuple[int, int, int]:
    """Return width, heads, and heads of keys and values; raise unless they divide and the encodings fit."""
    num_hiddens, num_heads = check_integer("num_hiddens", num_hiddens), check_integer("num_heads", num_heads)
    if num_hiddens % num_heads:
        raise ValueError(f"`num_hiddens` must be a multiple of `num_heads` {num_heads}, got {num_hiddens}.")
    for position in positions:
        if not isinstance(position, AttentionEncoding):
            raise TypeError(
                f"`position` must be a rotary or scoring encoding, a pair of them or None, got {shown(position)}; "
                "PositionalEncoding adds the others to tokens."
            )
    num_kv_heads = num_heads if num_kv_heads is None else check_integer("num_kv_heads", num_kv_heads)
    if num_heads % num_kv_heads:
        divisors = ", ".join(str(n) for n in range(1, min(num_heads, 128) + 1) if num_heads % n == 0)
        raise ValueError(f"`num_kv_heads` must divide `num_heads` {num_heads}, as {divisors} do, got {num_kv_heads}.")
    for position in positions:
        position.check_sizes(num_hiddens // num_heads, num_heads, num_kv_heads)
    if len(positions) > 1 and [one.adds_scores for one in positions] != [False, True]:
        raise ValueError(f"`position` must be one encoding, or a rotary and a scoring one, got {shown(positions)}.")
    return num_hiddens, num_heads, num_kv_heads


def as_pair(position: Any) -> tuple[Any, ...]:
    """Return an encoding or a layer, or two of them, as a tuple, the rotary one first; empty if there is none."""
    if not isinstance(position, tuple | list):
        return () if position is None else (position,)
    return tuple(sorted(position, key=lambda one: getattr(getattr(one, "encoding", one), "adds_scores", False) is True))


def check_query_scale(query_scale: QueryEncoding, positions: tuple[Encoding, ...], num_heads: int) -> None:
    """Raise unless it multiplies queries of so many heads, and a position is one number."""
    check_type("query_scale", query_scale, QueryEncoding, "a QueryScale, a LearnedQueryScale or None")
    if getattr(query_scale, "num_heads", num_heads) != num_heads:
        raise ValueError(f"`query_scale` must have `num_heads` {num_heads}, got {shown(query_scale)}.")
    if positions and positions[0].num_axes > 1:
        raise ValueError(
            f"`query_scale` needs positions of one axis, got {shown(positions[0])}; leave one of them out."
        )


def check_qk_norm(qk_norm: QKNorm, sizes: tuple[int, int, int], *, rotates: bool) -> None:
    """Raise unless it normalizes these heads: their width, their number, that of keys; and fits what rotates them."""
    check_type("qk_norm", qk_norm, QKNorm, "a QKNorm or None")
    heads = (qk_norm.num_heads, qk_norm.num_kv_heads or qk_norm.num_heads)
    if qk_norm.head_dim != sizes[0] or heads not in ((None, None), sizes[1:]):
        raise ValueError(
            f"`qk_norm` must have `head_dim` {sizes[0]}, and `num_heads` {sizes[1]} with `num_kv_heads` {sizes[2]} or "
            f"none of both, got {shown(qk_norm)}."
        )
    if qk_norm.order == "rope_first" and not rotates:
        raise ValueError(
            f"`qk_norm` must have the order 'norm_first' without a `position` that rotates before attention, got "
            f"{shown(qk_norm)}."
        )


def check_table_options(max_len: int | None, auto_expand: bool, parts: tuple[Any, ...]) -> bool:
    """Return whether tables expand; raise for an option of tables where attention makes none of these parts."""
    expands = check_flag("auto_expand", auto_expand)
    given = {"max_len": max_len} if max_len is not None else {} if expands else {"auto_expand": False}
    if given and not any(isinstance(part, Tabular) for part in parts):
        name, value = given.popitem()
        raise ValueError(
            f"`{name}` must be left out where attention makes no tables, as without a rotary encoding, or with its "
            f"layer as `position`, got {shown(value)}."
        )
    return expands


def missing_tokens(layer: object, keys: Any) -> TypeError:
    """Return the error of a call without keys or values, as of people who write `attention(x)`."""
    name = "keys" if keys is None else "values"
    return TypeError(
        f"`{name}` must be given to `{type(layer).__name__}`; self-attention has the arguments `(x, x, x)`."
    )
