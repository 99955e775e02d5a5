"""The backend of NumPy: how arrays are made and read. Nothing is traced, and nothing has a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core import namespace_of
from posenc_core.layers import Backend

namespace = namespace_of(np.empty(0))


class NumPyBackend(Backend):
    """NumPy."""

    namespace = namespace
    array_types: Any = np.ndarray

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> Any:
        """Return the array itself; `like` is for frameworks with devices."""
        return array

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the array itself."""
        return np.asarray(array)

    def is_traced(self, array: Any, /) -> bool:
        """Return False."""
        return False

    def stop_gradient(self, array: Any, /) -> Any:
        """Return the array itself."""
        return array

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> Any:
        """Return a projection whose weights are drawn at random."""
        return Linear(self, width, out, bias)


class Linear:
    """A projection: `x @ kernel + bias`."""

    def __init__(self, backend: Backend, width: int, out: int, bias: bool) -> None:
        drawn = np.random.default_rng().uniform(-1, 1, (width, out)) / np.sqrt(width)
        self.kernel = backend.from_numpy(drawn.astype(np.float32))
        self.bias = backend.from_numpy(np.zeros(out, np.float32)) if bias else None

    def __call__(self, x: Any) -> Any:
        y = x @ self.kernel
        return y if self.bias is None else y + self.bias


BACKEND = NumPyBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
