"""The base class of rotary encodings (RoPE)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_even, check_integer, check_known, shown
from ..._array_api.lazy import tables_by_block
from ..._array_api.namespace import Array, beside, namespace_of
from ...rotation import Layout, Pairing, Placement, pairing_of
from ...tables import frequencies as f
from ...tables._fixed_point import Frequencies, high_precision
from ...tables.angles import angles_of
from ...tables.sincos import DType, Table, check_dtype, cos_sin, cos_sin_of_float32, write_cos_sin
from ..attention_encoding import QueryKeyEncoding
from ..base import Tables, TokenRows
from .caches import CacheKind, cache_of

if TYPE_CHECKING:
    from typing import Self

Direction: TypeAlias = Literal["forward", "inverse"]
Precision: TypeAlias = Literal["exact", "float32"]


def _choose_layout() -> Layout:
    """Raise: models use both layouts, so that neither can be the default."""
    raise TypeError(
        '`layout` must be given: "half" (pairs (0, d/2), (1, d/2 + 1), …: Llama in Hugging Face, GPT-NeoX, Qwen, '
        'Gemma) or "interleaved" (pairs (0, 1), (2, 3), …: GPT-J, Llama by Meta, the paper).'
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class RotaryEncoding(QueryKeyEncoding):
    """An encoding whose tables rotate channel pairs, each by the angle of its position on one axis."""

    head_dim: int
    layout: Layout = field(default_factory=_choose_layout)
    placement: Placement = "lead"
    direction: Direction = "forward"
    precision: Precision = "exact"
    pairing: Pairing = field(init=False)  # computed once, after all checks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("head_dim", self.head_dim, maximum=WIDEST)
        check_known("direction", self.direction, ("forward", "inverse"))
        check_known("precision", self.precision, ("exact", "float32"))
        self._set_pairing(pairing_of(self.layout, self.placement))
        if self.placement == "spread":
            check_even("head_dim", self.head_dim)
        if self.computes_rows and self.precision != "exact":
            raise ValueError(
                f"`precision` must be left out where frequencies are learned, got {shown(self.precision)}."
            )

    def _set_pairing(self, pairing: Pairing) -> None:
        object.__setattr__(self, "pairing", pairing)

    needs_scores: ClassVar[bool] = False
    table_names: ClassVar[tuple[str, ...]] = ("cos", "sin")

    #: Whether pairs have frequencies of their own, and not only those that a layer draws and learns.
    has_frequencies: ClassVar[bool] = True

    @property
    @abstractmethod
    def rotary_channels(self) -> int:
        """The number of channels that the frequencies are for."""

    @property
    def pairs(self) -> int:
        """The number of pairs that rotate: the columns of the tables; pairs of frequency 0 may be left out."""
        return self.rotary_channels // 2

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis of the positions that rotate each pair."""
        return (0,) * self.pairs

    def apply(self, x: Array, at: TokenRows) -> Array:
        """Return queries or keys `(..., length, head_dim)` with their pairs rotated."""
        cos, sin = at.rows[-2:] if at.keys else at.rows[:2]
        return at.rotate_by(x, cos, sin)

    def frequencies(self, seq_len: int | None = None) -> npt.NDArray[np.float64]:
        """Return radians per position, one for each pair, float64, shape `(pairs,)`; `inv_freq` in other libraries."""
        return f.as_float64(self.at(seq_len).exact_frequencies())

    def unscaled(self) -> Self:
        """Return the encoding with the frequencies of its base alone."""
        return self

    @property
    def attention_factor(self) -> float:
        """The factor of cos and sin; the largest, where axes have their own."""
        return float(max(self._factors()))

    @property
    def attention_factors(self) -> npt.NDArray[np.float64]:
        """The factor of cos and sin of each pair, float64, shape `(pairs,)`."""
        return f.as_float64(self._pair_factors())

    def cos_sin(self, positions: Any, seq_len: int | None = None, dtype: DType = np.float32) -> tuple[Table, Table]:
        """Return the cosine and sine tables of positions: `(..., length) -> (..., length, pairs)` each.

        Args:
            positions: integers or real numbers, below 2**31 in size; for an encoding of several axes,
                `(axes, ..., length)`, or `(length,)` if they are the same on all axes.
            seq_len: the length of the whole sequence, for scalings that depend on it.
            dtype: `numpy.float32`, or `numpy.float64` for tokens of float64.
        Raises:
            TypeError: if positions are not numbers, or `dtype` is another.
            ValueError: if they are out of range, or there are not as many axes as the encoding has.
        """
        return tables_by_block(partial(self.at(seq_len)._tables, dtype=check_dtype(dtype)), positions)

    def as_cache(self, kind: CacheKind, max_len: int) -> dict[str, Any]:
        """Return the tables of positions 0 to `max_len - 1` as another program takes them: arguments by their names.

        * `"vllm"`, of `rotary_embedding` in vLLM: `cos_sin_cache`, `(max_len, channels)`, all cosines, then all sines.
        * `"flashinfer"`, of `apply_rope_with_cos_sin_cache`: the same.
        * `"onnx"`, of the operator `RotaryEmbedding`: `cos_cache` and `sin_cache`, `(max_len, pairs)`.
        * `"transformer_engine"`, of `apply_rotary_pos_emb`: `freqs`, `(max_len, 1, 1, channels)`, angles in radians.
        * `"ggml"`, of `ggml_rope_ext`: `freq_factors`, `(pairs,)`, divisors or None; there is no table.

        The other entries are the flags and sizes that must agree with the arrays: layout, base, attention factor.
        Arrays are float32. Those of cosine and sine are exact, rounded once, with the attention factor. Angles are
        exact minus whole turns, within ±π radians, rounded once, hence off by at most 2**-23 at any position; with the
        precision `"float32"` they are the products as models compute them. ggml computes angles itself in float32.

        Args:
            kind: the program.
            max_len: the number of positions.
        Raises:
            ValueError: if the kind is unknown, the program cannot rotate as the encoding does (positions with axes,
                tables of keys, learned frequencies, some layouts and placements, for angles an attention factor), or
                `max_len` exceeds the length that the frequencies are for.
        Source: the functions named, in vLLM, flashinfer, TransformerEngine and llama.cpp of 2026; ONNX opset 23.

        >>> from posenc_core import Rotary
        >>> cache = Rotary(head_dim=4, layout="half").as_cache("vllm", 2)
        >>> cache["cos_sin_cache"]
        array([[1.        , 1.        , 0.        , 0.        ],
               [0.5403023 , 0.99995   , 0.84147096, 0.00999983]], dtype=float32)
        >>> cache["is_neox_style"]
        True
        """
        return cache_of(self, kind, max_len)

    def _tables(self, positions: Any, dtype: DType = np.float32) -> tuple[Table, Table]:
        known = self._known(positions)
        if self.num_axes == 1:
            return self._cos_sin(known, self.exact_frequencies(), dtype)
        if known.ndim == 1:
            return self._on_all_axes(known, dtype)
        if len(known) != self.num_axes:
            raise ValueError(f"`positions` must have shape ({self.num_axes}, ..., length), got {known.shape}.")
        return self._by_column(list(known), dtype)

    def _on_all_axes(self, positions: npt.NDArray[Any], dtype: DType) -> tuple[Table, Table]:
        """Return the tables of pairs that rotate, for positions that are the same on all axes."""
        if len(self._factors()) > 1:
            return self._by_column([positions] * self.num_axes, dtype)
        return self._cos_sin(positions, self.exact_frequencies()[: self.pairs], dtype)

    def _by_column(self, positions: Sequence[npt.NDArray[Any]], dtype: DType) -> tuple[Table, Table]:
        """Return the tables of positions, `(..., length)` for each axis."""
        pairs = zip(self.axes, self.exact_frequencies(), self._pair_factors(), strict=True)
        columns = (self._cos_sin(positions[axis], (w,), dtype, factor) for axis, w, factor in pairs)
        cos, sin = zip(*columns, strict=True)
        return np.concatenate(cos, axis=-1), np.concatenate(sin, axis=-1)

    def rows_by_block(self, positions: Any, dtype: DType = np.float32) -> tuple[Table, ...]:
        return self.cos_sin(positions, dtype=dtype) if self.num_axes > 1 else super().rows_by_block(positions, dtype)

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        """Return the columns of pairs that rotate; `cos_sin` also has those of pairs of frequency 0."""
        cos, sin = self._on_all_axes(self._known(positions), dtype)
        return {"cos": cos, "sin": sin}

    def derivatives(self, positions: Any) -> Tables:
        """Return the derivatives for positions that are the same on all axes; `precision` rounds no derivative."""
        known, frequencies = self._known(positions), self.exact_frequencies()[: self.pairs]
        with high_precision():
            rates = tuple(map(mul, frequencies, self._pair_factors()))
        cos, sin = (np.empty((known.size, len(rates)), np.float32) for _ in "cs")
        write_cos_sin(known.ravel(), frequencies, cos=sin, sin=cos, factor=rates)
        cos, sin = (each.reshape(*known.shape, len(rates)) for each in (-cos, sin))
        return {"cos": cos, "sin": -sin if self.direction == "inverse" else sin}

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        return f.as_float64(self.exact_frequencies()[: self.pairs])

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        xp = namespace_of(positions)
        angles = angles_of(positions, f.as_float64(self.exact_frequencies()[: self.pairs]))
        factor: Any = self.attention_factor
        if len(self._factors()) > 1:
            factor = xp.asarray(self.attention_factors, dtype=angles.dtype, **beside(angles))
        return xp.cos(angles) * factor, xp.sin(angles) * (-factor if self.direction == "inverse" else factor)

    @property
    def max_table_len(self) -> int:
        return self.limit if self.max_seq_len is None else min(self.limit, self.max_seq_len)

    def constants(self, max_len: int) -> Tables:
        tables = super().constants(max_len)
        if self.num_axes == 1:
            return tables
        return tables | {"turns_by": np.equal.outer(np.arange(self.num_axes), self.axes).astype(np.float32)}

    @abstractmethod
    def exact_frequencies(self) -> Frequencies:
        """Return radians per position, one for each pair, as decimals, so that a table is rounded only once."""

    def _factors(self) -> Frequencies:
        """Return the factor of cos and sin of each axis, or one for all of them."""
        return (Decimal(1),)

    def _pair_factors(self) -> Frequencies:
        factors = self._factors()
        return tuple(factors[axis] for axis in self.axes) if len(factors) > 1 else factors * self.pairs

    def _cos_sin(
        self,
        positions: npt.NDArray[Any],
        frequencies: Frequencies,
        dtype: DType = np.float32,
        factor: Decimal | None = None,
    ) -> tuple[Table, Table]:
        tables = cos_sin_of_float32 if self.precision == "float32" else cos_sin
        cos, sin = tables(positions, frequencies, factor=factor or self._factors()[0], dtype=dtype)
        return cos, -sin if self.direction == "inverse" else sin
