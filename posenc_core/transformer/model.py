"""The Transformer: functions of a dictionary of arrays, of any framework, that read from top to bottom.

Names of arrays are paths, as in `"decoder.0.cross.query"`; a part of the model is given the dictionary below its path.
Shapes stand at the end of the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from .._array_api.namespace import A, Array, namespace_of, shape_of
from ..addition import combine
from ..attention.attend import AttentionInputs, Position, attend, attention_weights, merge_heads, split_heads
from ..attention.masks import causal, padding
from ..encodings import Additive, Placed, RotaryEncoding, Scoring
from ..positions.sequences import arange_like
from ..rotation import Pairing, rotate_pairs
from .config import PAD, START, Transformer

__all__ = [
    "Memory", "Transformer", "answer", "cross_attention", "decode", "embedded", "encode", "feed_forward", "heads",
    "log_total", "looked_at", "loss", "normed", "product", "read", "rows_of", "self_attention", "shifted_right",
    "total",
]  # fmt: skip

KeysValues: TypeAlias = tuple[Array, Array]

Weights: TypeAlias = Mapping[str, Array]
Rows: TypeAlias = tuple[Array, Array]

NORM_EPSILON = 1e-5


class Memory(NamedTuple):
    """What the decoder looks back at.

    Attributes:
        visible: True where the source is no padding, shape `(batch, 1, 1, source_len)`.
        source: keys and values of the source, for each block, shape `(batch, heads, source_len, head_dim)`.
        past: keys and values of the tokens before, for each block; none before the first.
    """

    visible: Array
    source: tuple[KeysValues, ...]
    past: tuple[KeysValues, ...] = ()

    @property
    def length(self) -> int:
        """The number of tokens before."""
        return self.past[0][0].shape[2] if self.past else 0


def loss(model: Transformer, weights: Weights, source: Array, target: Array) -> Array:
    """How much the tokens of the answers surprise, on average, in nats; padding does not count.

    Args:
        model: the sizes.
        weights: what `model.parameters()` and `model.constants()` name, as arrays of one framework.
        source: questions, integers, shape `(batch, source_len)`.
        target: answers, integers, shape `(batch, target_len)`.
    Returns:
        A number, as an array without axes.
    Source: Vaswani et al. 2017, section 3 (arXiv:1706.03762); the cross-entropy is not smoothed.

    >>> import numpy as np
    >>> model = Transformer(vocabulary=5, max_len=4, num_hiddens=8, num_heads=2)
    >>> weights = model.initial(seed=0) | model.constants()
    >>> loss(model, weights, np.array([[3, 4, 0]]), np.array([[4, 3, 2]])).shape
    ()
    """
    logits = answer(model, weights, source, target)  # (batch, target_len, vocabulary)
    labels = rows_of(weights["labels"], target)  # (batch, target_len, vocabulary)
    return total((log_total(logits) - logits) * labels) / total(labels)


def answer(model: Transformer, weights: Weights, source: Array, target: Array) -> Array:
    """The logits of each token of the answers, from the questions and the tokens before it.

    Returns:
        Array of shape `(batch, target_len, vocabulary)`.
    """
    logits, _ = decode(model, weights, shifted_right(target), read(model, weights, source))
    return logits


def shifted_right(target: A) -> A:
    """What the decoder reads while it writes `target`: the start symbol, then all but the last token.

    >>> import numpy as np
    >>> shifted_right(np.array([[7, 8, 2]]))
    array([[1, 7, 8]])
    """
    xp = namespace_of(target)
    return xp.concat([xp.zeros_like(target[:, :1]) + START, target[:, :-1]], axis=1)


def read(model: Transformer, weights: Weights, source: Array) -> Memory:
    """The questions as the decoder looks at them: encoded, then as keys and values for each of its blocks."""
    encoded = encode(model, weights, source)  # (batch, source_len, num_hiddens)
    parts = [below(weights, f"decoder.{block}.cross") for block in range(model.num_blocks)]
    keys_values = tuple((heads(model, encoded, part["key"]), heads(model, encoded, part["value"])) for part in parts)
    return Memory(padding(source, PAD), keys_values)


def encode(model: Transformer, weights: Weights, source: Array) -> Array:
    """The encoder: `(batch, source_len) -> (batch, source_len, num_hiddens)`."""
    everywhere = range(source.shape[1])
    position = placed(model, weights, "encoder", everywhere, everywhere)
    visible = padding(source, PAD)  # (batch, 1, 1, source_len)
    x = embedded(model, weights, "encoder", source, everywhere)  # (batch, source_len, num_hiddens)
    for block in range(model.num_blocks):
        part = below(weights, f"encoder.{block}")
        x, _ = self_attention(model, below(part, "attention"), x, position, visible)
        x = feed_forward(below(part, "feed_forward"), x)
    return x


def decode(model: Transformer, weights: Weights, tokens: Array, memory: Memory) -> tuple[Array, Memory]:
    """The decoder: the logits of what follows each token, and the memory with these tokens in it.

    Args:
        model: the sizes.
        weights: as in `loss`.
        tokens: integers, shape `(batch, length)`: those after the `memory.length` that were decoded before.
        memory: from `read`, or from the call for the tokens before.
    Returns:
        Logits of shape `(batch, length, vocabulary)`, and the memory.
    """
    everywhere = range(memory.length + tokens.shape[1])
    here = everywhere[memory.length :]
    position = placed(model, weights, "decoder", here, everywhere)
    visible = causal(numbers(here, tokens), numbers(everywhere, tokens))  # (length, length so far)
    x = embedded(model, weights, "decoder", tokens, here)  # (batch, length, num_hiddens)
    past = []
    for block in range(model.num_blocks):
        part = below(weights, f"decoder.{block}")
        before = memory.past[block] if memory.past else None
        x, keys_values = self_attention(model, below(part, "attention"), x, position, visible, before)
        x = cross_attention(model, below(part, "cross"), x, memory.source[block], memory.visible)
        x = feed_forward(below(part, "feed_forward"), x)
        past.append(keys_values)
    logits = product(x, namespace_of(x).matrix_transpose(weights["embedding"]))  # (batch, length, vocabulary)
    return logits, memory._replace(past=tuple(past))


def looked_at(model: Transformer, weights: Weights, source: Array, target: Array) -> list[Array]:
    """Where the decoder looks in the questions while it writes the answers, block by block, for pictures.

    Returns:
        For each block an array of shape `(batch, heads, target_len, source_len)`; rows add up to 1.
    """
    memory, tokens, everywhere = read(model, weights, source), shifted_right(target), range(target.shape[1])
    position = placed(model, weights, "decoder", everywhere, everywhere)
    visible = causal(numbers(everywhere, tokens), numbers(everywhere, tokens))
    x, looks = embedded(model, weights, "decoder", tokens, everywhere), []
    for block in range(model.num_blocks):
        part = below(weights, f"decoder.{block}")
        x, _ = self_attention(model, below(part, "attention"), x, position, visible)
        keys, _ = memory.source[block]
        looks.append(attention_weights(heads(model, x, part["cross.query"]), keys, mask=memory.visible))
        x = cross_attention(model, below(part, "cross"), x, memory.source[block], memory.visible)
        x = feed_forward(below(part, "feed_forward"), x)
    return looks


def embedded(model: Transformer, weights: Weights, side: str, tokens: Array, positions: range) -> Array:
    """Tokens as vectors, with their positions where these are added: `(batch, length, num_hiddens)`."""
    x = rows_of(weights["embedding"], tokens) * model.num_hiddens**0.5
    rows = added(model, weights, side, positions)  # (length, num_hiddens)
    return x if rows is None else combine(x, rows, how="add")


def self_attention(
    model: Transformer,
    part: Weights,
    x: Array,
    position: Position | None,
    visible: Array,
    before: KeysValues | None = None,
) -> tuple[Array, KeysValues]:
    """Tokens look at one another, and at those before: `x`, and the keys and values of all of them, not yet rotated."""
    q, k, v = (heads(model, x, part[name]) for name in ("query", "key", "value"))
    if before is not None:
        xp = namespace_of(x)
        k, v = xp.concat([before[0], k], axis=2), xp.concat([before[1], v], axis=2)
    seen = merge_heads(attend(q, k, v, position=position, mask=visible))
    return normed(part, x + product(seen, part["output"])), (k, v)


def cross_attention(model: Transformer, part: Weights, x: Array, source: KeysValues, visible: Array) -> Array:
    """The answer looks at the question. No offset from one to the other has a meaning: no position is told here."""
    keys, values = source
    seen = merge_heads(attend(heads(model, x, part["query"]), keys, values, mask=visible))
    return normed(part, x + product(seen, part["output"]))


def feed_forward(part: Weights, x: Array) -> Array:
    """Two layers, for each token by itself."""
    xp = namespace_of(x)
    inner = product(x, part["inner"]) + part["inner_bias"]  # (batch, length, ffn_hiddens)
    outer = product(xp.maximum(inner, xp.zeros_like(inner)), part["outer"]) + part["outer_bias"]
    return normed(part, x + outer)


def normed(part: Weights, x: Array) -> Array:
    """Each token with mean 0 and variance 1, then scaled and shifted.

    Source: Ba et al. 2016 (arXiv:1607.06450).
    """
    xp, width = namespace_of(x), x.shape[-1]
    centred = x - xp.sum(x, axis=-1, keepdims=True) / width
    variance = xp.sum(centred * centred, axis=-1, keepdims=True) / width
    return centred / (variance + NORM_EPSILON) ** 0.5 * part["scale"] + part["shift"]


def heads(model: Transformer, x: Array, matrix: Array) -> Array:
    """`(batch, length, num_hiddens) -> (batch, heads, length, head_dim)`."""
    return split_heads(product(x, matrix), model.num_heads)


def product(x: Array, matrix: Array) -> Array:
    """`(batch, length, width) x (width, columns) -> (batch, length, columns)`, as one product of matrices."""
    xp, (*lead, width) = namespace_of(x), shape_of(x)
    return xp.reshape(xp.matmul(xp.reshape(x, (-1, width)), matrix), (*lead, matrix.shape[-1]))


def rows_of(table: Array, tokens: Array) -> Array:
    """The row of each token: `(batch, length) -> (batch, length, columns)`."""
    xp = namespace_of(table)
    return xp.reshape(xp.take(table, xp.reshape(tokens, (-1,)), axis=0), (*shape_of(tokens), table.shape[-1]))


def log_total(logits: Array) -> Array:
    """The logarithm of the sum of exponentials: `(..., vocabulary) -> (..., 1)`."""
    xp = namespace_of(logits)
    peak = xp.max(logits, axis=-1, keepdims=True)
    return peak + xp.log(xp.sum(xp.exp(logits - peak), axis=-1, keepdims=True))


def total(x: Array) -> Array:
    """The sum of all numbers, without axes."""
    xp = namespace_of(x)
    return xp.sum(xp.reshape(x, (-1,)), axis=0, keepdims=False)


@dataclass(frozen=True, eq=False)
class Turned:
    """A rotary encoding inside attention, by cosines and sines that are at hand: `(length, pairs)` each."""

    pairing: Pairing
    for_queries: Rows
    for_keys: Rows
    needs_scores: ClassVar[bool] = False

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Queries and keys, rotated."""
        return (
            rotate_pairs(q, *self.for_queries, pairing=self.pairing),
            rotate_pairs(k, *self.for_keys, pairing=self.pairing),
        )

    def scores(self, content: AttentionInputs) -> None:
        """Nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Nothing is added to the result."""


def placed(model: Transformer, weights: Weights, side: str, queries: range, keys: range) -> Position | None:
    """The encoding as self-attention takes it; None where it does not work there.

    Args:
        model: the sizes.
        weights: all arrays of the model, by name.
        side: `"encoder"` or `"decoder"`, which learn their positions apart.
        queries, keys: where they stand.
    """
    encoding = model.encoding
    if isinstance(encoding, Scoring):
        return Placed(encoding, queries, keys, _held(weights, side))
    if isinstance(encoding, RotaryEncoding):
        held = _held(weights, side)
        return Turned(encoding.pairing, _cos_sin(encoding, held, queries, ""), _cos_sin(encoding, held, keys, "key_"))
    return None


def added(model: Transformer, weights: Weights, side: str, positions: range) -> Array | None:
    """The rows to add to tokens, `(length, num_hiddens)`; None where the encoding adds none."""
    encoding = model.encoding
    if not isinstance(encoding, Additive):
        return None
    held = _held(weights, side)
    if hasattr(encoding, "rows_of"):
        (rows,) = _computed(encoding, held, positions)
        return rows
    first = positions.start + encoding.offset
    return held["table"][first : first + len(positions)]


def below(weights: Weights, path: str) -> dict[str, Array]:
    """The arrays below a path, by the rest of their names.

    >>> below({"encoder.0.scale": 1, "encoder.1.scale": 2}, "encoder.1")
    {'scale': 2}
    """
    return {name[len(path) + 1 :]: array for name, array in weights.items() if name.startswith(f"{path}.")}


def numbers(positions: range, like: Array) -> Array:
    """Positions as integers in the library of `like`, shape `(length,)`."""
    return arange_like(len(positions), like=like) + positions.start


def _held(weights: Weights, side: str) -> dict[str, Array]:
    """All arrays of the encoding: those that are fixed, and those that this side learns."""
    return below(weights, "position") | below(weights, f"{side}.position")


def _cos_sin(encoding: RotaryEncoding, held: Weights, positions: range, prefix: str) -> Rows:
    """The rows of these positions; those of keys are the same but for encodings that have others for them."""
    if hasattr(encoding, "rows_of"):
        cos, sin = _computed(encoding, held, positions)
        return cos, sin
    names = [f"{prefix}{name}" if f"{prefix}{name}" in held else name for name in ("cos", "sin")]
    cos, sin = (held[name][positions.start : positions.stop] for name in names)
    return cos, sin


def _computed(encoding: Any, held: Weights, positions: range) -> tuple[Array, ...]:
    """Rows that the framework computes, as they depend on what is learned."""
    rows: tuple[Array, ...] = encoding.rows_of(held, numbers(positions, next(iter(held.values()))))
    return rows
