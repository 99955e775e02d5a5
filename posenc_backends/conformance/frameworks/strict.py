"""Test layers of array-api-strict: helpers of the suite, and modes."""

from __future__ import annotations

from typing import Any

from posenc_backends.conformance.known_failures import known_failures

from ...strict import namespace
from .numpy import GRADIENT_MODES, MODES, WARNINGS, eval_mode, with_parameters, with_projections

__all__ = [
    "GRADIENT_MODES", "KNOWN_FAILURES", "MODES", "WARNINGS", "cast", "eval_mode", "with_parameters",
    "with_projections",
]  # fmt: skip

KNOWN_FAILURES = known_failures("strict")


def cast(array: Any, dtype: str) -> Any:
    """Return the array in the dtype of this name."""
    return namespace.astype(array, getattr(namespace, dtype))
