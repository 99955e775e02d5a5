"""Explanation: the RoPE that a Hugging Face config describes, as plain values to print, draw or write as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .._array_api.checks import check_integer
from ..encodings import Encoding, RotaryEncoding
from ..encodings.remapping import inner_rotary
from ..huggingface.config import INDEXER_LAYOUT, LENGTHS, get_values, is_foreign, is_translated, read
from ..huggingface.facts.models import MODELS, model_type
from ..huggingface.indexer import INDEXER
from ..huggingface.load_layers import Group, group_layers, name_layers
from ..huggingface.load_query_scale import softmax_factor
from ..scaling import DynamicNTK
from .pairs import Pair, describe_scaling, pairs_of
from .precision import ARITHMETICS, Loss, loss

LAYOUT_KEYS = ("rope_interleave", "rotary_emb_interleaved")


@dataclass(frozen=True, kw_only=True)
class Regime:
    """The RoPE of sequences in one range of lengths.

    Attributes:
        lengths: the range, in words.
        seq_len: a length in the range; None for all lengths, or for the lengths that the model was trained on.
        attention_factor: the factor of cos and sin.
        score_factor: the factor of attention scores that follows, `attention_factor ** 2`.
        slowing: which pairs keep their frequency, and which are blended, divided or, in `FoPE`, mixed, in words.
        pairs: all pairs, including those that are not rotated.
        losses: the errors of tables computed in float32, and in bfloat16.
    """

    lengths: str
    seq_len: int | None
    attention_factor: float
    score_factor: float
    slowing: str
    pairs: tuple[Pair, ...]
    losses: tuple[Loss, ...]


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The RoPE of the layers of one type; without RoPE, `kind` and all that describes a rotation are None.

    Attributes:
        layer_type: the name of the type in the config; None if all layers are alike.
        part: `"indexer"` for the indexers of sparse attention; None for the attention.
        indices: the layers, from 0; none if they are all layers, or all of the type.
        kind: the name of the encoding class.
        chunk_size, local_size: as in `DualChunk`; None if positions are not counted in chunks.
        layout, head_dim, rotary_dim, placement, direction, base: as in `Rotary`.
        layout_from: the key of the config that determines the layout; None if the layout is only assumed.
        scaling: the `repr` of the scaling.
        original_length, longest_length: the number of positions of the first training, and of the longest sequence.
        softmax_factor: the factor of the softmax scale, in addition to the attention factor.
        regimes: one, or two if the frequencies depend on the length.
    """

    layer_type: str | None
    part: str | None = None
    indices: tuple[int, ...] = ()
    kind: str | None = None
    chunk_size: int | None = None
    local_size: int | None = None
    layout: str | None = None
    layout_from: str | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    placement: str | None = None
    direction: str | None = None
    base: float | None = None
    scaling: str | None = None
    original_length: int | None = None
    longest_length: int | None = None
    softmax_factor: float = 1.0
    regimes: tuple[Regime, ...] = ()

    @property
    def name(self) -> str:
        """The layers in words, such as "layers 0–2, 4–6", after the part."""
        return ": ".join(filter(None, (self.part, name_layers(self.layer_type, self.indices))))


def explain(config: Any, *, layer_type: str | None = None) -> tuple[Layers, ...]:
    """Explain the RoPE of a Hugging Face config, for each of its layer types or for one, or a rotary encoding.

    Args:
        config: a `config.json`, its folder, a dict or a config object of transformers, as in `load_rope`; or a rotary
            encoding that `is_explained`, also of a class of your own.
        layer_type: the layers to explain; all by default.
    Returns:
        One `Layers` for each layer type, and after them one for the indexers of each type that has some.
    Raises:
        TypeError, ValueError, OSError: as in `load_rope`.
    Warns:
        UserWarning: as in `load_rope`.

    >>> (layers,) = explain({"model_type": "llama", "head_dim": 128, "rope_theta": 5e5})
    >>> layers.layout, layers.layout_from, round(layers.regimes[0].pairs[63].wavelength)
    ('half', 'model_type', 2559196)
    """
    if isinstance(config, RotaryEncoding):
        return (_layers({"layout_from": "layout"}, None, Group(layer_type, config, ())),)
    text_config = read(config)
    parts = (None,) if is_foreign(text_config) else (None, INDEXER)
    return tuple(
        _layers(text_config, part, group)
        for part in parts
        for group in group_layers(text_config, part, layer_type=layer_type)[0]
    )


def is_explained(encoding: Encoding) -> bool:
    """Return whether `explain` takes an encoding: rotary, on one axis, with fixed frequencies, for queries and keys.

    >>> from posenc_core import Alibi, Rotary
    >>> is_explained(Rotary(head_dim=8, layout="half")), is_explained(Alibi(num_heads=2))
    (True, False)
    """
    if not isinstance(encoding, RotaryEncoding) or encoding.needs_positions or encoding.computes_rows:
        return False
    return encoding.table_names == RotaryEncoding.table_names  # XPos has other tables for keys


def _layers(text_config: dict[str, Any], part: str | None, group: Group) -> Layers:
    layer_type, loaded, indices = group
    if loaded is None:
        return Layers(layer_type=layer_type)
    rotary: Any = inner_rotary(loaded)
    if not is_explained(rotary):
        raise ValueError(f"`config` must have fixed frequencies on one axis to be explained, got {rotary!r}.")
    original, longest = _lengths(rotary, text_config)
    return Layers(
        layer_type=layer_type,
        part=part,
        indices=indices,
        kind=type(loaded).__name__,
        **loaded.remapping,
        layout_from=_layout_from(text_config, part),
        rotary_dim=min(2 * rotary.pairs, rotary.head_dim),  # tables may have the pairs of each head
        **{name: getattr(rotary, name, None) for name in ("layout", "head_dim", "placement", "direction", "base")},
        scaling=repr(getattr(rotary, "scaling", None)),
        original_length=original,
        longest_length=longest,
        softmax_factor=1.0 if part else softmax_factor(text_config, rotary),
        regimes=tuple(
            _regime(rotary.at(seq_len), description, seq_len, (original, longest))
            for seq_len, description in _seq_lens(rotary, longest)
        ),
    )


def _layout_from(config: dict[str, Any], part: str | None) -> str | None:
    if is_translated(config):
        return str(config["layout_from"])
    known = ("model_type",) if model_type(config) in MODELS else ()
    return next(iter((*get_values(config, (INDEXER_LAYOUT,) if part else LAYOUT_KEYS), *known)), None)


def _lengths(rotary: RotaryEncoding, config: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the original length and the longest length; None where the config does not determine it."""
    scaling = getattr(rotary, "scaling", None)
    original = getattr(scaling, "original_max_position_embeddings", None)
    name, longest = next(iter(get_values(config, LENGTHS).items()), ("", None))
    if longest is not None:
        check_integer(name, longest)
    factor = getattr(scaling, "factor", None)
    if original and factor and (longest is None or isinstance(scaling, DynamicNTK)):
        longest = round(original * factor)
    return original, longest


def _seq_lens(rotary: RotaryEncoding, longest: int | None) -> Iterator[tuple[int | None, str]]:
    """Yield for each regime a length, and the range of lengths in words."""
    if rotary.max_seq_len is None:
        yield None, "any length"
        return
    yield None, f"up to {rotary.max_seq_len:,} positions"
    if isinstance(getattr(rotary, "scaling", None), DynamicNTK):
        beyond = max(longest or 0, rotary.max_seq_len + 1)
        yield beyond, f"e.g. {beyond:,} positions"
    else:
        yield rotary.max_seq_len + 1, "longer"


def _regime(
    rotary: RotaryEncoding, description: str, seq_len: int | None, lengths: tuple[int | None, int | None]
) -> Regime:
    original, longest = lengths
    if longest is not None and rotary.max_seq_len is not None and longest > rotary.max_seq_len:
        longest = None  # sequences of that length have other frequencies
    factor, pairs = rotary.attention_factor, pairs_of(rotary, original=original, longest=longest)
    return Regime(
        lengths=description,
        seq_len=seq_len,
        attention_factor=factor,
        score_factor=factor**2,
        slowing=describe_scaling(rotary, pairs),
        pairs=pairs,
        losses=tuple(loss(rotary, arithmetic=arithmetic) for arithmetic in ARITHMETICS),
    )
