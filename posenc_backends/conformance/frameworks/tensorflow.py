"""What the suite needs of TensorFlow: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from posenc_backends.conformance.tooling import LayerCase, Run

KNOWN_FAILURES: dict[str, str] = {}
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


def of_unknown_sizes(layer_case: LayerCase, folder: Path) -> Run:
    """In a `tf.function` of unknown sizes."""
    layer = layer_case.layer()
    return tf.function(partial(layer_case.call, layer), input_signature=signature(layer_case))


def mapped(layer_case: LayerCase, folder: Path) -> Run:
    """In a `tf.data` pipeline, through which tokens of any length come."""
    layer = layer_case.layer()
    waiting: list[tuple[Any, ...]] = []

    def arrived() -> Iterator[Any]:
        while waiting:
            yield waiting.pop()

    tokens = tf.data.Dataset.from_generator(arrived, output_signature=signature(layer_case))
    results = tokens.map(partial(layer_case.call, layer))

    def run(*arrays: Any) -> Any:
        waiting.append(arrays)
        return next(iter(results))

    return run


def gradient_of_unknown_sizes(layer_case: LayerCase, folder: Path) -> Run:
    """The gradient in a `tf.function` of unknown sizes."""
    layer, given = layer_case.layer(), signature(layer_case)

    @tf.function(input_signature=(tf.TensorSpec(given[0].shape, given[0].dtype), *given))
    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        return gradient(lambda x: layer_case.call(layer, x, *arrays), x, weights)

    return run


def signature(layer_case: LayerCase) -> tuple[tf.TensorSpec, ...]:
    """The arrays of a call, of any length."""
    given = zip(layer_case.arrays(), layer_case.sizes, strict=True)
    return tuple(tf.TensorSpec(_unknown(x.shape, axes), x.dtype) for x, axes in given)


def _unknown(sizes: Any, axes: tuple[int, ...]) -> list[int | None]:
    lengths = {axis % len(sizes) for axis in axes}
    return [None if axis in lengths else size for axis, size in enumerate(sizes)]


MODES = {"tf.function": of_unknown_sizes, "tf.data": mapped}
GRADIENT_MODES = {"tf.function": gradient_of_unknown_sizes}
