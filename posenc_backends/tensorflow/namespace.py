"""The names of the array API standard that the core uses, over TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import (  # noqa: F401
    abs,  # noqa: A004
    broadcast_to,
    concat,
    cos,
    exp,
    expand_dims,
    float32,
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

from posenc_core.relative import rows_that_overlap

from . import memory

astype = tf.cast
cumulative_sum = tf.cumsum
log = tf.math.log
matrix_transpose = tf.linalg.matrix_transpose
max = tf.reduce_max  # noqa: A001
permute_dims = tf.transpose
sum = tf.reduce_sum  # noqa: A001
take = tf.gather


def arange(stop: Any, /, *, device: Any = None) -> tf.Tensor:
    """`0 … stop - 1`, where TensorFlow puts them."""
    return tf.range(stop)


def asarray(x: Any, /, *, device: Any = None) -> tf.Tensor:
    """The numbers of a NumPy array, where TensorFlow puts them."""
    return tf.constant(x)


def full_like(x: tf.Tensor, value: float, /) -> tf.Tensor:
    """The value, in the shape and dtype of `x`."""
    return tf.fill(tf.shape(x), tf.cast(value, x.dtype))


def spread(by_offset: tf.Tensor, queries: int, keys: int, /) -> tf.Tensor | None:
    """Rows that overlap, written by one copy to new memory; None where code is traced, or a gradient is to reach them."""
    if not (memory.runs_at_once() and memory.is_here(by_offset)) or memory.is_followed(by_offset):
        return None
    spread = memory.empty((by_offset.shape[0], queries, keys), by_offset.dtype) if by_offset.dtype == float32 else None
    if spread is not None:
        memory.write(rows_that_overlap(by_offset.numpy(), queries, keys), spread)
    return spread


def halves(x: tf.Tensor, /) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradient of a split is a concatenation, that of two slices two arrays of zeros and their sum."""
    first, second = tf.split(x, 2, axis=-1)
    return first, second


def shape(x: tf.Tensor, /) -> tuple[Any, ...]:
    """The sizes; a scalar tensor for each that is not known while `x` is traced."""
    return tuple(tf.shape(x)[axis] if size is None else size for axis, size in enumerate(x.shape))
