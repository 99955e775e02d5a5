"""Rotary position embedding (RoPE) of sequences: products of rotated queries and keys depend only on distances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import check_even, check_integer, check_number, host_array, shown
from ...positions.sequences import LIMIT
from ...rotation import LAYOUTS, pairing_of
from ...scaling import AttentionFactor, Scaling
from ...tables import frequencies as f
from ...tables._fixed_point import Frequencies
from .base import RotaryEncoding

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, repr=False)
class _Arguments(RotaryEncoding):
    """The arguments of `Rotary`: a dataclass cannot have an argument and a method of one name, its subclass can."""

    base: float = 10000
    rotary_dim: int | None = None
    scaling: Scaling | None = None
    frequencies: InitVar[Iterable[float] | None] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Rotary(_Arguments):
    """Rotary position embedding (RoPE).

    Args:
        head_dim: width of one head of the queries and keys.
        layout: which channels form a pair: `"interleaved"` (0, 1), (2, 3), … as in GPT-J and Meta's Llama code,
            `"half"` (i, i + rotary_dim / 2) as in GPT-NeoX and Hugging Face's `rotate_half`, or
            `"interleaved_to_half"`, which reads pairs of the first layout and writes them in the second, as in
            DeepSeek.
        base: the geometric base of the frequencies, `rope_theta`.
        rotary_dim: the number of channels of each head that rotate; all of them by default.
        placement: which channels rotate: the first (`"lead"`), the last (`"trail"`), or the first pairs of the whole
            head (`"spread"`: in half layout, (i, i + head_dim / 2)).
        direction: `"inverse"` rotates by the negative angle, as nanochat does.
        scaling: a rule that changes the frequencies for longer contexts.
        precision: `"exact"` rounds the true cosine and sine once; `"float32"` rounds frequencies and angles to float32
            first, for models that were trained that way.
        frequencies: radians per position, one for each pair, instead of those of the base: a model's own buffer.
        max_len: the longest sequence that the model is for, `max_position_embeddings` of its config, where that is
            known: layers have tables of that length by default. It changes no number, so encodings that differ in it
            alone are equal.
    Raises:
        TypeError, ValueError: if a size is not a positive even integer, `rotary_dim` exceeds `head_dim`, `base` is not
            a finite number above 1, a word is unknown, the number of frequencies is not that of the pairs, or options
            contradict each other.
    Source: Su et al. 2021 (arXiv:2104.09864); partial rotation as in GPT-J and GPT-NeoX.

    >>> Rotary(head_dim=4, layout="half").frequencies()
    array([1.  , 0.01])
    """

    own: tuple[float, ...] | None = field(default=None, init=False)
    max_len: int | None = field(default=None, compare=False)

    def __post_init__(self, frequencies: Any) -> None:
        super().__post_init__()
        object.__setattr__(self, "own", _given(frequencies))
        if self.rotary_dim == self.head_dim:
            object.__setattr__(self, "rotary_dim", None)
        check_number("base", self.base, above=1)
        if self.rotary_dim == 0:
            raise ValueError("`rotary_dim` must be at least 1, got 0; without rotation there is no rotary encoding.")
        check_even("head_dim" if self.rotary_dim is None else "rotary_dim", self.rotary_channels)
        if self.rotary_channels > self.head_dim:
            raise ValueError(f"`rotary_dim` must not exceed `head_dim` {self.head_dim}, got {self.rotary_dim}.")
        if not isinstance(self.scaling, Scaling | None):
            raise TypeError(f"`scaling` must be a scaling or None, got {shown(self.scaling)}.")
        if self.scaling is not None:
            self.scaling.check(self.rotary_channels // 2)
        if self.own is not None:
            self._check_own(self.own)
        if self.max_len is not None:
            check_integer("max_len", self.max_len, maximum=LIMIT)
        if self.pairs < self.rotary_channels // 2:
            self._check_still()
            self._set_pairing(pairing_of(self.layout, "spread"))

    def _check_own(self, own: tuple[float, ...]) -> None:
        if len(own) != self.rotary_channels // 2:
            raise ValueError(
                f"`frequencies` must be {self.rotary_channels // 2} numbers, one for each pair, got {len(own)}."
            )
        if self.base != Rotary.base:
            raise ValueError(f"`base` must be left out where `frequencies` are given, got {shown(self.base)}.")
        if not isinstance(self.scaling, AttentionFactor | None):
            raise ValueError(  # noqa: TRY004 - a contradiction, not a wrong type
                f"`scaling` must be an AttentionFactor or None with `frequencies`, got {shown(self.scaling)}."
            )

    def _check_still(self) -> None:
        """Raise unless the pairs of frequency 0 are the last of the whole head."""
        for name, needed in (("rotary_dim", (None,)), ("placement", ("lead", "spread")), ("layout", LAYOUTS[:2])):
            if getattr(self, name) not in needed:
                usual = "left out" if name == "rotary_dim" else f"one of {', '.join(map(repr, needed))}"
                raise ValueError(
                    f"`{name}` must be {usual} with {shown(self.scaling)}, got {shown(getattr(self, name))}."
                )
        if self.pairs == 0:
            raise ValueError(
                f"`scaling` must leave a pair that turns, got {shown(self.scaling)} for "
                f"{self.rotary_channels} channels."
            )

    @property
    def rotary_channels(self) -> int:
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def pairs(self) -> int:
        return (
            self.rotary_channels // 2
            if self.scaling is None
            else self.scaling.num_rotating_pairs(self.rotary_channels // 2)
        )

    @property
    def max_seq_len(self) -> int | None:
        return None if self.scaling is None else self.scaling.max_seq_len

    @property
    def longest(self) -> int | None:
        return self.max_len if self.max_len is not None or self.scaling is None else self.scaling.longest

    def at(self, seq_len: int | None) -> Self:
        if seq_len is None or self.scaling is None:
            return super().at(seq_len)
        scaling = self.scaling.at(seq_len)
        return self if scaling is self.scaling else replace(self, scaling=scaling)

    def unscaled(self) -> Self:
        return replace(self, scaling=None)

    def plain_rope(self) -> Rotary:
        fields = {name: value for name, value in self._arguments().items() if name in Rotary.__dataclass_fields__}
        return Rotary(**fields)

    def frequencies(self, seq_len: int | None = None) -> npt.NDArray[np.float64]:  # type: ignore[misc]
        return RotaryEncoding.frequencies(self, seq_len)

    def exact_frequencies(self) -> Frequencies:
        plain = f.geometric(self.rotary_channels, base=self.base) if self.own is None else f.chosen(self.own)
        return plain if self.scaling is None else self.scaling.scaled_frequencies(plain, base=self.base)

    def _factors(self) -> Frequencies:
        return (Decimal(1) if self.scaling is None else self.scaling.exact_attention_factor(),)

    def _arguments(self) -> dict[str, Any]:
        arguments = super()._arguments() | ({} if self.own is None else {"frequencies": self.own})
        return {name: value for name, value in arguments.items() if name != "max_len" or value is not None}


def _given(frequencies: Any) -> tuple[float, ...] | None:
    """Return the frequencies that were given; those of an instance for its method, which `replace` passes."""
    if frequencies is None or callable(frequencies):
        own: tuple[float, ...] | None = getattr(getattr(frequencies, "__self__", None), "own", None)
        return own
    given = host_array("frequencies", frequencies)
    if given.ndim != 1:
        error = ValueError if given.ndim else TypeError
        raise error(f"`frequencies` must be one number for each pair, got {shown(frequencies)}.")
    if given.dtype.kind in "if" and (given < 0).any():
        raise ValueError(
            f"`frequencies` must be from 0 up to 2**31 radians per position, got {given.min()}; "
            "to rotate the other way, give `direction='inverse'`."
        )
    return tuple(float(frequency) for frequency in f.as_float64(f.chosen(given.tolist())))
