"""The scaling of Llama 3.1, by the number of turns within the original length."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_number
from ..tables._fixed_point import TWO_PI, Frequencies, high_precision
from .base import FactorScaling, check_lengths


@dataclass(frozen=True, kw_only=True, repr=False)
class Llama3(FactorScaling):
    """Multiply wavelengths above `L0 / low_freq_factor` by `factor`, and keep those below `L0 / high_freq_factor`.

    Frequencies between the two are blended.

    Args:
        factor: the divisor of frequencies that make few turns, at least 1: the longest length divided by L0.
        low_freq_factor, high_freq_factor: above 0, the first at most the second.
        original_max_position_embeddings: the length L0 that the model was trained on.
    Source: `apply_scaling` of Meta's code of Llama 3.1, as in Hugging Face's `llama3`.
    """

    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("low_freq_factor", self.low_freq_factor, above=0)
        check_number("high_freq_factor", self.high_freq_factor, minimum=self.low_freq_factor)
        check_lengths(self.original_max_position_embeddings, None)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            return tuple(frequency * self._weight(frequency) for frequency in frequencies)

    def _weight(self, frequency: Decimal) -> Decimal:
        """Return the number that multiplies a frequency: 1, `1 / factor`, or a blend of the two."""
        turns = self.original_max_position_embeddings * frequency / TWO_PI  # within the original length
        low, high, factor = map(Decimal, (self.low_freq_factor, self.high_freq_factor, self.factor))
        if turns > high:
            return Decimal(1)
        if turns < low:
            return 1 / factor
        kept = (turns - low) / (high - low)
        return (1 - kept) / factor + kept
