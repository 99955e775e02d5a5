"""Memory of eager tensors on the processor: where it lies, and that of new ones, which others write to."""

from __future__ import annotations

import ctypes
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context

Tensor: TypeAlias = tf.__internal__.EagerTensor
HERE = "/job:localhost/replica:0/task:0/device:CPU:0"  # of this process, on the processor


def runs_at_once() -> bool:
    """Whether nobody traces or intercepts operators."""
    return tf.executing_eagerly() and not context.context().op_callbacks


def is_here(x: Any) -> bool:
    """Whether its numbers lie in memory."""
    return type(x) is Tensor and x.device == HERE


def is_followed(*tensors: Tensor) -> bool:
    """Whether a tape watches one of them, or a tangent belongs to it."""
    return pywrap_tfe.TFE_Py_TapeSetPossibleGradientTypes(tensors) != 0


def empty(shape: Any, dtype: tf.DType) -> Tensor | None:
    """A tensor that nobody has seen yet, in memory of TensorFlow's own; None where it would lie elsewhere."""
    tensor = tf.raw_ops.Empty(shape=shape, dtype=dtype)
    return tensor if is_here(tensor) else None


def address_in(capsule: Any) -> int:
    """Where the numbers lie that a capsule of DLPack tells of; it must live as long as they are used."""
    return ctypes.c_void_p.from_address(_pointer_in(capsule, b"dltensor")).value or 0


_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def write(numbers: npt.NDArray[Any], tensor: Tensor) -> None:
    """Copy an array of any strides to a tensor of its shape and dtype that nobody has seen yet."""
    capsule = tf.experimental.dlpack.to_dlpack(tensor)
    there = (ctypes.c_char * (numbers.itemsize * math.prod(numbers.shape))).from_address(address_in(capsule))
    np.copyto(np.frombuffer(memoryview(there), numbers.dtype).reshape(numbers.shape), numbers)
