"""Modes: what TensorFlow's own tools do with a layer of the Keras room, beside Keras's models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from posenc_backends.conformance.tooling import Run, Specimen


def of_unknown_sizes(specimen: Specimen, folder: Path) -> Run:
    """In a `tf.function` of unknown sizes."""
    layer = specimen.layer()
    return tf.function(partial(specimen.call, layer), input_signature=signature(specimen))


def mapped(specimen: Specimen, folder: Path) -> Run:
    """In a `tf.data` pipeline, through which tokens of any length come."""
    layer = specimen.layer()
    waiting: list[tuple[Any, ...]] = []

    def arrived() -> Iterator[Any]:
        while waiting:
            yield waiting.pop()

    tokens = tf.data.Dataset.from_generator(arrived, output_signature=signature(specimen))
    results = tokens.map(partial(specimen.call, layer))

    def run(*arrays: Any) -> Any:
        waiting.append(arrays)
        return next(iter(results))

    return run


def gradient_of_unknown_sizes(specimen: Specimen, folder: Path) -> Run:
    """The gradient in a `tf.function` of unknown sizes."""
    layer, given = specimen.layer(), signature(specimen)

    @tf.function(input_signature=(tf.TensorSpec(given[0].shape, given[0].dtype), *given))
    def run(weights: Any, x: Any, *arrays: Any) -> Any:
        return specimen.on.harness.gradient(lambda x: specimen.call(layer, x, *arrays), x, weights)

    return run


def signature(specimen: Specimen) -> tuple[tf.TensorSpec, ...]:
    """The arrays of a call, of any length."""
    given = zip(specimen.arrays(), specimen.sizes, strict=True)
    return tuple(tf.TensorSpec(_unknown(x.shape, axes), x.dtype) for x, axes in given)


def _unknown(sizes: Any, axes: tuple[int, ...]) -> list[int | None]:
    lengths = {axis % len(sizes) for axis in axes}
    return [None if axis in lengths else size for axis, size in enumerate(sizes)]


MODES = {"tf.function": of_unknown_sizes, "tf.data": mapped}
GRADIENT_MODES = {"tf.function": gradient_of_unknown_sizes}
