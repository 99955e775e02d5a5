"""The rotary encoding whose tokens are magnitudes (PoPE)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_integer, check_rank, is_static, shown
from ..._array_api.namespace import Array, Weights, aligned, in_float32, namespace_of
from ...rotation import Pairing
from ...tables.sincos import DType, Table
from ..attention_encoding import QueryKeyEncoding
from ..base import Parameter, Tables, TokenRows
from .rotary import Rotary

TURN = 2 * math.pi


@dataclass(frozen=True, kw_only=True, repr=False)
class PoPE(QueryKeyEncoding):
    """Polar positional embedding: each channel is a magnitude, and its position alone is the angle.

    Channel c of a query at t becomes softplus(q) at the angle t * w_c, that of a key at s softplus(k) at the angle
    s * w_c + phase_c, so that the score of both is the sum of softplus(q) softplus(k) cos((s - t) w_c + phase_c). There
    is one frequency `base ** (-c / head_dim)` for each channel, and a learned phase (the bias of the paper) for each
    channel of each head of keys, in radians, which counts as 0 above 0, and as -2 pi below it. Phases start at 0.

    The results are twice as wide as queries and keys: all products with the cosine, then all with the sine.
    `MultiHeadAttention` still divides scores by the root of `head_dim`. Angles come from an exact table; a layer adds
    the phases by the addition theorem, in float32.

    Args:
        head_dim: number of channels of queries and keys.
        num_heads: number of heads of the keys.
        base: the geometric base of the frequencies.
    Raises:
        TypeError: if an argument is not a number.
        ValueError: if an argument is out of range.
    Source: Gopalakrishnan et al. 2025, section 3 (arXiv:2509.10534).

    >>> PoPE(head_dim=4, num_heads=2).frequencies()
    array([1.   , 0.1  , 0.01 , 0.001])
    >>> PoPE(head_dim=4, num_heads=2).parameters()
    {'phase': Parameter(shape=(2, 4), std=0.0, mean=0.0)}
    """

    head_dim: int
    num_heads: int
    base: float = 10000
    rotary: Rotary = field(init=False)  # of magnitudes with zeros behind them

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("head_dim", self.head_dim, maximum=WIDEST // 2)
        check_integer("num_heads", self.num_heads, maximum=WIDEST)
        object.__setattr__(self, "rotary", Rotary(head_dim=2 * self.head_dim, layout="half", base=self.base))

    table_names: ClassVar[tuple[str, ...]] = ("cos", "sin")
    keys_differ: ClassVar[bool] = True
    widening: ClassVar[int] = 2

    @property
    def query_rotations(self) -> int:
        return self.widening

    @property
    def pairing(self) -> Pairing:
        """Which channels of a result belong together: the product with the cosine, and that with the sine."""
        return self.rotary.pairing

    def check_heads(self, num_heads: int) -> None:
        if self.num_heads != num_heads:
            raise ValueError(f"`position` must have `num_heads` {num_heads}, those of keys, got {shown(self)}.")

    def frequencies(self) -> npt.NDArray[np.float64]:
        """Return radians per position, one for each channel, float64, shape `(head_dim,)`."""
        return self.rotary.frequencies()

    def cos_sin(self, positions: Any, dtype: DType = np.float32) -> tuple[Table, Table]:
        """Return cosine and sine of the angles of queries: `(..., length) -> (..., length, head_dim)` each.

        Arguments and errors are those of `Rotary.cos_sin`.
        """
        return self.rotary.cos_sin(positions, dtype=dtype)

    def plain_rope(self) -> Rotary:
        return self.rotary

    head_axes: ClassVar[Mapping[str, int]] = {"phase": 0}

    def parameters(self) -> dict[str, Parameter]:
        return {"phase": Parameter(shape=(self.num_heads, self.head_dim), std=0.0)}

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        return self.rotary.rows(positions, dtype)

    def derivatives(self, positions: Any) -> Tables:
        return self.rotary.derivatives(positions)

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        return self.rotary.angular_frequencies()

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        return self.rotary.traced_rows(positions)

    def apply(self, x: Array, at: TokenRows) -> Array:
        """Return queries or keys as magnitudes at angles, twice as wide; no pair is rotated."""
        axis = at.seq_axis % len(x.shape) - len(x.shape)
        of_tokens = self.queries_of
        if at.keys:
            self.check_keys(x, axis, at.weights["phase"])
            of_tokens = partial(self.keys_of, weights=at.weights, seq_axis=axis)
        polar: Array = in_float32(of_tokens, x, *[aligned(row, x, seq_axis=axis) for row in at.rows])
        return polar

    def queries_of(self, x: Array, cos: Array, sin: Array) -> Array:
        """Return queries as magnitudes at angles: `(..., head_dim) -> (..., 2 * head_dim)`.

        Args:
            x: queries, of float32 or float64.
            cos, sin: rows of the table that broadcast to `x`.
        """
        xp, magnitudes = namespace_of(x), softplus(x)
        return xp.concat([magnitudes * cos, magnitudes * sin], axis=-1)

    def keys_of(self, x: Array, cos: Array, sin: Array, weights: Weights, *, seq_axis: int = -2) -> Array:
        """Return keys as magnitudes at angles with the phases of their heads.

        Arguments as in `queries_of`, and:

        Args:
            weights: the parameters of a layer, by name.
            seq_axis: the axis of the sequence, -2 or -3; the other one of these has the heads.
        """
        xp: Any = namespace_of(x)
        phase = xp.astype(weights["phase"], x.dtype)
        lowest = xp.full_like(phase, -TURN)
        phase = xp.where(phase < lowest, lowest, phase)  # not `maximum`, whose gradient at the bounds differs
        phase = xp.where(phase > xp.zeros_like(phase), xp.zeros_like(phase), phase)
        if seq_axis == -2:
            phase = xp.expand_dims(phase, axis=-2)
        along, across = xp.cos(phase), xp.sin(phase)
        return self.queries_of(x, cos * along - sin * across, sin * along + cos * across)

    def check_keys(self, k: Array, seq_axis: int = -2, phase: Any = None) -> None:
        """Raise unless keys have the heads of the encoding, or of the `phase` given, beside their sequence."""
        check_rank("k", k, minimum=3, axes="(..., heads, length, head_dim)")
        if seq_axis not in (-2, -3):
            raise ValueError(f"`seq_axis` must be -2 or -3, beside the heads of {shown(self)}, got {seq_axis}.")
        heads, own = k.shape[-5 - seq_axis], phase.shape[0] if hasattr(phase, "shape") else self.num_heads
        if is_static(heads) and heads != own:
            raise ValueError(f"`k` must have the {own} heads of {shown(self)}, got shape {tuple(k.shape)}.")


def softplus(x: Array) -> Array:
    """Return `log(1 + exp(x))`, which does not overflow; its derivatives of all orders are right, also at 0."""
    xp: Any = namespace_of(x)
    zeros = xp.zeros_like(x)
    is_positive = x > zeros
    return xp.where(is_positive, x, zeros) + xp.log1p(xp.exp(xp.where(is_positive, -x, x)))
