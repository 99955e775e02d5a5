"""What every scaling is."""

from __future__ import annotations

import operator
from abc import abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from .._array_api.checks import check_integer
from .._values import V, Value
from ..tables._fixed_point import Frequencies

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class Scaling(Value):
    """A rule from frequencies to slower frequencies, and the factor that goes with it.

    A scaling keeps no state. One that depends on the length of the sequence says so by `max_seq_len`, and is another one
    `at` another length.
    """

    @property
    def max_seq_len(self) -> int | None:
        """How long a sequence may be for these frequencies to be the right ones; None: as long as it will."""
        return None

    def at(self, seq_len: int) -> Self:
        """The scaling for sequences of `seq_len` positions."""
        check_integer("seq_len", seq_len)
        return self

    def check(self, pairs: int) -> None:
        """Raise unless the scaling fits an encoding of so many frequencies."""

    def num_rotating_pairs(self, pairs: int) -> int:
        """How many of so many frequencies are not 0; they come first."""
        return pairs

    @abstractmethod
    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        """The frequencies to use in place of those given, radians per position."""

    def exact_attention_factor(self) -> Decimal:
        """The attention factor, which multiplies cos and sin, so that scores grow by its square; to 110 digits."""
        return Decimal(1)


def told(scaling: V, seq_len: int) -> V:
    """The scaling with this `seq_len`; itself where that changes nothing."""
    check_integer("seq_len", seq_len)
    other = replace(scaling, seq_len=operator.index(seq_len))  # type: ignore[call-arg]  # its callers have it
    return scaling if other == scaling else other


def check_lengths(original: int, seq_len: int | None) -> None:
    """Raise unless both are lengths; the second may be missing."""
    check_integer("original_max_position_embeddings", original, minimum=2)
    if seq_len is not None:
        check_integer("seq_len", seq_len)
