"""YaRN: frequencies are scaled by the number of turns that they make within the original length."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_flag, check_number, shown
from ..tables._fixed_point import TWO_PI, Frequencies, high_precision
from .base import FactorScaling, check_factor, check_lengths, stretched


@dataclass(frozen=True, kw_only=True, repr=False)
class YaRN(FactorScaling):
    """Keep frequencies that make many turns within the original length, and divide those that make few by `factor`.

    Args:
        factor: the divisor of frequencies that make few turns, at least 1: the longest length divided by L0.
        original_max_position_embeddings: the length L0 that the model was trained on.
        beta_fast: frequencies with at least this number of turns within L0 are kept.
        beta_slow: frequencies with at most this number of turns within L0 are divided by `factor`. Between the two a
            linear ramp blends both.
        mscale, mscale_all_dim: if both are given and not 0, the attention factor is `g(mscale) / g(mscale_all_dim)`
            with `g(m) = 0.1 * m * ln(factor) + 1`; otherwise it is `g(1)`.
        attention_factor: overrides the attention factor.
        truncate: whether to widen the ramp to whole indices.
    Raises:
        TypeError: if `truncate` is not a boolean, or a number is of another type.
        ValueError: if a number is not finite or too small, or `beta_fast` is below `beta_slow`.
    Source: Peng et al. 2023, sections 3.2 and 3.3 (arXiv:2309.00071v3); ramp, bounds and factors as in Hugging Face's
        `yarn`.
    """

    original_max_position_embeddings: int
    beta_fast: float = 32
    beta_slow: float = 1
    mscale: float | None = None
    mscale_all_dim: float | None = None
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lengths(self.original_max_position_embeddings, None)
        for name in ("beta_fast", "beta_slow"):
            check_number(name, getattr(self, name), above=0)
        if self.beta_fast < self.beta_slow:
            raise ValueError(
                f"`beta_fast` must be at least `beta_slow` {shown(self.beta_slow)}, got {shown(self.beta_fast)}."
            )
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), minimum=0)
        if self.attention_factor is not None:
            check_number("attention_factor", self.attention_factor, above=0)
        check_flag("truncate", self.truncate)
        name = "mscale" if self.attention_factor is None else "attention_factor"
        check_factor(name, getattr(self, name), self.exact_attention_factor())

    @property
    def longest(self) -> int | None:
        return stretched(self.original_max_position_embeddings, self.factor)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            slow = tuple(frequency / Decimal(self.factor) for frequency in frequencies)
        return blended(frequencies, slow, self.ramp(len(frequencies), base))

    def ramp(self, pairs: int, base: float) -> tuple[Decimal, Decimal]:
        """Return the index up to which frequencies are kept, and the one from which they are divided by `factor`."""
        with high_precision():
            low, high = (self._index_of(turns, pairs, base) for turns in (self.beta_fast, self.beta_slow))
            if self.truncate:
                low, high = low.to_integral_value("ROUND_FLOOR"), high.to_integral_value("ROUND_CEILING")
            low, high = max(low, Decimal(0)), min(high, Decimal(2 * pairs - 1))
            return low, high + Decimal("0.001") if low == high else high

    def _index_of(self, turns: float, pairs: int, base: float) -> Decimal:
        """Return the fractional index of the frequency that makes this number of turns within the original length."""
        inverse_frequency = self.original_max_position_embeddings / (TWO_PI * Decimal(turns))
        return pairs * inverse_frequency.ln() / Decimal(base).ln()

    def exact_attention_factor(self) -> Decimal:
        with high_precision():
            if self.attention_factor is not None:
                return Decimal(self.attention_factor)
            if self.mscale and self.mscale_all_dim:
                return self.growth(self.mscale) / self.growth(self.mscale_all_dim)
            return self.growth(1)

    def growth(self, scale: float) -> Decimal:
        """Return `0.1 * scale * ln(factor) + 1`, from which the paper and DeepSeek compute the attention factor."""
        with high_precision():
            return Decimal(scale) * Decimal(self.factor).ln() / 10 + 1


def blended(first: Frequencies, last: Frequencies, ramp: tuple[Decimal, Decimal]) -> Frequencies:
    """Return the first frequencies up to one index, the last ones from another on, and in between a blend of both."""
    low, high = ramp
    with high_precision():
        weights = [min(max((i - low) / (high - low), Decimal(0)), Decimal(1)) for i in range(len(first))]
        return tuple(b * w + a * (1 - w) for a, b, w in zip(first, last, weights, strict=True))
