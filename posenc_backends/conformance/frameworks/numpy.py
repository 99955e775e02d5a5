"""Test layers of NumPy: helpers of the suite, and modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import Mode, copied, pickled

KNOWN_FAILURES = known_failures("numpy")
WARNINGS = ()


def cast(array: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return the array in the dtype of this name."""
    return array.astype(np.dtype(dtype))


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """Return the layer as it is: it never trains, and computes in the dtype of its tokens."""
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the projections of an attention layer to these matrices (inputs × outputs), and return the layer."""
    for name, matrix in matrices.items():
        getattr(layer, name).kernel = layer.backend.from_numpy(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """Set the layer's parameters of these names, and return the layer."""
    layer.set_tables(numbers)
    return layer


MODES: dict[str, Mode] = {"copied": copied, "pickled": pickled}
GRADIENT_MODES: dict[str, Mode] = {}
