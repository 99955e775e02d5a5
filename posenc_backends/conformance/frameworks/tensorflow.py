"""What the conformance suite asks of TensorFlow, through Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

CONTRACTS = False  # whether compiled code may fuse a multiplication and an addition, rounding once
WARNINGS = ()


def cast(array: tf.Tensor, dtype: str) -> tf.Tensor:
    """The array in the dtype of this name."""
    return tf.cast(array, dtype)


def gradient(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The gradient of `sum(function(x) * weights)` with respect to `x`."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = function(x)
    return tf.convert_to_tensor(tape.gradient(result, x, weights))


def compiled(layer: Any) -> Callable[..., Any]:
    """The layer, as one graph."""
    return tf.function(layer)
