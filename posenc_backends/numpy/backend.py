"""NumPy arrays: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core import namespace_of

namespace = namespace_of(np.empty(0))


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> npt.NDArray[Any]:
    """The array itself; `like` is for frameworks with devices."""
    return array


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The array itself."""
    return np.asarray(array)


def is_traced(array: Any, /) -> bool:
    """Never: NumPy knows its numbers."""
    return False


def stop_gradient(array: Any, /) -> npt.NDArray[Any]:
    """The array itself: NumPy has no gradient."""
    return array
