"""The backend of TensorFlow, for Keras: how tensors are made, read and traced."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import tensorflow as tf

from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace

register_namespace(tf.Tensor, namespace)
register_namespace(tf.Variable, namespace)


class TensorFlowBackend(Backend):
    """TensorFlow."""

    namespace = namespace
    array_types = (tf.Tensor, tf.Variable)

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> tf.Tensor:
        """Return a tensor that outlives the graph that may be under way; TensorFlow moves it to `like`."""
        with tf.init_scope():
            return tf.constant(array)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of a tensor, also where code is traced; bfloat16, which NumPy lacks, becomes float32."""
        with tf.init_scope():
            tensor = tf.convert_to_tensor(array)
            return (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()

    def is_traced(self, array: Any, /) -> bool:
        """Return whether values are unknown: in a `tf.function`, a Keras `fit`, or a `tf.data` pipeline."""
        return tf.is_symbolic_tensor(array) or not (tf.executing_eagerly() or isinstance(array, tf.Tensor))

    def stop_gradient(self, array: Any, /) -> tf.Tensor:
        """Return the same numbers without a gradient."""
        return tf.stop_gradient(array)

    def is_floating(self, x: Any, /) -> bool:
        """Return whether the tensor holds floating-point numbers."""
        return x.dtype.is_floating

    def shape(self, x: Any, /) -> tuple[Any, ...]:
        """Return the sizes; a scalar tensor for each that is not known while `x` is traced."""
        return namespace.shape(x)

    def as_constant(self, tensor: tf.Tensor, /) -> tf.Tensor:
        """Return a tensor that never learns: a graph would compute the gradient of everything that it is given."""
        return tensor if tf.executing_eagerly() else tf.stop_gradient(tensor)


BACKEND = TensorFlowBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
