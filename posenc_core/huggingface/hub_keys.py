"""Keys of the code beside the weights of some models, in those of transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._array_api.checks import check_integer, check_number, check_type, shown

Config = dict[str, Any]


def _group_by_type(config: Config) -> Config:
    """Group the bases and shares that Step 3.5 has for each layer by layer type."""
    names = {"rope_theta": "rope_theta", "partial_rotary_factor": "partial_rotary_factors"}
    lists = {key: config[name] for key, name in names.items() if isinstance(config.get(name), list | tuple)}
    types, scaling = config.get("layer_types"), config.get("rope_scaling") or {}
    if not lists or not isinstance(types, list | tuple):
        return config
    check_type("rope_scaling", scaling, Mapping, "a dict or None")
    by_type: dict[str, Config] = {}
    for key, values in lists.items():
        for index, name in enumerate(map(str, types)):
            base = values[index] if index < len(values) else None
            if base is None or by_type.setdefault(name, {}).setdefault(key, base) != base:
                raise ValueError(
                    f"`{names[key]}` must have a number for each of the {len(types)} layers, the same in all of one "
                    f"type, got {shown(values)}."
                )
    scaled = config.get("yarn_only_types") or ("full_attention",)
    by_type = {name: one | dict(scaling) if name in scaled else one for name, one in by_type.items()}
    left = {key: value for key, value in config.items() if key not in (*names.values(), "rope_scaling")}
    rotated = left.pop("use_rope_layers", None)
    return left | {"rope_parameters": by_type} | ({"no_rope_layers": [int(one) for one in rotated]} if rotated else {})


def _start_from_training(config: Config) -> Config:
    """Return the dynamic NTK scaling of nomic-embed, which starts from `max_trained_positions`."""
    factor, start = config.get("rotary_scaling_factor"), config.get("max_trained_positions")
    if factor is None or start is None or "rope_parameters" in config:  # which transformers reads instead
        return config
    left = {key: value for key, value in config.items() if key not in ("rotary_scaling_factor", "n_positions")}
    return left | {"rope_scaling": {"rope_type": "dynamic", "factor": factor}, "max_position_embeddings": start}


def _scale_base(config: Config) -> Config:
    """Return the NTK scaling of GTE: the base times the factor, and all frequencies slowed by `factor ** (2 / width)`.

    Source: `NTKScalingRotaryEmbedding` of vLLM 0.33, without `mixed_b`.
    """
    scaling = config.get("rope_scaling")
    if not isinstance(scaling, Mapping) or scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None:
        return config
    factor: Any = scaling.get("factor")
    base = config.get("rope_theta", 10000)
    check_number("factor", factor, minimum=1)
    check_number("rope_theta", base, above=1)
    size, count = (check_integer(key, config.get(key)) for key in ("hidden_size", "num_attention_heads"))
    if count > size:
        raise ValueError(f"`num_attention_heads` must be at most `hidden_size`, {size}, got {count}.")
    slower = float(factor) ** (2 * count / size)
    return config | {"rope_theta": base * factor, "rope_scaling": {"type": "linear", "factor": slower}}


SPELLINGS = {  # of Kimi's vision tower
    "init_pos_emb_height": "pos_emb_height", "init_pos_emb_width": "pos_emb_width", "vt_hidden_size": "hidden_size",
    "vt_num_attention_heads": "num_attention_heads", "vt_num_hidden_layers": "num_hidden_layers",
}  # fmt: skip
TRANSLATIONS: dict[str | None, Callable[[Config], Config]] = {
    "base": _scale_base, "layers": _group_by_type, "length": _start_from_training,
}  # fmt: skip
