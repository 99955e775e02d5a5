"""What the suite needs of array-api-strict: how to test a layer, and what its own tools do with one (modes)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends.conformance.known_failures import known_failures
from posenc_backends.conformance.tooling import copied, pickled

from ...strict.backend import namespace

KNOWN_FAILURES = known_failures("strict")
WARNINGS = ()


def cast(array: Any, dtype: str) -> Any:
    """The array in the dtype of this name."""
    return namespace.astype(array, getattr(namespace, dtype))


def eval_mode(layer: Any, dtype: str = "float32") -> Any:
    """The layer, which never trains. It computes in the dtype of its tokens."""
    return layer


def with_projections(layer: Any, matrices: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The attention layer, with these matrices (inputs × outputs) as its projections."""
    for name, matrix in matrices.items():
        getattr(layer, name).kernel = layer.backend.from_numpy(matrix)
    return layer


def with_parameters(layer: Any, numbers: dict[str, npt.NDArray[np.float32]]) -> Any:
    """The layer, with these numbers as its parameters of these names."""
    layer.set_tables(numbers)
    return layer


MODES = {"copied": copied, "pickled": pickled}
GRADIENT_MODES: dict[str, object] = {}
