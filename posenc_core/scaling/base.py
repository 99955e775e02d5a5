"""The base class of scalings, and checks of their lengths."""

from __future__ import annotations

import operator
from abc import abstractmethod
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from .._array_api.checks import check_integer, check_number
from .._values import Value
from ..positions.sequences import LIMIT
from ..tables._fixed_point import Frequencies

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class Scaling(Value):
    """A rule that maps frequencies to lower ones, and its attention factor.

    A scaling has no state. If it depends on the length of the sequence, `max_seq_len` is the longest for which it is
    valid, and `at` returns the scaling for another length.
    """

    @property
    def max_seq_len(self) -> int | None:
        """The longest sequence for which these frequencies are valid; None if unlimited."""
        return None

    @property
    def longest(self) -> int | None:
        """The longest sequence that the frequencies are stretched to; None if the scaling does not determine it."""
        return None

    def at(self, seq_len: int) -> Self:
        """Return the scaling for sequences of `seq_len` positions."""
        check_integer("seq_len", seq_len)
        if "seq_len" not in self.__dataclass_fields__:
            return self
        other = replace(self, seq_len=operator.index(seq_len))  # type: ignore[call-arg]  # those with this field
        return self if other == self else other

    def check(self, pairs: int) -> None:
        """Raise ValueError unless the scaling fits an encoding with this number of frequencies, `pairs`."""

    def num_rotating_pairs(self, pairs: int) -> int:
        """Return how many of `pairs` frequencies are not 0; they come first."""
        return pairs

    @abstractmethod
    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        """Return the frequencies to use instead, in radians per position.

        Args:
            frequencies: those of the unscaled encoding, highest first.
            base: the base of the encoding, `rope_theta`.
        """

    def exact_attention_factor(self) -> Decimal:
        """Return the attention factor to 110 digits; it multiplies cos and sin, so scores grow by its square."""
        return Decimal(1)


@dataclass(frozen=True, kw_only=True, repr=False)
class FactorScaling(Scaling):
    """The base class of scalings by a factor.

    Args:
        factor: at least 1.
    """

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)


def stretched(original: int, factor: float) -> int | None:
    """Return the original length times a factor; None if that is not a length."""
    longest = original * float(factor)
    return int(longest) if longest <= LIMIT and longest.is_integer() else None


def check_factor(name: str, given: float | None, factor: Decimal) -> None:
    """Raise unless float32 can represent the attention factor that follows from `given`."""
    if not Decimal.from_float(2.0**-126) <= factor < Decimal(2**127):  # exact, whatever the precision of the caller
        raise ValueError(
            f"`{name}` must give an attention factor from 2**-126 to 2**127, got {given!r}, which gives {factor:.3g}."
        )


def check_lengths(original: int, seq_len: int | None) -> None:
    """Raise unless the original length is at least 2 and `seq_len` at least 1 or None."""
    check_integer("original_max_position_embeddings", original, minimum=2)
    if seq_len is not None:
        check_integer("seq_len", seq_len)
