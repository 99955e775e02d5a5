"""Scaled dot-product attention with positional encodings."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .._array_api.checks import (
    check_array,
    check_as_long,
    check_broadcasts,
    check_flag,
    check_floating,
    check_libraries,
    check_rank,
    check_type,
    check_width,
    is_static,
)
from .._array_api.namespace import (
    A,
    Array,
    Weights,
    dtype_name,
    dtype_of,
    in_float32,
    namespace_of,
    repeat_heads,
    shape_of,
)
from ..positions.sequences import arange_like
from .masks import all_of, causal_checked
from .softmax import softmax

Dropout = Callable[[Array], Array]


class AttentionInputs(NamedTuple):
    """Queries, keys and scores, before the softmax.

    Attributes:
        q: queries, shape `(..., heads, queries, width)`.
        k: keys, shape `(..., heads, keys, width)`.
        scores: q kᵀ / √width, -inf where a mask hides the key, shape `(..., heads, queries, keys)`.
    """

    q: Array
    k: Array
    scores: Array


class Position:
    """An encoding inside attention, at given positions; by default it changes nothing."""

    @property
    def needs_scores(self) -> bool:
        """Whether it needs the scores or the weights, which a fused kernel does not return."""
        return False

    @property
    def query_rotations(self) -> int:
        """How many times as wide as before `rotate` returns queries, as after several rotations; usually 1."""
        return 1

    def check(self, q: Array, k: Array) -> None:
        """Raise unless it is for queries and keys of these shapes."""

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Return queries and keys at their positions; queries scaled, if they are."""
        return q, k

    def products(self, q: Array, k: Array) -> Array:
        """Return the product of each query and key, as `rotate` returned them, `(..., queries, keys)`."""
        return products(q, k)

    def scores(self, content: AttentionInputs) -> Array | None:
        """Return what is added to the scores, or None."""
        return None

    def values(self, attention: Array) -> Array | None:
        """Return what is added to the result, given the attention weights, or None."""
        return None


class Additions(NamedTuple):
    """Additions to the scores of attention, and the keys that it hides: of all queries and keys, or of a block.

    Attributes:
        position: a `Position`, or None; `attend_by_block` needs `AtPositions`, which can be cut.
        bias: a term added to the scores, or None.
        mask: True where a query sees a key, or None; for `attend_by_block` also a function that computes it.
    """

    position: Any = None
    bias: Array | None = None
    mask: Any = None


def attend(  # noqa: PLR0913 - all that can be said of a call
    q: A,
    k: A,
    v: A,
    *,
    position: Position | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    is_causal: bool = False,
    dropout: Dropout | None = None,
) -> A:
    """Return softmax(q kᵀ / √width + bias) v; zeros for a query without a visible key.

    The framework's own kernel, if it has one, computes this for `(batch, heads, length, width)`, unless there is a
    bias or a dropout, or the encoding needs the scores.

    Args:
        q: queries, shape `(..., queries, width)`.
        k, v: keys and values, shapes `(..., keys, width)` and `(..., keys, value_width)`. With fewer heads
            than `q`, `([batch,] heads, …)`, each serves several neighbouring heads of `q` (grouped-query attention).
        position: a rotary or scoring encoding with the positions of queries and keys: `Placed`.
        bias: a term added to the scores; broadcasts against `(..., queries, keys)`.
        mask: True where a query may attend to a key; broadcasts likewise.
        is_causal: whether to hide the keys after each query of one sequence, which has as many queries as keys; the
            framework's own kernel then needs no mask.
        dropout: a function applied to the weights in training.
    Returns:
        Array of shape `(..., queries, value_width)` and the dtype of `q`; half precision is computed in float32.
    Raises:
        TypeError: if `q`, `k`, `v` or `bias` is not floating-point, `mask` not bool, or `position` no encoding with its
            positions, or if an array is of a library that cannot meet that of `q`.
        ValueError: if queries and keys differ in width, or in number with `is_causal`, keys and values in number,
            `bias` or `mask` does not broadcast to the scores, or the heads of `k` do not divide those of `q`.
    Source: Vaswani et al. 2017, equation 1 (arXiv:1706.03762); Ainslie et al. 2023 (arXiv:2305.13245) for groups.

    >>> import numpy as np
    >>> attend(np.ones((1, 4)), np.ones((2, 4)), np.array([[1.0], [3.0]]))
    array([[2.]])
    >>> from posenc_core import Placed, Rotary, attend
    >>> x, rotary = np.ones((1, 2, 3, 8), np.float32), Rotary(head_dim=8, layout="half")
    >>> attend(x, x, x, position=Placed(rotary, range(3), range(3))).shape
    (1, 2, 3, 8)
    """
    check_values(v, k)
    check_fit(q, k, Additions(position, bias, mask))
    if check_flag("is_causal", is_causal):
        queries, keys = q.shape[-2], k.shape[-2]
        if not (is_static(queries) and is_static(keys)):  # a kernel might count unequal ones from the end
            mask, is_causal = _causal_mask(q, k, mask), False
        elif queries != keys:
            raise ValueError(
                f"`is_causal` must be False for {queries} queries and {keys} keys; give "
                "`mask=causal(query_positions, key_positions)`."
            )
    return attend_checked(q, k, v, Additions(position, bias, mask), is_causal=is_causal, dropout=dropout)


def attend_checked(q: A, k: A, v: A, additions: Additions, *, is_causal: bool, dropout: Dropout | None) -> A:
    """Return `attend` of arguments that fit, without checks."""
    position, bias, mask = additions
    q, k = (q, k) if position is None else position.rotate(q, k)
    kernel = _kernel(q, k, v, position) if bias is None and dropout is None else None
    if kernel is not None:
        fused = partial(_fused, kernel=kernel, position=position, mask=mask, is_causal=is_causal)
        return computed(fused, q, {"k": k, "v": v}, mask=mask)
    mask = _causal_mask(q, k, mask) if is_causal else mask
    tokens = {"k": grouped(k, q), "v": grouped(v, q)}
    attended = partial(_attended, additions=Additions(position, bias, mask), dropout=dropout)
    return computed(attended, q, tokens, bias=bias, mask=mask)


def attention_weights(
    q: A, k: A, *, position: Position | None = None, bias: Array | None = None, mask: Array | None = None
) -> A:
    """Return the weights of the values in `attend`, `(..., queries, keys)`.

    Rows add up to 1, or to 0 where all keys are hidden.

    Arguments are those of `attend` but `v`, `is_causal` and `dropout`, and so are the errors.

    >>> import numpy as np
    >>> attention_weights(np.zeros((1, 4)), np.zeros((2, 4)))
    array([[0.5, 0.5]])
    """
    additions = Additions(position, bias, mask)
    check_fit(q, k, additions)
    return weights_checked(q, k, additions)


def weights_checked(q: A, k: A, additions: Additions) -> A:
    """Return `attention_weights` of arguments that fit, without checks."""
    q, k = (q, k) if additions.position is None else additions.position.rotate(q, k)
    weights = partial(weigh, scale=scale_of(q, additions.position), additions=additions)
    operation = _unweighted if 0 in (q.shape[-2], k.shape[-2]) else weights
    return computed(operation, q, {"k": grouped(k, q)}, bias=additions.bias, mask=additions.mask)


def computed(operation: Callable[..., Array], q: A, tokens: Weights, **added: Any) -> A:
    """Return `operation` of queries and `tokens` in float32; an error names an array of another library, if any."""
    try:
        result: A = in_float32(operation, q, *tokens.values())
    except Exception:
        check_libraries(q, **tokens, **added)  # only now, as some libraries take arrays of others
        raise
    return result


def check_fit(q: Array, k: Array, additions: Additions) -> None:
    """Raise unless all arguments fit."""
    position, bias, mask = additions
    _check_tokens(q=q, k=k)
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"`k` must be as wide as `q`, got shapes {tuple(k.shape)} and {tuple(q.shape)}.")
    scores = (*q.shape[:-1], k.shape[-2])
    if bias is not None:
        check_floating("bias", bias)
        check_broadcasts("bias", bias, scores)
    if mask is not None:
        check_mask(mask, scores)
    if position is not None:
        check_type("position", position, Position, "`Placed(encoding, query_positions, key_positions)`")
        position.check(q, k)


def check_values(v: Array, k: Array) -> None:
    """Raise unless there is a value for every key."""
    _check_tokens(v=v, k=k)
    check_as_long("v", v, "k", k)


def _check_tokens(**tokens: Array) -> None:
    for name, x in tokens.items():
        check_floating(name, x)
        check_rank(name, x, minimum=2, axes="(..., length, width)")


def check_mask(mask: Array, scores: tuple[Any, ...], *, name: str = "mask") -> None:
    """Raise unless a mask is bool and broadcasts to scores of this shape."""
    check_array(name, mask)
    if not dtype_name(mask).startswith("bool"):
        raise TypeError(f"`{name}` must be bool, True where a query sees a key, got {dtype_name(mask)}.")
    check_broadcasts(name, mask, scores)


def grouped(x: A, q: Array) -> A:
    """Repeat each head of keys or values until there are as many as `q` has: `(..., heads, length, width)`.

    Raises:
        ValueError: if their heads do not divide those of `q`.
    """
    if len(q.shape) < 3 or len(x.shape) < 3 or not is_static(q.shape[-3]) or q.shape[-3] == x.shape[-3]:
        return x
    heads = shape_of(x)[-3]
    if heads == 0 or q.shape[-3] % heads:
        raise ValueError(f"`k` and `v` must have heads that divide the {q.shape[-3]} of `q`, got {heads}.")
    return repeat_heads(x, q.shape[-3])


def _kernel(q: Array, k: Array, v: Array, position: Position | None) -> Callable[..., Array] | None:
    """Return the framework's own attention, if it computes this, or None."""
    if any(len(x.shape) != 4 for x in (q, k, v)) or (position is not None and position.needs_scores):
        return None
    if dtype_name(q) == "float64":  # which JAX's rounds to float32 on the way
        return None
    fits = q.shape[0] == k.shape[0] and tuple(k.shape) == tuple(v.shape) and 0 not in (*q.shape, *k.shape)
    return getattr(namespace_of(q), "fused_attention", None) if fits and q.shape[1] % k.shape[1] == 0 else None


def _fused(
    q: Array, k: Array, v: Array, *, kernel: Callable[..., Array], position: Position | None, mask: Any, is_causal: bool
) -> Array:
    xp = namespace_of(q)
    # encodings that do not look at the scores take anything
    bias = None if position is None else position.scores(AttentionInputs(q, k, q))
    bias = None if bias is None else _with_four_axes(xp.astype(bias, dtype_of(q)))
    if mask is None:
        if bias is None or not is_causal:
            return kernel(q, k, v, bias, None, is_causal)
        return kernel(q, k, v, bias, _with_four_axes(_causal_mask(q, k, None)), False)
    mask = _with_four_axes(_causal_mask(q, k, mask) if is_causal else mask)
    seen = xp.astype(mask, xp.int32)
    most = xp.max(seen, axis=-1, keepdims=True)
    shown = seen >= most  # all keys where none is seen: kernels differ on what that makes, NaN, a mean, or zeros
    result = kernel(q, k, v, bias, shown, False)
    return xp.where(most > 0, result, xp.zeros_like(result))


def _causal_mask(q: Array, k: Array, mask: Array | None) -> Array:
    """Return a mask that also hides the keys after each query, both counted from 0."""
    visible: Array = causal_checked(*[arange_like(shape_of(x)[-2], like=x) for x in (q, k)])
    return visible if mask is None else all_of(visible, mask)


def _with_four_axes(x: Array) -> Array:
    return x if len(x.shape) == 4 else _with_four_axes(namespace_of(x).expand_dims(x, axis=0))


def _attended(q: Array, k: Array, v: Array, *, additions: Additions, dropout: Dropout | None) -> Array:
    xp, position = namespace_of(q), additions.position
    if 0 in (q.shape[-2], k.shape[-2]):
        return xp.matmul(_unweighted(q, k), v)
    weights = weigh(q, k, scale_of(q, position), additions)
    weights = weights if dropout is None else dropout(weights)
    added = None if position is None else position.values(weights)
    if added is None:
        return xp.matmul(weights, v)
    check_width("v", v, added.shape[-1])
    return xp.matmul(weights, v) + added


def _unweighted(q: Array, k: Array) -> Array:
    """Return the empty weights of no queries or no keys, which have no maximum to subtract."""
    width = min(q.shape[-1], k.shape[-1])  # there may be more rotations of one than of the other
    return products(q[..., :width], k[..., :width])


def scale_of(q: Array, position: Position | None) -> float:
    """Return 1 / √width, for queries that were rotated."""
    width: int = q.shape[-1]
    return 1 / math.sqrt(width if position is None else width // position.query_rotations)


def weigh(q: Array, k: Array, scale: float, additions: Additions) -> Array:
    """Return attention weights, `(..., queries, keys)`; each row adds up to 1, or to 0 if every key is hidden.

    `q` has shape `(..., queries, width)` and `k` has shape `(..., keys, width)`.
    """
    return softmax(scored(q, k, scale, additions))


def scored(q: Array, k: Array, scale: float, additions: Additions) -> Array:
    """Return the scores with all that is added to them, `(..., queries, keys)`; -inf where the mask hides a key."""
    xp, (position, bias, mask) = namespace_of(q), additions
    if (check := getattr(xp, "check_formula", None)) is not None:
        check()
    scores: Array = (products(q, k) if position is None else position.products(q, k)) * scale
    if bias is not None:
        scores = scores + xp.astype(bias, dtype_of(scores))
    if mask is not None:
        scores = xp.where(mask, scores, xp.full_like(scores, -math.inf))
    added = None if position is None else position.scores(AttentionInputs(q, k, scores))
    return scores if added is None else scores + xp.astype(added, dtype_of(scores))


def products(q: A, k: A) -> A:
    """Return the product of each query and key, q kᵀ: `(..., queries, keys)`."""
    return namespace_of(q).matmul(q, namespace_of(k).matrix_transpose(k))


def split_heads(x: A, num_heads: int) -> A:
    """Split heads: `(batch, length, heads * width) -> (batch, heads, length, width)`."""
    xp = namespace_of(x)
    batch, length, _ = shape_of(x)
    return xp.permute_dims(xp.reshape(x, (batch, length, num_heads, x.shape[-1] // num_heads)), (0, 2, 1, 3))


def merge_heads(x: A) -> A:
    """Merge heads: `(batch, heads, length, width) -> (batch, length, heads * width)`."""
    xp = namespace_of(x)
    batch, heads, length, width = shape_of(x)
    return xp.reshape(xp.permute_dims(x, (0, 2, 1, 3)), (batch, length, heads * width))
