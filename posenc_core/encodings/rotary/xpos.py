"""The rotary encoding whose scores decay with distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import check_number, shown
from ..._array_api.namespace import Array
from ...positions.sequences import LIMIT
from ...tables.sincos import LARGEST_EXPONENT, DType, Envelope, cos_sin
from ..base import Tables, Tabular
from .rotary import Rotary


@dataclass(frozen=True, kw_only=True, repr=False)
class XPos(Rotary):
    """`Rotary` with queries that shrink and keys that grow along the sequence, so that scores decay with distance.

    Pair i of a query at p is multiplied by `z ** ((p - center) / scale_base)`, `z = (2i / d + 0.4) / 1.4`, that of a
    key by the inverse. The center is a number, not the middle of each call's tokens, so that cached keys stay valid.
    Far from it, keys overflow float16 (at `exp(11)`) before float32 (at `exp(88)`).

    Args:
        scale_base: positions over which a pair shrinks by `z`.
        center: the position at which the factor is 1; it cancels out of the scores and only has to be near the tokens.
    Raises:
        ValueError: if `scale_base` is not above 0, or positions are so far from the center that float32 overflows.
    Source: Sun et al. 2022, section 3 (arXiv:2212.10554).

    >>> XPos(head_dim=2, layout="half", scale_base=1).rows([0, 1])["key_cos"]
    array([[1.       ],
           [1.8910581]], dtype=float32)
    """

    scale_base: float = 512
    center: float = 0

    def __post_init__(self, frequencies: Any) -> None:
        super().__post_init__(frequencies)
        check_number("scale_base", self.scale_base, above=0)
        check_number("center", self.center)
        if abs(self.center) > self.reach:
            raise ValueError(
                f"`center` must lie within {int(self.reach)} of 0, got {shown(self.center)}; a larger `scale_base` "
                "reaches farther."
            )
        if self.pairs < self.rotary_channels // 2:
            raise ValueError(f"`scaling` of XPos must leave no pair standing still, got {shown(self.scaling)}.")
        if self.precision != "exact":
            raise ValueError(f"`precision` of XPos must be 'exact', got {shown(self.precision)}.")

    table_names: ClassVar[tuple[str, ...]] = ("cos", "sin", "key_cos", "key_sin")
    keys_differ: ClassVar[bool] = True

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        """Return tables for queries, `cos` and `sin`, and for keys, `key_cos` and `key_sin`."""
        known = self._known(positions)
        return {
            name: table
            for prefix, sign in (("", 1), ("key_", -1))
            for name, table in zip((f"{prefix}cos", f"{prefix}sin"), self._enveloped(known, sign, dtype), strict=True)
        }

    def derivatives(self, positions: Any) -> Tables:
        """Return none: no gradient reaches the positions of XPos."""
        return {}

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        return Tabular.traced_rows(self, positions)

    def _cos_sin(
        self, positions: npt.NDArray[Any], _: Any, dtype: DType = np.float32, factor: Decimal | None = None
    ) -> tuple[Any, Any]:
        return self._enveloped(positions, 1, dtype)

    @property
    def limit(self) -> int:
        return min(int(self.center + self.reach) + 1, LIMIT)

    @property
    def reach(self) -> float:
        """The distance of a key from the center up to which float32 does not overflow."""
        return LARGEST_EXPONENT * self.scale_base / math.log(1.4 / 0.4)  # of the first pair, the fastest

    def _enveloped(self, positions: npt.NDArray[Any], sign: int, dtype: DType = np.float32) -> tuple[Any, Any]:
        farthest = np.abs(positions - self.center).max(initial=0)
        if farthest > self.reach:
            raise ValueError(
                f"`positions` must lie within {int(self.reach)} of `center` {self.center}, "
                f"got one {farthest:g} away; a larger `scale_base` reaches farther."
            )
        pairs = Fraction(self.rotary_channels, 2)
        bases = tuple((i / pairs + Fraction(2, 5)) / Fraction(7, 5) for i in range(self.rotary_channels // 2))
        envelope = Envelope.of_powers(bases, span=sign * self.scale_base, center=self.center)
        cos, sin = cos_sin(
            positions, self.exact_frequencies(), factor=self._factors()[0], envelope=envelope, dtype=dtype
        )
        return cos, -sin if self.direction == "inverse" else sin
