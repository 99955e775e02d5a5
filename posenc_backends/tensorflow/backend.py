"""TensorFlow tensors: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import tensorflow as tf

from posenc_core import register_namespace

from . import namespace

register_namespace(tf.Tensor, namespace)
register_namespace(tf.Variable, namespace)


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> tf.Tensor:
    """A tensor of the same numbers, which outlives the graph that may be under way; TensorFlow moves it to `like`."""
    with tf.init_scope():
        return tf.constant(array)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of a tensor; bfloat16, which NumPy lacks, becomes float32."""
    tensor = tf.convert_to_tensor(array)
    return (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()


def is_traced(array: Any, /) -> bool:
    """Whether the numbers are unknown: in a `tf.function`, a Keras `fit`, or a `tf.data` pipeline."""
    return tf.is_symbolic_tensor(array) or not (tf.executing_eagerly() or isinstance(array, tf.Tensor))


def stop_gradient(array: Any, /) -> tf.Tensor:
    """The same numbers, through which no gradient flows."""
    return tf.stop_gradient(array)


def still(tensor: tf.Tensor, /) -> tf.Tensor:
    """A tensor that never learns, in a graph, which would work out the gradient of all that it is given."""
    return tensor if tf.executing_eagerly() else tf.stop_gradient(tensor)
