"""TensorFlow tensors, for the Keras backend; TensorFlow's layers are Keras's."""

from posenc_backends import require

require("tensorflow")

from . import kernel as kernels
from . import namespace
from .backend import from_numpy, is_traced, to_numpy

__all__ = ["from_numpy", "is_traced", "kernels", "namespace", "to_numpy"]
