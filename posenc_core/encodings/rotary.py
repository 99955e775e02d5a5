"""The rotary encodings: queries and keys are turned, so that their product sees only how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import frequencies as f
from .._checks import check_even, check_integer, check_known, check_number
from .._exact import Frequencies
from ..rotation import LAYOUTS, Layout
from ..scaling import Scaling
from ..tables import Table, cos_sin
from .encoding import Tables, Tabular


@dataclass(frozen=True, kw_only=True)
class Rotary(Tabular):
    """Rotary position embedding (RoPE).

    Args:
        head_dim: width of one head of the queries and keys.
        layout: which channels form a pair: `"interleaved"` (0, 1), (2, 3), … as in GPT-J and Meta's Llama code, or
            `"half"` (i, i + rotary_dim / 2) as in GPT-NeoX and Hugging Face's `rotate_half`.
        base: the geometric base of the frequencies, `rope_theta`.
        rotary_dim: the first channels of each head that turn; all of them by default.
        scaling: how the frequencies are slowed for longer contexts.
    Raises:
        TypeError, ValueError: if a size is not a positive even integer, `rotary_dim` exceeds `head_dim`, `base` is not a
            finite number above 1, or the layout is unknown.
    Source: Su et al. 2021 (arXiv:2104.09864); partial rotation as in GPT-J and GPT-NeoX.

    >>> Rotary(head_dim=4, layout="half").frequencies()
    array([1.  , 0.01])
    """

    head_dim: int
    layout: Layout
    base: float = 10000
    rotary_dim: int | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("layout", self.layout, LAYOUTS)
        check_number("base", self.base, above=1)
        check_integer("head_dim", self.head_dim)
        check_even("head_dim" if self.rotary_dim is None else "rotary_dim", self.turning)
        if self.turning > self.head_dim:
            raise ValueError(f"`rotary_dim` must not exceed `head_dim` {self.head_dim}, got {self.rotary_dim}.")
        if not isinstance(self.scaling, Scaling | None):
            raise TypeError(f"`scaling` must be a scaling or None, got {self.scaling!r}.")

    @property
    def turning(self) -> int:
        """How many channels of a head turn."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    def frequencies(self, seq_len: int | None = None) -> npt.NDArray[np.float64]:
        """Radians per position, highest first, float64, shape `(pairs,)`; `inv_freq` elsewhere."""
        return f.as_float64(self._frequencies(seq_len))

    @property
    def attention_factor(self) -> float:
        """What cos and sin are multiplied by."""
        return float(self._factor(None))

    def cos_sin(self, positions: Any, seq_len: int | None = None) -> tuple[Table, Table]:
        """Cosine and sine tables of the positions given, float32: `(..., length) -> (..., length, pairs)` each.

        Args:
            positions: integers or real numbers, below 2**31 in size.
            seq_len: the length of the whole sequence, for scalings that depend on it.
        """
        return cos_sin(self._known(positions), self._frequencies(seq_len), factor=self._factor(seq_len))

    def rows(self, positions: Any) -> Tables:
        cos, sin = self.cos_sin(positions)
        return {"cos": cos, "sin": sin}

    def _frequencies(self, seq_len: int | None) -> Frequencies:
        plain = f.geometric(self.turning, base=self.base)
        return plain if self.scaling is None else self.scaling.slowed(plain, base=self.base, seq_len=seq_len)

    def _factor(self, seq_len: int | None) -> Decimal:
        return Decimal(1) if self.scaling is None else self.scaling.attention_factor(seq_len)
