"""Test layers of Keras on TensorFlow: the helpers that depend on TensorFlow, and its own modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from posenc_backends.conformance.tooling import LayerCase, Mode, Run, eager

KNOWN_FAILURES: dict[str, str] = {}
WARNINGS = ()
CONTRACTS = False  # compiled code never fuses a multiplication and an addition


def cast(array: tf.Tensor, dtype: str) -> tf.Tensor:
    """Return the array in the dtype of this name."""
    return tf.cast(array, dtype)


def gradient(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return the gradient of `sum(function(x) * weights)` with respect to `x`."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = function(x)
    return tf.convert_to_tensor(tape.gradient(result, x, weights))


def compiled(layer: Any) -> Callable[..., Any]:
    """Return the layer as one graph."""
    return tf.function(layer)


def in_function(case: LayerCase, folder: Path) -> Run:
    """Call the layer in a `tf.function` of unknown sizes."""
    return tf.function(eager(case, folder), input_signature=_signature(case))


def in_dataset(case: LayerCase, folder: Path) -> Run:
    """Map the layer over a `tf.data` pipeline with tokens of any length."""
    waiting: list[tuple[Any, ...]] = []

    def arrivals() -> Iterator[Any]:
        while waiting:
            yield waiting.pop()

    tokens = tf.data.Dataset.from_generator(arrivals, output_signature=_signature(case))
    results = tokens.map(eager(case, folder))

    def run(*arrays: Any) -> Any:
        waiting.append(arrays)
        return next(iter(results))

    return run


def gradient_in_function(case: LayerCase, folder: Path) -> Run:
    """Compute the gradient in a `tf.function` of unknown sizes."""
    layer, signature = case.layer(), _signature(case)

    @tf.function(input_signature=(tf.TensorSpec(signature[0].shape, signature[0].dtype), *signature))
    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        return gradient(lambda x: case.call(layer, x, *arrays), x, weights)

    return run


def _signature(case: LayerCase) -> tuple[tf.TensorSpec, ...]:
    """Return the arrays of a call, of any length."""
    return tuple(tf.TensorSpec(shape, x.dtype) for x, shape in zip(case.arrays(), case.shapes(), strict=True))


MODES: dict[str, Mode] = {"tf.function": in_function, "tf.data": in_dataset}
GRADIENT_MODES: dict[str, Mode] = {"tf.function": gradient_in_function}
