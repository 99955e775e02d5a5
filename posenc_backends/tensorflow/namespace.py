"""The names of the array API standard that the core uses, over TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import (  # noqa: F401
    abs,  # noqa: A004
    bfloat16,
    broadcast_to,
    concat,
    cos,
    exp,
    expand_dims,
    float16,
    float32,
    float64,
    int32,
    matmul,
    maximum,
    minimum,
    ones_like,
    reshape,
    sin,
    stack,
    where,
    zeros_like,
)
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

from posenc_core.attention.relative import rows_that_overlap

from . import memory

astype = tf.cast
cumulative_sum = tf.cumsum
log = tf.math.log
log1p = tf.math.log1p
matrix_transpose = tf.linalg.matrix_transpose
max = tf.reduce_max  # noqa: A001
permute_dims = tf.transpose
sum = tf.reduce_sum  # noqa: A001
take = tf.gather


def arange(stop: Any, /, *, device: Any = None) -> tf.Tensor:
    """Return `0 … stop - 1`, where TensorFlow puts them."""
    try:
        return tf.range(stop)
    except tf.errors.InvalidArgumentError as error:  # as the other libraries raise
        raise ValueError("`stop` must be at least 0.") from error


def asarray(x: Any, /, *, device: Any = None) -> tf.Tensor:
    """Return the numbers of a NumPy array, where TensorFlow puts them."""
    return tf.constant(x)


def full_like(x: tf.Tensor, value: float, /) -> tf.Tensor:
    """Return the value, in the shape and dtype of `x`."""
    return tf.fill(tf.shape(x), tf.cast(value, x.dtype))


def expand_offsets(by_offset: tf.Tensor, queries: int, keys: int, first: int, /) -> tf.Tensor | None:
    """Return overlapping rows, copied once to new memory; None where code is traced or a gradient must reach them."""
    if not (memory.runs_at_once() and memory.is_here(by_offset)) or memory.is_followed(by_offset):
        return None
    spread = memory.empty((by_offset.shape[0], queries, keys), by_offset.dtype) if by_offset.dtype == float32 else None
    if spread is not None:
        memory.write(rows_that_overlap(by_offset.numpy()[:, first:], queries, keys), spread)
    return spread


def split_pairs(x: tf.Tensor, layout: str, /) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the first and second channels of pairs by an operator with a cheaper gradient than two slices have."""
    if layout == "half":
        first, second = tf.split(x, 2, axis=-1)
        return first, second
    return x[..., ::2], x[..., 1::2]


def partners(x: tf.Tensor, layout: str, /) -> tf.Tensor | None:
    """Return the partner of each channel in its place, for graphs: by one operator, or for XLA in its loop.

    XLA gets halves only: it does not vectorize swapped neighbours, which are faster as slices.
    """
    if tf.executing_eagerly():
        return None
    if not GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        pairs, last = x.shape[-1] // 2, len(x.shape) - 1  # `tf.vectorized_map` takes -1 for an axis of its own
        if layout == "half":
            first, second = tf.split(x, 2, axis=last)
            return tf.concat([second, first], axis=last)  # TF-Lite has no `roll`
        return tf.reshape(tf.reverse(tf.reshape(x, (*shape(x)[:-1], pairs, 2)), [-1]), shape(x))
    return _swapped(x) if layout == "half" else None


def _swapped(x: tf.Tensor) -> tf.Tensor:
    """Return swapped halves, each of them padded to the width of both."""
    middle, still = x.shape[-1] // 2, [(0, 0)] * (len(x.shape) - 1)
    begins, ends = tf.pad(x[..., middle:], [*still, (0, middle)]), tf.pad(x[..., :middle], [*still, (middle, 0)])
    return tf.where(tf.range(2 * middle) < middle, begins, ends)


def shape(x: tf.Tensor, /) -> tuple[Any, ...]:
    """Return the sizes; a scalar tensor for each that is not known while `x` is traced."""
    return tuple(tf.shape(x)[axis] if size is None else size for axis, size in enumerate(x.shape))
