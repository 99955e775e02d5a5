"""Arrays of array-api-strict: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import numpy.typing as npt

from posenc_core import namespace_of

namespace = namespace_of(array_api_strict.empty(0))


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> Any:
    """An array of the same numbers; `like` is for frameworks with devices."""
    return array_api_strict.asarray(array)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of an array."""
    return np.from_dlpack(array)


def is_traced(array: Any, /) -> bool:
    """Never: array-api-strict knows its numbers."""
    return False


def stop_gradient(array: Any, /) -> Any:
    """The array itself: the standard has no gradient."""
    return array
