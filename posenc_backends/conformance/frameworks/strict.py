"""What the conformance suite asks of array-api-strict: no more than to evaluate."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...strict.backend import namespace

WARNINGS = ()


def cast(array: Any, dtype: str) -> Any:
    """The array in the dtype of this name."""
    return namespace.astype(array, getattr(namespace, dtype))


def evaluated(layer: Any, dtype: str = "float32") -> Any:
    """The layer, which never trains. It computes in the dtype of its tokens."""
    return layer


def filled(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).kernel = layer.room.from_numpy(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    layer.hold(numbers)
    return layer
