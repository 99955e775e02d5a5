"""Scalings by how many turns a frequency makes within the original length."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_number
from ..tables._fixed_point import TWO_PI, Frequencies, high_precision
from .base import Scaling, check_lengths


@dataclass(frozen=True, kw_only=True, repr=False)
class YaRN(Scaling):
    """Frequencies that make many turns within the original length are kept, those that make few are divided by `factor`.

    Args:
        factor: at least 1.
        original_max_position_embeddings: the length L0 that the model was trained on.
        beta_fast: turns within L0 from which on a frequency is kept.
        beta_slow: turns within L0 up to which a frequency is divided by `factor`.
        mscale, mscale_all_dim: if neither is missing or 0, the attention factor is `g(mscale) / g(mscale_all_dim)` with
            `g(m) = 0.1 * m * ln(factor) + 1`; else it is `g(1)`.
        attention_factor: if given, the attention factor whatever the others say.
        truncate: whether the bounds of the ramp between the two are widened to whole indices.
    Raises:
        ValueError: if a number is not finite or too small, or `beta_fast` is below `beta_slow`.
    Source: Peng et al. 2023, sections 3.2 and 3.3 (arXiv:2309.00071v3); ramp, bounds and factors as in Hugging Face's
        `yarn`.
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32
    beta_slow: float = 1
    mscale: float | None = None
    mscale_all_dim: float | None = None
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)
        check_lengths(self.original_max_position_embeddings, None)
        for name in ("beta_fast", "beta_slow"):
            check_number(name, getattr(self, name), above=0)
        if self.beta_fast < self.beta_slow:
            raise ValueError(f"`beta_fast` must be at least `beta_slow` {self.beta_slow!r}, got {self.beta_fast!r}.")
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), minimum=0)
        if self.attention_factor is not None:
            check_number("attention_factor", self.attention_factor, above=0)
        if type(self.truncate) is not bool:
            raise TypeError(f"`truncate` must be True or False, got {self.truncate!r}.")

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            low, high = self.ramp(len(frequencies), base)
            slow = [min(max((i - low) / (high - low), Decimal(0)), Decimal(1)) for i in range(len(frequencies))]
            factor = Decimal(self.factor)
            return tuple(f / factor * s + f * (1 - s) for f, s in zip(frequencies, slow, strict=True))

    def ramp(self, pairs: int, base: float) -> tuple[Decimal, Decimal]:
        """The index up to which frequencies are kept, and that from which on they are divided by `factor`."""
        with high_precision():
            low, high = (self._index_of(turns, pairs, base) for turns in (self.beta_fast, self.beta_slow))
            if self.truncate:
                low, high = low.to_integral_value("ROUND_FLOOR"), high.to_integral_value("ROUND_CEILING")
            low, high = max(low, Decimal(0)), min(high, Decimal(2 * pairs - 1))
            return low, high + Decimal("0.001") if low == high else high

    def _index_of(self, turns: float, pairs: int, base: float) -> Decimal:
        """The index, not rounded, of the frequency that makes this many turns within the original length."""
        longest = self.original_max_position_embeddings / (TWO_PI * Decimal(turns))
        return pairs * longest.ln() / Decimal(base).ln()

    def exact_attention_factor(self) -> Decimal:
        with high_precision():
            if self.attention_factor is not None:
                return Decimal(self.attention_factor)
            if self.mscale and self.mscale_all_dim:
                return self.growth(self.mscale) / self.growth(self.mscale_all_dim)
            return self.growth(1)

    def growth(self, scale: float) -> Decimal:
        """`0.1 * scale * ln(factor) + 1`: what the attention factors of the paper and of DeepSeek are made of."""
        with high_precision():
            return Decimal(scale) * Decimal(self.factor).ln() / 10 + 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Llama3(Scaling):
    """Wavelengths above `L0 / low_freq_factor` are stretched by `factor`, those below `L0 / high_freq_factor` kept.

    Between the two, frequencies are blended; where the two factors are equal there is no between.

    Args:
        factor: at least 1.
        low_freq_factor, high_freq_factor: above 0, the first not above the second.
        original_max_position_embeddings: the length L0 that the model was trained on.
    Source: `apply_scaling` of Meta's code of Llama 3.1, as in Hugging Face's `llama3`.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)
        check_number("low_freq_factor", self.low_freq_factor, above=0)
        check_number("high_freq_factor", self.high_freq_factor, minimum=self.low_freq_factor)
        check_lengths(self.original_max_position_embeddings, None)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            return tuple(frequency * self._share(frequency) for frequency in frequencies)

    def _share(self, frequency: Decimal) -> Decimal:
        """What is left of a frequency: all, `1 / factor`, or a blend."""
        turns = self.original_max_position_embeddings * frequency / TWO_PI  # within the original length
        low, high, factor = map(Decimal, (self.low_freq_factor, self.high_freq_factor, self.factor))
        if turns > high:
            return Decimal(1)
        if turns < low or low == high:
            return 1 / factor if turns < low else Decimal(1)
        kept = (turns - low) / (high - low)
        return (1 - kept) / factor + kept
