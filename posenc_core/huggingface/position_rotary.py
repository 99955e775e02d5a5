"""Facts about RoPE in `load_position`: what `load_rope` reads, layers without it, and the scale of queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._array_api.checks import shown
from ..encodings import AxialRotary
from .config import ROPES, read
from .layer_types import layer_types, types_of
from .models import model_type
from .position_facts import Config, Found, size
from .rope import load_rope, load_text, more_than
from .towers import TOWERS

INTERVALS = {"llama4", "smollm3"}  # models that leave every fourth layer without RoPE unless a key says another
FOURTH = 4


class Rope(NamedTuple):
    """RoPE of the text model, as `load_rope` reads it, for each layer type."""

    def read(self, config: Config) -> Found:
        text_config = read(config)
        names: tuple[str | None, ...] = layer_types(config) or (None,)
        rotary = tuple((name, load_text(text_config, name, None)) for name in names)
        scale = _query_scale(text_config)
        more = {more_than(text_config, encoding) for _, encoding in rotary} - {None}
        if rotary == ((None, None),):
            return {"notes": ("no RoPE: queries and keys are not rotated",)}
        unrotated = {name for name, encoding in rotary if encoding is None}
        layers = {index for index, name in enumerate(types_of(text_config)) if name in unrotated}
        return {
            "rotary": rotary,
            "layers_without": tuple(sorted(layers | set(_layers_by_index(text_config)))),
            "query_scale": scale,
            "notes": () if scale else tuple(more),
        }


class Axial(NamedTuple):
    """A rotary encoding by several axes, which `load_rope` may read from the config.

    Attributes:
        axes: the axes, in words.
    """

    axes: str = "height and width"

    def read(self, config: Config) -> Found:
        lack = f"a rotary encoding by {self.axes}, which `load_rope` does not read from this config"
        try:
            rotary: Any = load_rope(dict(config))
        except (TypeError, ValueError):
            return {"lacks": (lack,)}
        if not isinstance(rotary, AxialRotary):
            return {"lacks": (lack,)}
        tower = TOWERS.get(config["model_type"])
        return {"rotary": ((None, rotary),), "lacks": (tower.note,) if tower and tower.note else ()}


def _layers_by_index(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the layers without RoPE by `no_rope_layers`, where 1 is a layer with RoPE, or by their interval."""
    rotated = config.get("no_rope_layers")
    if rotated:
        if not isinstance(rotated, list | tuple) or not all(one in (0, 1) for one in rotated):
            raise TypeError(f"`no_rope_layers` must be a list of 0 and 1, got {shown(rotated)}.")
        return tuple(index for index, one in enumerate(rotated) if not one)
    if model_type(config) not in INTERVALS:
        return ()
    interval, count = size(config, ("no_rope_layer_interval", FOURTH)), size(config, "num_hidden_layers")
    return tuple(range(interval - 1, count, interval))


def _query_scale(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the factor of queries at each position, as a formula."""
    if model_type(config) == "llama4" and config.get("attn_temperature_tuning"):
        scale, length = config.get("attn_scale"), config.get("floor_scale")
        if scale is None or length is None:
            raise ValueError("`attn_scale` and `floor_scale` are missing: `attn_temperature_tuning` needs them.")
        return (f"1 + {shown(scale)} * ln(1 + floor((position + 1) / {shown(length)})), in layers without RoPE",)
    for name in ROPES:
        rope = config.get(name)
        if isinstance(rope, Mapping) and rope.get("llama_4_scaling_beta"):
            beta, length = rope["llama_4_scaling_beta"], rope.get("original_max_position_embeddings")
            if length is None:
                raise ValueError("`original_max_position_embeddings` is missing: `llama_4_scaling_beta` needs it.")
            return (f"1 + {shown(beta)} * ln(1 + floor(position / {shown(length)}))",)
    return ()
