"""Scaling: how the frequencies of a rotary encoding are slowed for contexts longer than it was trained on."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal

from ._exact import Frequencies
from ._values import Value


@dataclass(frozen=True, kw_only=True)
class Scaling(Value):
    """A rule from frequencies to slower frequencies, and the factor that goes with it.

    A scaling keeps no state: whatever depends on the length of the sequence takes `seq_len`.
    """

    @abstractmethod
    def slowed(self, frequencies: Frequencies, *, base: float, seq_len: int | None) -> Frequencies:
        """The frequencies to use in place of the geometric ones, radians per position."""

    def attention_factor(self, seq_len: int | None) -> Decimal:
        """What cos and sin are multiplied by, so that scores grow by its square."""
        return Decimal(1)
