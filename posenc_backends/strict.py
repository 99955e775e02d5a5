"""The strict backend: the NumPy backend on array-api-strict, which has nothing but what the array API standard has."""

from __future__ import annotations

from typing import Any

from posenc_backends import require

require("array_api_strict", extra="strict")

import array_api_strict
import numpy as np
import numpy.typing as npt

from posenc_backends.numpy.backend import NumPyBackend
from posenc_core import namespace_of

from . import numpy as _plain

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "is_traced", "namespace", "to_numpy",
]  # fmt: skip

namespace = namespace_of(array_api_strict.empty(0))


class StrictBackend(NumPyBackend):
    """array-api-strict."""

    namespace = namespace
    array_types = type(array_api_strict.empty(0))

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> Any:
        """Return an array of the same numbers; `like` is for frameworks with devices."""
        return array_api_strict.asarray(array)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of an array."""
        return np.from_dlpack(array)


BACKEND = StrictBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced


class PositionalEncoding(_plain.PositionalEncoding):
    """`posenc_backends.numpy.PositionalEncoding` on array-api-strict."""

    backend = BACKEND


class RotaryEmbedding(_plain.RotaryEmbedding):
    """`posenc_backends.numpy.RotaryEmbedding` on array-api-strict."""

    backend = BACKEND


class AttentionBias(_plain.AttentionBias):
    """`posenc_backends.numpy.AttentionBias` on array-api-strict."""

    backend = BACKEND


class QueryScaling(_plain.QueryScaling):
    """`posenc_backends.numpy.QueryScaling` on array-api-strict."""

    backend = BACKEND


class QueryKeyNorm(_plain.layers.QueryKeyNorm):
    """The norm of queries and keys on array-api-strict."""

    backend = BACKEND


class MultiHeadAttention(_plain.MultiHeadAttention):
    """`posenc_backends.numpy.MultiHeadAttention` on array-api-strict."""

    backend = BACKEND
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm
