"""Facts about RoPE in `load_position`: what `load_rope` reads, layers without it, and the scale of queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..._array_api.checks import shown
from ...encodings import AxialRotary
from ..config import read
from ..layer_types import layer_types, types_of
from ..load_query_scale import layers_with_factor, query_scale_of
from ..load_rope import is_xdrope, load_rope, load_text, more_than
from .kinds import Config, Found, merged, size
from .models import model_of
from .towers import TOWERS


class Rope(NamedTuple):
    """RoPE of the text model, as `load_rope` reads it, for each layer type."""

    def read(self, config: Config) -> Found:
        text_config = read(config)
        names: tuple[str | None, ...] = layer_types(config) or (None,)
        rotary = tuple((name, load_text(text_config, name, None)) for name in names)
        factor = Scaled().read(text_config)
        more = {more_than(text_config, encoding) for _, encoding in rotary} - {None}
        if rotary == ((None, None),):
            return merged((factor, {"notes": ("no RoPE: queries and keys are not rotated",)}))
        unrotated = {name for name, encoding in rotary if encoding is None}
        layers = {index for index, name in enumerate(types_of(text_config)) if name in unrotated}
        found = {"rotary": rotary, "layers_without": tuple(sorted(layers | set(_layers_by_index(text_config))))}
        return merged((found, factor or {"notes": tuple(more)}))


class Scaled(NamedTuple):
    """The factor of queries, if there is one, as `load_query_scale` reads it."""

    def read(self, config: Config) -> Found:
        scale, some = query_scale_of(dict(config)), layers_with_factor(config)
        if scale is None:
            return {}
        notes = (f"queries are multiplied by `query_scale` in layers {some} alone",) if some else ()
        return {"query_scale": (scale,), "notes": notes}


class FourAxes(NamedTuple):
    """RoPE by four axes, if the config has the keys of the authors of HunYuan-VL.

    Attributes:
        lack: what the code of transformers does, for the keys of transformers.
    """

    lack: str = "RoPE whose two channels of a pair have the angles of different axes, which is not a rotation"

    def read(self, config: Config) -> Found:
        return Rope().read(config) if is_xdrope(config) else {"lacks": (self.lack,)}


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
    usual = model_of(config).no_rope_interval
    if usual is None:
        return ()
    interval, count = size(config, ("no_rope_layer_interval", usual)), size(config, "num_hidden_layers")
    return tuple(range(interval - 1, count, interval))
