"""Scalings by one number: position interpolation, NTK-aware bases, partial rotation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_number, shown
from ..tables._fixed_point import Frequencies, high_precision
from .base import FactorScaling, Scaling, check_factor, check_lengths


@dataclass(frozen=True, kw_only=True, repr=False)
class AttentionFactor(Scaling):
    """Keep the frequencies and multiply cos and sin by a number, for frequencies that are copied from a model.

    Args:
        attention_factor: the multiplier of cos and sin, above 0.
    """

    attention_factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("attention_factor", self.attention_factor, above=0)
        check_factor("attention_factor", self.attention_factor, Decimal(self.attention_factor))

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return frequencies

    def exact_attention_factor(self) -> Decimal:
        with high_precision():
            return Decimal(self.attention_factor)


@dataclass(frozen=True, kw_only=True, repr=False)
class Linear(Scaling):
    """Position interpolation: divide every frequency by `factor`.

    Args:
        factor: the divisor of all frequencies, the longest length divided by the length of training: below 1 (at least
            1e-9), positions are farther apart.
    Source: Chen et al. 2023 (arXiv:2306.15595).
    """

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1e-9)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            return tuple(frequency / Decimal(self.factor) for frequency in frequencies)


@dataclass(frozen=True, kw_only=True, repr=False)
class NTK(FactorScaling):
    """Raise the base to `base * factor ** (d / (d - 2))`: divide the lowest frequency by `factor`, keep the highest.

    Args:
        factor: the divisor of the lowest frequency, at least 1; higher frequencies are divided by less.
    Source: bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023, section 3.1 (arXiv:2309.00071).
    """

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return _raise_base(frequencies, self.factor)


@dataclass(frozen=True, kw_only=True, repr=False)
class NTKAlpha(Scaling):
    """`NTK` with the name that Hunyuan gives the factor: raise the base to `base * alpha ** (d / (d - 2))`.

    Args:
        alpha: the divisor of the lowest frequency, at least 1; higher frequencies are divided by less.
    """

    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, minimum=1)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        return _raise_base(frequencies, self.alpha)


@dataclass(frozen=True, kw_only=True, repr=False)
class DynamicNTK(FactorScaling):
    """`NTK` with the factor `factor * seq_len / L - (factor - 1)`, for sequences longer than the original length L.

    Args:
        factor: the growth of the factor of `NTK` with `seq_len / L`, at least 1.
        original_max_position_embeddings: the length L that the model was trained on.
        seq_len: the length of the sequences; the default None, and lengths up to L, keep the frequencies.
    Source: emozilla 2023, as in Hugging Face's `dynamic`; a factor of 1 is Peng et al. 2023, section 3.4
        (arXiv:2309.00071v3).
    """

    original_max_position_embeddings: int
    seq_len: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lengths(self.original_max_position_embeddings, self.seq_len)
        if self.seq_len is not None and self.seq_len <= self.original_max_position_embeddings:
            object.__setattr__(self, "seq_len", None)  # equal frequencies, so that these are one value

    @property
    def max_seq_len(self) -> int:
        return max(self.original_max_position_embeddings, self.seq_len or 0)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            original = self.original_max_position_embeddings
            growth = Decimal(self.factor) * (self.max_seq_len - original) / original + 1
        return _raise_base(frequencies, growth)


@dataclass(frozen=True, kw_only=True, repr=False)
class Proportional(Scaling):
    """Keep the first frequencies of the whole head, divided by `factor`, and set the others to 0 (Gemma 4).

    Args:
        partial_rotary_factor: the fraction of frequencies to keep, above 0 and at most 1; their number is rounded down.
        factor: the divisor of the frequencies that are kept, at least 1.
    """

    partial_rotary_factor: float = 1.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("partial_rotary_factor", self.partial_rotary_factor, above=0)
        if self.partial_rotary_factor > 1:
            raise ValueError(f"`partial_rotary_factor` must be at most 1, got {shown(self.partial_rotary_factor)}.")
        check_number("factor", self.factor, minimum=1)

    def num_rotating_pairs(self, pairs: int) -> int:
        return int(self.partial_rotary_factor * 2 * pairs // 2)

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        count = self.num_rotating_pairs(len(frequencies))
        with high_precision():
            scaled = tuple(frequency / Decimal(self.factor) for frequency in frequencies[:count])
        return scaled + (Decimal(0),) * (len(frequencies) - count)


def _raise_base(frequencies: Frequencies, growth: float | Decimal) -> Frequencies:
    """Return `f[i] * growth ** (-i / (pairs - 1))`; a single frequency is independent of the base."""
    with high_precision():
        step = -Decimal(growth).ln() / max(len(frequencies) - 1, 1)
        return tuple(frequency * (step * i).exp() for i, frequency in enumerate(frequencies))
