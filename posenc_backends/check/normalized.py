"""Signatures of functions that normalize queries and keys (QK-norm) beside their rotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from posenc_core._array_api.checks import check_type, shown
from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import QKNorm

from .candidates import Candidate, Float64s
from .signatures import Rotate, RotateQueriesAndKeys, Signature

NORMS = 2.0  # as many ulp as a rotation may be off, for the root mean square, its quotient and the weight


class Normalization(NamedTuple):
    """How a candidate normalizes queries and keys `(batch, heads, length, head_dim)`.

    Attributes:
        weights: of queries and of keys, or None for those without.
        epsilon, offset, order: as in `QKNorm`.
        axes: those of one mean.
        form: `"rms"`; of mistakes `"sum"`, without the division by the number of channels; `"outside"`, with epsilon
            added to the root; `"layer norm"`, with the mean subtracted; `"none"`.
        dtype: what the normalized numbers are rounded to; None for no rounding.
    """

    weights: tuple[Any, ...]
    epsilon: float
    offset: float
    order: str
    axes: tuple[int, ...]
    form: str = "rms"
    dtype: str | None = None

    def normalized(self, x: Float64s, number: int) -> Float64s:
        """Return queries (number 0) or keys (1) normalized."""
        if self.form == "none":
            return x
        if self.form == "layer norm":
            x = x - x.mean(self.axes, keepdims=True)
        mean = (x * x).sum(self.axes, keepdims=True) if self.form == "sum" else (x * x).mean(self.axes, keepdims=True)
        root = np.sqrt(mean) + self.epsilon if self.form == "outside" else np.sqrt(mean + self.epsilon)
        result, weight = x / root, self.weights[number]
        if weight is not None:
            result = result * (weight.reshape(-1, 1, x.shape[-1]) + self.offset)
        return result if self.dtype is None else ROUNDED[self.dtype](result).astype(np.float64)


def normalization_of(norm: QKNorm, weights: Mapping[str, Float64s]) -> Normalization:
    """Return the normalization of these settings and parameters."""
    axes = (-1,) if norm.num_heads is None else (-3, -1)
    own = tuple(weights.get(name) for name in ("q_weight", "k_weight"))
    return Normalization(own, norm.epsilon, norm.offset, norm.order, axes)


@dataclass(frozen=True)
class NormalizeAndRotate(RotateQueriesAndKeys):
    """`(q, k, positions) -> (q, k)`; tokens are of several sizes, so that epsilon shows."""

    norm: Any = None  # QKNorm

    def shapes(self, shape: tuple[int, int], heads: tuple[int, int], num_queries: int) -> list[tuple[int, ...]]:
        if self.norm.num_heads is not None:
            heads = self.norm.num_heads, self.norm.num_kv_heads or self.norm.num_heads
        return super().shapes(shape, heads, num_queries)

    def tokens(self, generator: np.random.Generator, shape: tuple[int, int], dtype: str, *more: Any) -> Any:
        sizes = 2.0 ** -(3 * (np.arange(shape[1]) % 4))[:, None]
        drawn = super().tokens(generator, shape, dtype, *more)
        return tuple(ROUNDED[dtype](x * sizes).astype(np.float64) for x in drawn)

    def results(self, candidate: Candidate, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        norm = candidate.norm
        if norm.order == "norm_first":
            tokens = tuple(norm.normalized(x, number) for number, x in enumerate(tokens))
            return super().results(candidate, tokens, width)
        rotated = super().results(candidate, tokens, width)
        return tuple(norm.normalized(x, number) for number, x in enumerate(rotated))

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        if candidate.norm.order == "norm_first":
            return NORMS * super().magnitudes(candidate, results)
        return np.broadcast_to(NORMS * np.abs(results).max(axis=-1, keepdims=True), results.shape)

    @property
    def sums(self) -> float:
        return NORMS


class NormalizeAndTurn(NormalizeAndRotate):
    """`(x, positions) -> x`, with the weight of queries."""

    name: ClassVar[str] = "turn"
    outputs: ClassVar[tuple[str, ...]] = ("result",)


def with_norm(signature: Signature, norm: QKNorm) -> Signature:
    """Return the signature of a function that also normalizes.

    Raises:
        TypeError: if it is no `QKNorm`.
        ValueError: unless the function rotates heads of this width.
    """
    check_type("qk_norm", norm, QKNorm, "a QKNorm or None")
    if not isinstance(signature, RotateQueriesAndKeys) or norm.head_dim != signature.encoding.head_dim:
        raise ValueError(
            f"`qk_norm` must have the `head_dim` of a rotary encoding that is checked in the form 'rotation' or "
            f"'turn', got {shown(norm)}."
        )
    kind = NormalizeAndTurn if isinstance(signature, Rotate) else NormalizeAndRotate
    return kind(signature.encoding, norm)
