"""The RoPE of the indexers of sparse attention, which select the keys of each query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._array_api.checks import shown
from ..encodings.remapping import DualChunk
from ..encodings.rotary.base import RotaryEncoding
from ..formats.values import integer
from .config import INDEXER_LAYOUT, find_value
from .facts.models import find_model

INDEXER = "indexer"  # the name of the part
TYPES, PATTERN, STEP, FIRST = "indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset"


def find_indexer(config: Mapping[str, Any], attention: RotaryEncoding | DualChunk | None) -> RotaryEncoding | None:
    """Return the RoPE of the indexer of a layer: the frequencies of its attention, in heads of another width.

    Args:
        config: the config of the text model.
        attention: the RoPE of the attention of this layer.
    Returns:
        The encoding; None if the model has no indexer, or the layer no RoPE.
    Raises:
        TypeError, ValueError: if the width of the heads is out of range.
    """
    indexer = find_model(config).indexer
    if indexer is None or not isinstance(attention, RotaryEncoding):
        return None
    width, name = indexer.head_dim, ""
    for key in indexer.keys:
        width, name = integer({key: find_value(config, key)}, key, width), key
    if width is None:
        return None
    channels = attention.rotary_channels
    if width < channels:
        raise ValueError(f"`{name}` must be at least the {channels} channels that rotate, got {width}.")
    layout = indexer.layout
    if config.get(INDEXER_LAYOUT) is not None:
        layout = "interleaved_to_half" if config[INDEXER_LAYOUT] else "half"
    if layout == "interleaved_to_half" and attention.layout == "interleaved":  # as other formats rotate
        layout = "interleaved"
    fields: dict[str, Any] = {"rotary_dim": None if width == channels else channels}
    return replace(attention, head_dim=width, layout=layout, placement=indexer.placement, **fields)


def layers_with_indexer(config: Mapping[str, Any], types: tuple[str | None, ...]) -> list[bool]:
    """Return for each layer whether it has an indexer of its own, and does not select the keys of the layer before.

    Args:
        config: the config of the text model.
        types: the type of each layer.
    Raises:
        TypeError, ValueError: if a key is of the wrong type, or lists too few layers.
    """
    indexer = find_model(config).indexer
    if indexer is None:
        return [False] * len(types)
    modes = config.get(TYPES) or config.get(PATTERN)
    if modes is None:
        step, first = integer(config, STEP, indexer.step), integer(config, FIRST, 2, minimum=0)
        modes = ["shared" if max(index - first + 1, 0) % step else "full" for index in range(len(types))]
    if not isinstance(modes, list | tuple | str) or not {*modes} <= {"full", "shared", "F", "S"}:
        raise TypeError(f"`{TYPES}` must be a list of 'full' and 'shared', got {shown(modes)}.")
    if len(modes) < len(types):
        raise ValueError(f"`{TYPES}` must have a mode for each of the {len(types)} layers, got {len(modes)}.")
    kind = indexer.layer_type
    return [
        mode in ("full", "F") and kind in (None, layer_type) for mode, layer_type in zip(modes, types, strict=False)
    ]
