"""Fourier position embedding (FoPE): each pair is rotated by a sum of several frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_even, check_integer, check_number, shown
from ..._array_api.namespace import Array, Weights, namespace_of
from ...positions.sequences import LIMIT
from ...tables._fixed_point import TWO_PI, Frequencies, high_precision
from ...tables.frequencies import geometric
from ...tables.sincos import DType
from ..base import Parameter
from .base import RotaryEncoding
from .rotary import Rotary

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class FoPE(RotaryEncoding):
    """Fourier position embedding: the cosine and sine of each pair are sums over several frequencies.

    With the cosines c and sines s of the frequencies that complete a period within the training length, pair j is
    rotated by c_j + Σ_i c_i C_ij and s_j + Σ_i s_i S_ij. The matrices C and S are learned, and 0 makes it RoPE. Pairs
    whose frequencies are below that floor have frequency 0: the cosine 1 and the sine `floor_sine` at all positions.

    The tables of c and s are exact, rounded once; a layer mixes them in float32. `cos_sin` returns them where C and S
    are 0. Checkpoints have `cos_coef` and `sin_coef`, which are C and S plus the identity: see `fope_mixing`.

    Args:
        head_dim: width of one head of the queries and keys; all of its channels have a pair.
        layout: which channels form a pair, as in `Rotary`; models have `"half"`.
        base: the geometric base of the frequencies.
        length: the training length L; frequencies above 2π / L are mixed.
        num_terms: how many frequencies are mixed, highest first, in place of `length` (`num_inv_freq`).
        num_heads: the number of heads that have matrices of their own, those of keys (`fope_sep_head`); each serves
            several neighbouring heads of queries where these are more. By default all heads share the matrices.
        floor_sine: 1 as in the authors' program and the models that were trained with it, where a pair below the floor
            is rotated by 45° and grows by √2; 0 leaves its channels as they are.
        std: standard deviation of the normal distribution of the initial C and S; by default they start at 0.
    Raises:
        TypeError: if a size is not an integer.
        ValueError: if a size is out of range, not one of `length` and `num_terms` is given, no frequency is above the
            floor, or `placement` is given.
    Source: Hua et al. 2024, section 4 (arXiv:2412.17739); the programs of Intern-S1-Pro and of the authors. In that of
        the authors, at most `head_dim` / 4 pairs are sums.

    >>> FoPE(head_dim=8, layout="half", length=1024).frequencies()
    array([1.  , 0.1 , 0.01, 0.  ])
    """

    base: float = 10000
    length: int | None = None
    num_terms: int | None = None
    num_heads: int | None = None
    floor_sine: int = 1
    std: float = 0.0
    terms: int = field(init=False)  # the frequencies above the floor, counted once

    mixes_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_even("head_dim", self.head_dim)
        if self.placement != "lead":
            raise ValueError(f"`placement` must be left out, as all channels have a pair, got {shown(self.placement)}.")
        check_number("base", self.base, above=1)
        if (self.length is None) == (self.num_terms is None):
            raise ValueError(
                f"`length` or `num_terms` must be given, and one of them alone, got {shown(self.length)} and "
                f"{shown(self.num_terms)}."
            )
        if self.length is not None:
            check_integer("length", self.length, minimum=7, maximum=LIMIT)  # 2π is above 6: 6 positions are no period
        if self.num_terms is not None:
            check_integer("num_terms", self.num_terms, maximum=self.pairs)
        if self.num_heads is not None:
            check_integer("num_heads", self.num_heads, maximum=WIDEST)
        check_integer("floor_sine", self.floor_sine, minimum=0, maximum=1)
        check_number("std", self.std, minimum=0)
        object.__setattr__(self, "terms", self.num_terms or self._count_terms(geometric(self.head_dim, base=self.base)))

    def _count_terms(self, frequencies: Frequencies) -> int:
        with high_precision():
            return sum(frequency * (self.length or 0) > TWO_PI for frequency in frequencies)

    @property
    def rotary_channels(self) -> int:
        return self.head_dim

    @property
    def longest(self) -> int | None:
        return self.length

    @property
    def table_heads(self) -> int | None:
        return self.num_heads

    @property
    def head_axes(self) -> Mapping[str, int]:  # type: ignore[override]
        return {} if self.num_heads is None else dict.fromkeys(self.parameters(), 0)

    def parameters(self) -> dict[str, Parameter]:
        heads = () if self.num_heads is None else (self.num_heads,)
        matrix = Parameter(shape=(*heads, self.terms, self.terms), std=self.std)
        return {"cos_mixing": matrix, "sin_mixing": matrix}

    def mixed(self, weights: Weights, rows: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the rows mixed by the matrices of a layer: `(..., length, pairs)` each, heads before the length."""
        xp, mixed, terms = namespace_of(*rows), [], self.terms
        for name, row in zip(("cos_mixing", "sin_mixing"), rows, strict=True):
            matrix = xp.astype(weights[name], row.dtype)
            own = row if self.num_heads is None else xp.expand_dims(row, axis=-3)
            summed = own[..., :terms] + xp.matmul(own[..., :terms], matrix)
            if terms < self.pairs:
                still = own[..., terms:]
                if self.num_heads is not None:
                    still = still + xp.zeros_like(summed[..., :1])  # for each head
                summed = xp.concat([summed, still], axis=-1)
            mixed.append(summed)
        return tuple(mixed)

    def unscaled(self) -> Self:
        return replace(self, num_terms=self.pairs, length=None)

    def plain_rope(self) -> Rotary:
        rotating = self.frequencies()[: self.terms]
        return Rotary(head_dim=2 * len(rotating), layout=self.layout, frequencies=rotating)

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        cos, sin = super().traced_rows(positions)
        terms, xp = self.terms, namespace_of(cos)
        if terms == self.pairs:
            return cos, sin
        still = xp.full_like(sin[..., terms:], self._still)
        return cos, xp.concat([sin[..., :terms], still], axis=-1)

    @property
    def _still(self) -> int:
        return -self.floor_sine if self.direction == "inverse" else self.floor_sine

    def exact_frequencies(self) -> Frequencies:
        frequencies = geometric(self.head_dim, base=self.base)
        return (*frequencies[: self.terms], *(Decimal(0) for _ in frequencies[self.terms :]))

    def _cos_sin(
        self,
        positions: npt.NDArray[Any],
        frequencies: Frequencies,
        dtype: DType = np.float32,
        factor: Decimal | None = None,
    ) -> tuple[Any, Any]:
        cos, sin = super()._cos_sin(positions, frequencies, dtype, factor)
        sin[..., self.terms :] = self._still
        return cos, sin
