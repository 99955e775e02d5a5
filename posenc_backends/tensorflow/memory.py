"""The memory of eager tensors on the CPU: its address, and new tensors to write to."""

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
HERE = "/job:localhost/replica:0/task:0/device:CPU:0"  # of this process


def runs_at_once() -> bool:
    """Return whether operators run now, and nothing traces or intercepts them."""
    return tf.executing_eagerly() and not context.context().op_callbacks


def is_here(x: Any) -> bool:
    """Return whether `x` is an eager tensor in CPU memory."""
    return type(x) is Tensor and x.device == HERE


def is_followed(*tensors: Tensor) -> bool:
    """Return whether a tape or a forward accumulator follows one of the tensors."""
    return pywrap_tfe.TFE_Py_TapeSetPossibleGradientTypes(tensors) != 0


def empty(shape: Any, dtype: tf.DType) -> Tensor | None:
    """Return a new tensor in CPU memory, its numbers not set; None if it would lie elsewhere."""
    tensor = tf.raw_ops.Empty(shape=shape, dtype=dtype)
    return tensor if is_here(tensor) else None


def address_of(tensor: Tensor) -> int:
    """Return where the numbers of a tensor lie, once they have been computed; valid as long as the tensor lives."""
    capsule = tf.experimental.dlpack.to_dlpack(tensor)
    return ctypes.c_void_p.from_address(_pointer_in(capsule, b"dltensor")).value or 0


_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def write(numbers: npt.NDArray[Any], tensor: Tensor) -> None:
    """Copy an array of any strides to a new tensor of its shape and dtype, which nothing else uses yet."""
    there = (ctypes.c_char * (numbers.itemsize * math.prod(numbers.shape))).from_address(address_of(tensor))
    np.copyto(np.frombuffer(memoryview(there), numbers.dtype).reshape(numbers.shape), numbers)
