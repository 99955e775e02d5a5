"""TensorFlow's arrays, copies, gradients and compilers, for Keras."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

COMPILERS = {"compiled": tf.function, "XLA": partial(tf.function, jit_compile=True)}


def array(numbers: Any, dtype: str) -> Any:
    return tf.cast(tf.constant(numbers), dtype)


def to_numpy(x: Any) -> Any:
    return tf.cast(x, tf.float32).numpy()


def copy(x: Any) -> Any:
    """Copy into fresh memory; `tf.identity` shares the old."""
    return tf.raw_ops.DeepCopy(x=x)


def ready(result: Any) -> Any:
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both."""

    def both(q: Any, k: Any, to_q: Any, to_k: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k])
            rotated = function(q, k)
        return tape.gradient(rotated, [q, k], [to_q, to_k])

    return lambda: both(q, k, to_q, to_k)
