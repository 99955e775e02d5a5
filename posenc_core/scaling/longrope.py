"""LongRoPE: scaling by two lists of divisors, which were found by search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from .._array_api.checks import check_number, shown
from ..tables._fixed_point import Frequencies, high_precision
from .base import Scaling, check_factor, check_lengths, stretched


@dataclass(frozen=True, kw_only=True, repr=False)
class LongRoPE(Scaling):
    """Divide each frequency by its own divisor, from one of two lists that the length of the sequence selects.

    Args:
        short_factor, long_factor: the divisors, one for each frequency; `long_factor` is for sequences strictly longer
            than the original length.
        original_max_position_embeddings: the length L0 that the model was trained on.
        factor: the longest length divided by L0; the attention factor is `sqrt(1 + ln(factor) / ln(L0))`.
        attention_factor: overrides the attention factor that follows from `factor`.
        short_mscale, long_mscale: override the attention factor, one for each list (Phi-MoE).
        seq_len: the length of the sequences; the default None selects `short_factor`.
    Raises:
        TypeError: if a list is not a list of numbers.
        ValueError: if a number is not finite or too small, or no argument determines the attention factor.
    Source: Ding et al. 2024 (arXiv:2402.13753), as in Hugging Face's `longrope`.
    """

    short_factor: Sequence[float]
    long_factor: Sequence[float]
    original_max_position_embeddings: int
    factor: float | None = None
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None
    seq_len: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("short_factor", "long_factor"):
            _check_divisors(name, getattr(self, name))
        check_lengths(self.original_max_position_embeddings, self.seq_len)
        beyond = self.original_max_position_embeddings + 1  # for all longer sequences: their frequencies are equal
        object.__setattr__(self, "seq_len", beyond if self.seq_len is not None and self.seq_len >= beyond else None)
        if self.factor is not None:
            check_number("factor", self.factor, minimum=1)
        for name in ("attention_factor", "short_mscale", "long_mscale"):
            given = getattr(self, name)
            if given is not None:
                check_number(name, given, above=0)
                check_factor(name, given, Decimal(given))
        if (self.short_mscale is None) != (self.long_mscale is None):
            raise ValueError("`short_mscale` and `long_mscale` go together: pass both or neither.")
        if self.factor is self.attention_factor is self.short_mscale:
            raise ValueError(
                "`factor` must be given if `attention_factor` is not: the longest length divided by the original."
            )

    @property
    def is_long(self) -> bool:
        """Whether the frequencies are divided by `long_factor`."""
        return self.seq_len is not None

    @property
    def max_seq_len(self) -> int | None:
        return None if self.is_long else self.original_max_position_embeddings

    @property
    def longest(self) -> int | None:
        return None if self.factor is None else stretched(self.original_max_position_embeddings, self.factor)

    def check(self, pairs: int) -> None:
        for name in ("short_factor", "long_factor"):
            if len(getattr(self, name)) != pairs:
                raise ValueError(
                    f"`{name}` must have {pairs} numbers, one for each frequency, got {len(getattr(self, name))}."
                )

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        divisors = self.long_factor if self.is_long else self.short_factor
        with high_precision():
            return tuple(f / Decimal(divisor) for f, divisor in zip(frequencies, divisors, strict=True))

    def exact_attention_factor(self) -> Decimal:
        given = self.long_mscale if self.is_long else self.short_mscale
        given = self.attention_factor if given is None else given
        with high_precision():
            if given is not None:
                return Decimal(given)
            growth = Decimal(cast("float", self.factor)).ln()
            return (1 + growth / Decimal(self.original_max_position_embeddings).ln()).sqrt()


def _check_divisors(name: str, given: object) -> None:
    """Raise unless it is a tuple, into which `Value` converts lists, of numbers above 0."""
    if not isinstance(given, tuple):
        raise TypeError(f"`{name}` must be a list of numbers, got {shown(given)}.")
    for number in given:
        check_number(name, number, above=0)
