"""The backend of MLX: how arrays are made, read and traced."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx import nn

from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace

register_namespace(mx.array, namespace)


class MLXBackend(Backend):
    """MLX."""

    namespace = namespace
    array_types = mx.array
    compiles_each_length = True  # and to ask whether code is compiled would compute all that is pending

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> mx.array:
        """Return an array of the same numbers and dtype."""
        return namespace.asarray(array)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return a copy of the numbers of an array; bfloat16, which NumPy lacks, becomes float32."""
        return np.array(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)

    def is_traced(self, array: Any, /) -> bool:
        """Return whether values are unknown, as under `mx.compile` and `mx.vmap`; under `mx.grad` alone they are known.

        MLX tells only when an array is computed, so a pending one is.
        """
        try:
            mx.eval(array)
        except ValueError:
            return True
        return False

    def is_floating(self, x: Any, /) -> bool:
        """Return whether the array holds floating-point numbers."""
        return mx.issubdtype(x.dtype, mx.floating)

    def stop_gradient(self, array: Any, /) -> mx.array:
        """Return the same numbers without a gradient; MLX does not tell which arrays have one."""
        return mx.stop_gradient(array)

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> nn.Linear:
        """Return `mlx.nn.Linear`."""
        return nn.Linear(width, out, bias)

    def dropout(self, rate: float, /) -> nn.Dropout:
        """Return `mlx.nn.Dropout`."""
        return nn.Dropout(rate)


BACKEND = MLXBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
