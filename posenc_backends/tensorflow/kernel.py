"""The fused CPU rotation for eager TensorFlow tensors; in graphs, operators with a cheap gradient."""

from __future__ import annotations

from functools import cache
from typing import Any

import tensorflow as tf

from posenc_backends._kernels import DTYPES, CpuKernel, Memory, contiguous, threads_of_process
from posenc_core._array_api.checks import check_floating
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, check_sizes, rotate_checked, rotate_reference

from .memory import Tensor, address_of, empty, is_followed, is_here, runs_at_once


def _memory(x: Any) -> Memory | None:
    if not is_here(x) or not x.dtype.is_floating:  # TensorFlow ends the process that asks where texts lie
        return None
    shape = tuple(x.shape.as_list())
    return address_of(x), (shape, contiguous(shape))


def _empty_like(x: Tensor) -> tuple[Tensor, int] | None:
    result = empty(x.shape, x.dtype)
    return None if result is None else (result, address_of(result))


def _differentiable(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
    """Rotate; the gradient is the rotation back, for which only the tables are kept."""

    @tf.custom_gradient
    def rotation(x: Tensor) -> tuple[Tensor, Any]:
        def gradient(given: Tensor) -> Tensor:
            return rotate_checked(tf.convert_to_tensor(given), cos, -sin, pairing.inverse)

        return rotate_checked(tf.stop_gradient(x), cos, sin, pairing), gradient

    return rotation(x)


@cache  # it cannot change once there are tensors
def _threads_of_tensorflow() -> int:
    """Return how many threads TensorFlow lets an operator have; 0 by default."""
    return tf.config.threading.get_intra_op_parallelism_threads()


def rotate_in_graph(x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
    """Rotate by operators; the gradient is the rotation back, where TensorFlow would differentiate each operator."""
    if out is not None:
        return None
    check_floating("cos", cos)
    check_floating("sin", sin)
    check_sizes(tuple(x.shape), tuple(cos.shape), tuple(sin.shape), pairing)

    @tf.custom_gradient
    def rotation(x: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        def gradient(slices: Any) -> tuple[Any, Any, Any]:
            given = tf.convert_to_tensor(slices)
            back = rotate_checked(given, cos, -sin, pairing.inverse)
            with tf.GradientTape() as tape:
                tape.watch((cos, sin))
                product = rotate_reference(x, cos, sin, pairing)
            return back, *tape.gradient(product, (cos, sin), given)

        return rotate_reference(x, cos, sin, pairing), gradient

    return rotation(x, cos, sin)


CpuKernel(
    dtypes={getattr(tf, name): name for name in DTYPES},
    is_eager=lambda x: runs_at_once(),
    memory=_memory,
    empty_like=_empty_like,
    cast=tf.cast,
    is_followed=is_followed,
    is_learned=is_followed,
    differentiable=_differentiable,
    may_take=lambda out: False,
    threads=lambda: _threads_of_tensorflow() or threads_of_process(),
).register(Tensor)
register_kernel(tf.__internal__.SymbolicTensor, Kernel(lambda x: x.dtype.is_floating, rotate_in_graph))
