"""The Transformer as functions of a dictionary of arrays, of any framework; read them from top to bottom.

The names of arrays are paths, as in `"decoder.0.cross.query"`; a part of the model takes the arrays below its path.
Shapes are given at the end of a line.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from .._array_api.checks import check_type
from .._array_api.namespace import A, Array, Weights, namespace_of, shape_of, take_nd
from ..addition import combine
from ..attention.attend import Position, attend, attention_weights, check_mask, merge_heads, split_heads
from ..attention.masks import causal, padding
from ..encodings import Additive, Placed, Scoring
from ..encodings.attention_encoding import QueryKeyEncoding
from ..encodings.placed import AtRows
from ..positions.sequences import arange_like
from .checks import LABELS, check, check_batch, check_keys_values, check_model, check_part, check_shapes
from .config import PAD, START, Transformer

KeysValues: TypeAlias = tuple[Array, Array]

NORM_EPSILON = 1e-5


class Memory(NamedTuple):
    """The state of the decoder: keys and values that it has computed, called a KV cache.

    Attributes:
        visible: True where the source is not padding, shape `(batch, 1, 1, source_len)`.
        source: keys and values of the source for each block, shape `(batch, heads, source_len, head_dim)` each.
        past: keys and values of the previous tokens for each block, shape `(batch, heads, past_len, head_dim)` each;
            empty before the first token.
    """

    visible: Array
    source: tuple[KeysValues, ...]
    past: tuple[KeysValues, ...] = ()

    @property
    def length(self) -> int:
        """The number of previous tokens."""
        if not self.past:
            return 0
        return self.past[0][0].shape[2]


def loss(model: Transformer, weights: Weights, source: Array, target: Array) -> Array:
    """Compute the mean cross-entropy of the tokens of the answers, in nats; padding does not count.

    Args:
        model: the sizes and the encoding.
        weights: the arrays of `model.parameters()` and `model.constants()` by name, all of one framework.
        source: questions, integers, shape `(batch, source_len)`.
        target: answers, integers, shape `(batch, target_len)`.
    Returns:
        A number, as an array without axes.
    Raises:
        TypeError, ValueError: if an argument is not what its name says, or `weights` lack an array or have it in
            another shape. All functions here raise these.
    Source: Vaswani et al. 2017, section 3 (arXiv:1706.03762), without label smoothing.

    >>> import numpy as np
    >>> model = Transformer(vocabulary=5, max_len=4, num_hiddens=8, num_heads=2)
    >>> weights = model.initial(seed=0) | model.constants()
    >>> loss(model, weights, np.array([[3, 4, 0]]), np.array([[4, 3, 2]])).shape
    ()
    """
    check_model(model, weights, source=source, target=target)
    check_shapes("weights", weights, {LABELS: (model.vocabulary,) * 2})
    logits = answer(model, weights, source, target)  # (batch, target_len, vocabulary)
    labels = take_rows(weights[LABELS], target)  # (batch, target_len, vocabulary)
    return sum_all((logsumexp(logits) - logits) * labels) / sum_all(labels)


def answer(model: Transformer, weights: Weights, source: Array, target: Array) -> Array:
    """Compute the logits of each token of the answers, given the questions and the tokens before it.

    Arguments are those of `loss`.

    Returns:
        Array of shape `(batch, target_len, vocabulary)`.
    """
    check_model(model, weights, source=source, target=target)
    check_batch("target", target, "source", source)
    logits, _ = decode(model, weights, shift_right(target), read(model, weights, source))
    return logits


def shift_right(target: A) -> A:
    """Return the input of the decoder that predicts `target`: the start token, then all but the last token.

    >>> import numpy as np
    >>> shift_right(np.array([[7, 8, 2]]))
    array([[1, 7, 8]])
    """
    check(target=target)
    xp = namespace_of(target)
    return xp.concat([xp.zeros_like(target[:, :1]) + START, target[:, :-1]], axis=1)


def read(model: Transformer, weights: Weights, source: Array) -> Memory:
    """Encode the questions, and return the memory of a decoder that has not written a token."""
    encoded = encode(model, weights, source)  # (batch, source_len, num_hiddens)
    parts = [with_prefix(weights, f"decoder.{block}.cross") for block in range(model.num_blocks)]
    keys_values = tuple(
        (project_heads(model, encoded, part["key"]), project_heads(model, encoded, part["value"])) for part in parts
    )
    return Memory(padding(source, PAD), keys_values)


def encode(model: Transformer, weights: Weights, source: Array) -> Array:
    """Run the encoder: `(batch, source_len) -> (batch, source_len, num_hiddens)`."""
    check_model(model, weights, source=source)
    positions = range(source.shape[1])
    position = attention_position(model, weights, "encoder", positions, positions)
    visible = padding(source, PAD)  # (batch, 1, 1, source_len)
    x = embed(model, weights, "encoder", source, positions)  # (batch, source_len, num_hiddens)
    for block in range(model.num_blocks):
        part = with_prefix(weights, f"encoder.{block}")
        x, _ = self_attention(model, with_prefix(part, "attention"), x, position, visible)
        x = feed_forward(with_prefix(part, "feed_forward"), x)
    return x


def decode(model: Transformer, weights: Weights, tokens: Array, memory: Memory) -> tuple[Array, Memory]:
    """Run the decoder: compute the logits of the token after each of `tokens`, and add them to the memory.

    Args:
        model: the sizes and the encoding.
        weights: as in `loss`.
        tokens: integers, shape `(batch, length)`; they follow the `memory.length` tokens of previous calls.
        memory: the result of `read`, or of the previous call.
    Returns:
        Logits of shape `(batch, length, vocabulary)`, and the memory.
    """
    check_model(model, weights, tokens=tokens)
    check_type("memory", memory, Memory, "a Memory, from `read`")
    check_batch("tokens", tokens, "memory", memory.visible)
    all_positions = range(memory.length + tokens.shape[1])
    positions = all_positions[memory.length :]
    position = attention_position(model, weights, "decoder", positions, all_positions)
    # of shape (length, past + length)
    visible = causal(position_array(positions, tokens), position_array(all_positions, tokens))
    x = embed(model, weights, "decoder", tokens, positions)  # (batch, length, num_hiddens)
    past = []
    for block in range(model.num_blocks):
        part = with_prefix(weights, f"decoder.{block}")
        before = memory.past[block] if memory.past else None
        x, keys_values = self_attention(model, with_prefix(part, "attention"), x, position, visible, before)
        x = cross_attention(model, with_prefix(part, "cross"), x, memory.source[block], memory.visible)
        x = feed_forward(with_prefix(part, "feed_forward"), x)
        past.append(keys_values)
    logits = project(x, namespace_of(x).matrix_transpose(weights["embedding"]))  # (batch, length, vocabulary)
    return logits, memory._replace(past=tuple(past))


def cross_attention_weights(model: Transformer, weights: Weights, source: Array, target: Array) -> list[Array]:
    """Compute the weights of cross-attention while the decoder writes the answers, for pictures.

    Arguments are those of `loss`.

    Returns:
        For each block an array of shape `(batch, heads, target_len, source_len)`; rows add up to 1.
    """
    check_model(model, weights, source=source, target=target)
    check_batch("target", target, "source", source)
    memory, tokens, positions = read(model, weights, source), shift_right(target), range(target.shape[1])
    position = attention_position(model, weights, "decoder", positions, positions)
    visible = causal(position_array(positions, tokens), position_array(positions, tokens))  # (target_len, target_len)
    x = embed(model, weights, "decoder", tokens, positions)  # (batch, target_len, num_hiddens)
    found = []
    for block in range(model.num_blocks):
        part = with_prefix(weights, f"decoder.{block}")
        x, _ = self_attention(model, with_prefix(part, "attention"), x, position, visible)
        keys, _ = memory.source[block]  # (batch, heads, source_len, head_dim)
        found.append(attention_weights(project_heads(model, x, part["cross.query"]), keys, mask=memory.visible))
        x = cross_attention(model, with_prefix(part, "cross"), x, memory.source[block], memory.visible)
        x = feed_forward(with_prefix(part, "feed_forward"), x)
    return found


def embed(model: Transformer, weights: Weights, side: str, tokens: Array, positions: range) -> Array:
    """Return tokens as vectors, plus the rows of an additive encoding: `(batch, length, num_hiddens)`."""
    check_model(model, weights, tokens=tokens)
    check(side=side, positions=positions)
    x = take_rows(weights["embedding"], tokens) * model.num_hiddens**0.5  # (batch, length, num_hiddens)
    rows = additive_rows(model, weights, side, positions)  # (length, num_hiddens)
    return x if rows is None else combine(x, rows, how="add")


def self_attention(
    model: Transformer,
    part: Weights,
    x: Array,
    position: Position | None,
    visible: Array,
    before: KeysValues | None = None,
) -> tuple[Array, KeysValues]:
    """Attend from each token to the tokens `x` and those before them, then add and normalize.

    Returns:
        Array of the shape of `x`, and the keys and values of all tokens, without rotation.
    """
    check(model=model)
    check_part(part, x, "query", "key", "value", "output", "scale", "shift")
    q, k, v = (project_heads(model, x, part[name]) for name in ("query", "key", "value"))
    if before is not None:
        check_keys_values("before", before, k)
        xp = namespace_of(x)
        k, v = xp.concat([before[0], k], axis=2), xp.concat([before[1], v], axis=2)  # (batch, heads, all, head_dim)
    check_mask(visible, (*q.shape[:-1], k.shape[-2]), name="visible")
    attention = merge_heads(attend(q, k, v, position=position, mask=visible))  # (batch, length, num_hiddens)
    return layer_norm(part, x + project(attention, part["output"])), (k, v)


def cross_attention(model: Transformer, part: Weights, x: Array, source: KeysValues, visible: Array) -> Array:
    """Attend from the answer to the question, then add and normalize.

    There is no position encoding here: an offset from the answer to the question has no meaning.
    """
    check(model=model)
    check_part(part, x, "query", "output", "scale", "shift")
    check_keys_values("source", source)
    keys, values = source  # (batch, heads, source_len, head_dim)
    q = project_heads(model, x, part["query"])  # (batch, heads, length, head_dim)
    check_mask(visible, (*q.shape[:-1], keys.shape[-2]), name="visible")
    attention = merge_heads(attend(q, keys, values, mask=visible))  # (batch, length, num_hiddens)
    return layer_norm(part, x + project(attention, part["output"]))


def feed_forward(part: Weights, x: Array) -> Array:
    """Apply two layers with a ReLU between them to each token, then add and normalize."""
    check_part(part, x, "inner", "inner_bias", "outer", "outer_bias", "scale", "shift")
    xp = namespace_of(x)
    inner = project(x, part["inner"]) + part["inner_bias"]  # (batch, length, ffn_hiddens)
    outer = project(xp.maximum(inner, xp.zeros_like(inner)), part["outer"]) + part["outer_bias"]  # like x
    return layer_norm(part, x + outer)


def layer_norm(part: Weights, x: Array) -> Array:
    """Normalize each token to mean 0 and variance 1, then scale and shift it.

    Source: Ba et al. 2016 (arXiv:1607.06450).
    """
    check_part(part, x, "scale", "shift")
    xp, width = namespace_of(x), x.shape[-1]
    centred = x - xp.sum(x, axis=-1, keepdims=True) / width
    variance = xp.sum(centred * centred, axis=-1, keepdims=True) / width  # (batch, length, 1)
    return centred / (variance + NORM_EPSILON) ** 0.5 * part["scale"] + part["shift"]


def project_heads(model: Transformer, x: Array, matrix: Array) -> Array:
    """Project tokens and split them into heads: `(batch, length, num_hiddens) -> (batch, heads, length, head_dim)`."""
    return split_heads(project(x, matrix), model.num_heads)


def project(x: Array, matrix: Array) -> Array:
    """Multiply tokens by a matrix: `(batch, length, width) x (width, columns) -> (batch, length, columns)`."""
    xp, (*leading, width) = namespace_of(x), shape_of(x)
    return xp.reshape(xp.matmul(xp.reshape(x, (-1, width)), matrix), (*leading, matrix.shape[-1]))


def take_rows(table: Array, tokens: Array) -> Array:
    """Return the row of each token: `(batch, length) -> (batch, length, columns)`."""
    return take_nd(table, tokens, axis=0)


def logsumexp(logits: Array) -> Array:
    """Return the logarithm of the sum of exponentials: `(..., vocabulary) -> (..., 1)`."""
    xp = namespace_of(logits)
    largest = xp.max(logits, axis=-1, keepdims=True)
    return largest + xp.log(xp.sum(xp.exp(logits - largest), axis=-1, keepdims=True))


def sum_all(x: Array) -> Array:
    """Return the sum of all numbers, as an array without axes."""
    xp = namespace_of(x)
    return xp.sum(xp.reshape(x, (-1,)), axis=0, keepdims=False)


def attention_position(model: Transformer, weights: Weights, side: str, queries: range, keys: range) -> Position | None:
    """Return the encoding at the positions of queries and keys, as `attend` takes it; None if it does not act there.

    Args:
        model: the sizes and the encoding.
        weights: all arrays of the model, by name.
        side: `"encoder"` or `"decoder"`; each learns its own position parameters.
        queries, keys: their positions.
    """
    encoding, arrays = model.encoding, _encoding_arrays(weights, side)
    if isinstance(encoding, Scoring):
        return Placed(encoding, queries, keys, arrays)
    if isinstance(encoding, QueryKeyEncoding):
        query_rows, key_rows = _cos_sin(encoding, arrays, queries, ""), _cos_sin(encoding, arrays, keys, "key_")
        return AtRows(encoding, query_rows, key_rows, arrays)
    return None


def additive_rows(model: Transformer, weights: Weights, side: str, positions: range) -> Array | None:
    """Return the rows to add to tokens, `(length, num_hiddens)`; None if the encoding is not additive."""
    encoding = model.encoding
    if not isinstance(encoding, Additive):
        return None
    arrays = _encoding_arrays(weights, side)
    if encoding.computes_rows:
        (rows,) = _learned_rows(encoding, arrays, positions)
        return rows
    first = positions.start + encoding.offset
    return arrays["table"][first : first + len(positions)]


def with_prefix(weights: Weights, prefix: str) -> dict[str, Array]:
    """Return the arrays whose names start with a prefix, by the rest of their names.

    >>> with_prefix({"encoder.0.scale": 1, "encoder.1.scale": 2}, "encoder.1")
    {'scale': 2}
    """
    return {name[len(prefix) + 1 :]: array for name, array in weights.items() if name.startswith(f"{prefix}.")}


def position_array(positions: range, like: Array) -> Array:
    """Return positions as integers in the library of `like`, shape `(length,)`."""
    return arange_like(len(positions), like=like) + positions.start


def _encoding_arrays(weights: Weights, side: str) -> dict[str, Array]:
    """Return the arrays of the encoding: its constants, and the parameters of this side."""
    return with_prefix(weights, "position") | with_prefix(weights, f"{side}.position")


def _cos_sin(encoding: QueryKeyEncoding, arrays: Weights, positions: range, prefix: str) -> tuple[Array, Array]:
    """Return the rows of these positions; some encodings have other tables for keys, with the prefix `"key_"`."""
    if encoding.computes_rows:
        cos, sin = _learned_rows(encoding, arrays, positions)
        return cos, sin
    names = [f"{prefix}{name}" if f"{prefix}{name}" in arrays else name for name in ("cos", "sin")]
    cos, sin = encoding.mixed(arrays, tuple([arrays[name][positions.start : positions.stop] for name in names]))
    return cos, sin


def _learned_rows(encoding: Any, arrays: Weights, positions: range) -> tuple[Array, ...]:
    """Return rows that depend on learned parameters, computed by the framework."""
    return encoding.rows_of(arrays, position_array(positions, next(iter(arrays.values()))))
