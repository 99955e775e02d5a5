"""Rotations by the kernel that rooms share, where TensorFlow would run its operators at once, on the processor; in graphs by its operators, and back."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import tensorflow as tf

from posenc_backends._kernels import NAMES, SMALLEST, Memory, threads_of_process, turn
from posenc_core._array_api.kernels import Kernel, register_kernel
from posenc_core.rotation import Pairing, rotate_pairs, rotate_reference

from .memory import Tensor, address_in, empty, is_followed, is_here, runs_at_once

KINDS = {getattr(tf, name): name for name in NAMES}


def supports(x: Tensor) -> bool:
    """Whether nobody traces or intercepts operators, and the numbers lie in memory."""
    return runs_at_once() and x.shape.num_elements() >= SMALLEST and x.dtype in KINDS and is_here(x)


def turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing, out: Tensor | None = None) -> Tensor | None:
    """`x`, turned; None where a gradient is to reach a table, the result to go to a given place, or operators to run elsewhere."""
    if out is not None or not (is_here(cos) and is_here(sin)):
        return None
    if is_followed(x, cos, sin):
        return None if is_followed(cos, sin) else _recorded(x, cos, sin, pairing)
    wide = tf.float64 if x.dtype == tf.float64 else tf.float32
    cos, sin = (table if table.dtype == wide else tf.cast(table, wide) for table in (cos, sin))
    result = empty(x.shape, x.dtype)
    if result is None:
        return None
    told = [tf.experimental.dlpack.to_dlpack(tensor) for tensor in (x, result, cos, sin)]
    of_x, of_result, of_cos, of_sin = map(_memory, told, (x, result, cos, sin))
    memory, threads = (of_x, of_result, of_cos, of_sin), _threads_told() or threads_of_process()
    return result if turn(KINDS[x.dtype], pairing, threads, memory, fresh=True) else None


def _recorded(x: Tensor, cos: Tensor, sin: Tensor, pairing: Pairing) -> Tensor:
    """Its gradient is turned back; of all that it has seen it keeps the tables."""

    @tf.custom_gradient
    def turning(x: Tensor) -> tuple[Tensor, Any]:
        def gradient(given: Tensor) -> Tensor:
            return rotate_pairs(tf.convert_to_tensor(given), cos, -sin, pairing=pairing.inverse)

        return rotate_pairs(tf.stop_gradient(x), cos, sin, pairing=pairing), gradient

    return turning(x)


def _memory(capsule: Any, tensor: Tensor) -> Memory:
    """Where the numbers lie, of which the capsule tells."""
    shape = tuple(tensor.shape.as_list())
    return address_in(capsule), (shape, tuple([math.prod(shape[axis + 1 :]) for axis in range(len(shape))]))


@cache  # once there are tensors, TensorFlow lets nobody change it
def _threads_told() -> int:
    """How many threads TensorFlow was told that an operator may have; 0 where it was told nothing."""
    told: int = tf.config.threading.get_intra_op_parallelism_threads()
    return told


def turned_in_graph(x: Any, cos: Any, sin: Any, pairing: Pairing, out: Any = None) -> Any:
    """`x`, turned by operators; its gradient is turned back, where TensorFlow would take each operator back by itself."""
    if out is not None:
        return None

    @tf.custom_gradient
    def turning(x: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        def gradient(slices: Any) -> tuple[Any, Any, Any]:
            given = tf.convert_to_tensor(slices)
            back = rotate_pairs(given, cos, -sin, pairing=pairing.inverse)
            with tf.GradientTape() as tape:
                tape.watch((cos, sin))
                product = rotate_reference(x, cos, sin, pairing)
            return back, *tape.gradient(product, (cos, sin), given)

        return rotate_reference(x, cos, sin, pairing), gradient

    return turning(x, cos, sin)


register_kernel(Tensor, Kernel(supports, turned))
register_kernel(tf.__internal__.SymbolicTensor, Kernel(lambda x: True, turned_in_graph))
