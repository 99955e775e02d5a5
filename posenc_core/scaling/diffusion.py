"""Scalings of one axis of an image or a video: RIFLEx and DyPE."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from .._array_api.checks import check_integer, check_number, shown
from ..tables._fixed_point import TWO_PI, Frequencies, high_precision
from .base import FactorScaling, Scaling, check_factor, check_lengths
from .ntk import NTK, Linear
from .yarn import YaRN, blended


@dataclass(frozen=True, kw_only=True, repr=False)
class RIFLEx(Scaling):
    """Lower one frequency of time, by whose period a longer video repeats itself, to less than one period.

    The frequency becomes `fraction * 2π / length`; the others stay. It is for the time axis of a video alone:
    `AxialRotary(scaling=(RIFLEx(…), None, None))`.

    Args:
        k: the number of that frequency, counted from 1, highest first: 4 in HunyuanVideo.
        length: the number of latent frames of the longer video, `L_test` in the authors' program.
        fraction: of a period in `length` frames, above 0: 0.9 in the authors' program, 1 in their paper.
    Source: Zhao et al. 2025, equation 8 (arXiv:2502.15894), and their program.

    >>> from posenc_core import AxialRotary
    >>> video = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), scaling=(RIFLEx(k=2, length=900), None))
    >>> video.frequencies().round(5)
    array([1.     , 0.00628, 1.     , 0.01   ])
    """

    k: int
    length: int
    fraction: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("k", self.k)
        check_integer("length", self.length)
        check_number("fraction", self.fraction, above=0)

    def check(self, pairs: int) -> None:
        if self.k > pairs:
            raise ValueError(f"`k` must be at most {pairs}, the number of frequencies, got {shown(self.k)}.")

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        with high_precision():
            slow = Decimal(self.fraction) * TWO_PI / self.length
        return (*frequencies[: self.k - 1], slow, *frequencies[self.k :])


@dataclass(frozen=True, kw_only=True, repr=False)
class DyPE(FactorScaling):
    """YaRN for images, at one step of denoising: the less noise is left, the fewer frequencies are lowered.

    Frequencies that make many turns within the original length stay, those that make fewer are those of `NTK`, the
    fewest those of `Linear`, with ramps between; all bounds are multiplied by `kappa`. The attention factor is
    `0.1 * ln(factor) + 1` at each step. `NTK(factor=s ** kappa)` and `Linear(factor=s ** kappa)` are the other
    variants of the paper, DY-NTK and DY-PI.

    Args:
        factor: the number of patches along the axis divided by that of training, at least 1.
        original_max_position_embeddings: the number of patches along the axis in training: 64 in FLUX.
        kappa: the function κ(t) of the paper at this step, from 0: t² in the authors' program, where t falls from 1,
            noise, to 0; `2 * t**2` there for `NTK`. The default 1 is the scaling without DyPE.
    Source: Issachar et al. 2025 (arXiv:2510.20766), and their program for FLUX.

    >>> from posenc_core import AxialRotary
    >>> def image(t):
    ...     dype = DyPE(factor=4, original_max_position_embeddings=64, kappa=t**2)
    ...     return AxialRotary(head_dim=128, layout="half", axes_dims=(16, 56, 56), scaling=(None, dype, dype))
    >>> [float(image(t).frequencies()[20].round(4)) for t in (1, 0.5, 0)]
    [0.0048, 0.0067, 0.0193]
    """

    original_max_position_embeddings: int
    kappa: float = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lengths(self.original_max_position_embeddings, None)
        check_number("kappa", self.kappa, minimum=0)
        check_factor("factor", self.factor, self.exact_attention_factor())

    def scaled_frequencies(self, frequencies: Frequencies, *, base: float) -> Frequencies:
        if not self.kappa:
            return frequencies
        ntk, linear = (
            scaling.scaled_frequencies(frequencies, base=base)
            for scaling in (NTK(factor=self.factor), Linear(factor=self.factor))
        )
        pairs = len(frequencies)
        slow = blended(ntk, linear, self._ramp(1.25, 0.75, pairs, base))
        return blended(frequencies, slow, self._ramp(16, 2, pairs, base))

    def _ramp(self, fast: float, slow: float, pairs: int, base: float) -> tuple[Decimal, Decimal]:
        """Return the indices between which two kinds of frequencies blend; with little noise, all are of the first."""
        original = self.original_max_position_embeddings
        yarn = YaRN(
            factor=1,
            original_max_position_embeddings=original,
            beta_fast=fast * self.kappa,
            beta_slow=slow * self.kappa,
        )
        low, high = (min(bound, Decimal(pairs)) for bound in yarn.ramp(pairs, base))
        return low, max(high, low + Decimal("0.001"))

    def exact_attention_factor(self) -> Decimal:
        with high_precision():
            return Decimal(self.factor).ln() / 10 + 1
