"""Scalings by one number: position interpolation, a higher base, a share that turns."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_number
from ..tables._fixed_point import Frequencies, high_precision
from .base import Scaling, check_lengths, told


@dataclass(frozen=True, kw_only=True, repr=False)
class AttentionFactor(Scaling):
    """Frequencies as they are, cos and sin multiplied: for frequencies that are given as a model has them.

    Args:
        attention_factor: what cos and sin are multiplied by.
    """

    attention_factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("attention_factor", self.attention_factor, above=0)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return frequencies

    def exact_attention_factor(self) -> Decimal:
        with high_precision():
            return Decimal(self.attention_factor)


@dataclass(frozen=True, kw_only=True, repr=False)
class Linear(Scaling):
    """Position interpolation: every frequency divided by `factor`, at least 1.

    Source: Chen et al. 2023 (arXiv:2306.15595).
    """

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            return tuple(frequency / Decimal(self.factor) for frequency in frequencies)


@dataclass(frozen=True, kw_only=True, repr=False)
class NTK(Scaling):
    """The base raised to `base * factor ** (d / (d - 2))`: the slowest frequency divided by `factor`, the fastest kept.

    Source: bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, section 3.1 (arXiv:2309.00071).
    """

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return _rebased(frequencies, self.factor)


@dataclass(frozen=True, kw_only=True, repr=False)
class NTKAlpha(Scaling):
    """`NTK` as Hunyuan writes it: the base raised to `base * alpha ** (d / (d - 2))`, `alpha` at least 1."""

    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, minimum=1)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return _rebased(frequencies, self.alpha)


@dataclass(frozen=True, kw_only=True, repr=False)
class DynamicNTK(Scaling):
    """`NTK` by `factor * seq_len / original - (factor - 1)` for sequences longer than the original; none for others.

    Args:
        factor: at least 1.
        original_max_position_embeddings: the length L that the model was trained on.
        seq_len: the length of the sequences that the frequencies are for; without it, those of at most L.
    Source: emozilla 2023, as in Hugging Face's `dynamic`; for a factor of 1 Peng et al. 2023, section 3.4
        (arXiv:2309.00071v3).
    """

    factor: float
    original_max_position_embeddings: int
    seq_len: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)
        check_lengths(self.original_max_position_embeddings, self.seq_len)
        if self.seq_len is not None and self.seq_len <= self.original_max_position_embeddings:
            object.__setattr__(self, "seq_len", None)  # all of them have the same frequencies

    @property
    def max_seq_len(self) -> int:
        return max(self.original_max_position_embeddings, self.seq_len or 0)

    def at(self, seq_len: int) -> DynamicNTK:
        return told(self, seq_len)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            factor = Decimal(self.factor)
            growth = factor * self.max_seq_len / self.original_max_position_embeddings - (factor - 1)
        return _rebased(frequencies, growth)


@dataclass(frozen=True, kw_only=True, repr=False)
class Proportional(Scaling):
    """The first share of the frequencies of the whole head, divided by `factor`; the others stand still (Gemma 4).

    Args:
        partial_rotary_factor: the share that turns, above 0 and at most 1; of their number, the whole part.
        factor: at least 1.
    """

    partial_rotary_factor: float = 1.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("partial_rotary_factor", self.partial_rotary_factor, above=0)
        if self.partial_rotary_factor > 1:
            raise ValueError(f"`partial_rotary_factor` must be at most 1, got {self.partial_rotary_factor!r}.")
        check_number("factor", self.factor, minimum=1)

    def num_rotating_pairs(self, pairs: int) -> int:
        return int(self.partial_rotary_factor * 2 * pairs // 2)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        count = self.num_rotating_pairs(len(frequencies))
        with high_precision():
            slow = tuple(frequency / Decimal(self.factor) for frequency in frequencies[:count])
        return slow + (Decimal(0),) * (len(frequencies) - count)


def _rebased(frequencies: Frequencies, growth: float | Decimal) -> Frequencies:
    """`f[i] * growth ** (-i / (pairs - 1))`; one frequency alone is 1 whatever the base."""
    with high_precision():
        step = -Decimal(growth).ln() / max(len(frequencies) - 1, 1)
        return tuple(frequency * (step * i).exp() for i, frequency in enumerate(frequencies))
