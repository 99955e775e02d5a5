"""Differences: keys of a config that transformers reads otherwise than `load_rope` does, which a warning names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .config import ROPES, SHARES, values_of
from .models import model_type
from .scalings import L0, changes_nothing, warn

OWN_BASES = {  # the only key for the base that transformers reads outside of `rope_parameters`
    "gpt_neox": "rotary_emb_base",
    "gpt_neox_japanese": "rotary_emb_base",
    "modernbert": "global_rope_theta",
    "modernbert-decoder": "global_rope_theta",
}
OWN_LENGTHS = {"phi3": 4096, "phi4_multimodal": 4096}  # the original length, unless it stands at the top level
FIXED_BASES = {  # the bases of layers that transformers takes if they do not stand in `rope_parameters`
    "mimo_v2_flash": {"full_attention": 5_000_000, "sliding_attention": 10000},
    "olmo3": {"sliding_attention": 500_000},
}


def warn_of_differences(
    config: Mapping[str, Any], given: Mapping[str, Any], parameters: Mapping[str, Any], layer_type: str | None
) -> None:
    """Warn of each key that transformers reads otherwise.

    Args:
        config: the config of the text model.
        given: the RoPE parameters of these layers, as they stand in the config.
        parameters: the same, completed.
        layer_type: the layers.
    """
    name = model_type(config)
    _warn_of_two_dicts(config)
    own = OWN_BASES.get(name)
    if own and config.get("rope_theta") is not None and config.get(own) is None:
        warn(f"`rope_theta` {config['rope_theta']!r} is used; for {name!r}, transformers reads `{own}` alone.")
    fixed = FIXED_BASES.get(name, {}).get(layer_type or "")
    if fixed not in (None, parameters["rope_theta"]) and not any(
        layer_type in (config.get(key) or {}) for key in ROPES
    ):
        warn(
            f"The base {parameters['rope_theta']!r} is used; transformers takes {fixed} for {layer_type!r} of {name!r}."
        )
    length = OWN_LENGTHS.get(name)
    if length not in (None, parameters.get(L0, length)) and config.get(L0) is None:
        warn(f"`{L0}` {parameters[L0]!r} is used; transformers takes {length} unless it stands outside of the dict.")
    if name == "minimax_m3_vl" and config.get("rotary_dim") and not values_of({**config, **given}, SHARES):
        warn(f"`rotary_dim` {config['rotary_dim']!r} is used; transformers reads `partial_rotary_factor` alone.")


def _warn_of_two_dicts(config: Mapping[str, Any]) -> None:
    """Warn if `rope_parameters` and `rope_scaling` differ, which are used together."""
    one, other = (_spelled(config.get(name) or {}) for name in ROPES)
    alone = sorted(key for key in {**one, **other} if one.get(key) != other.get(key))
    if one and other and alone:
        names = ", ".join(f"`{key}`" for key in alone)
        warn(
            f"`rope_parameters` and `rope_scaling` differ in {names}: both are used; transformers reads `rope_scaling`."
        )


def _spelled(rope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that have an effect, with `type` as `rope_type`."""
    kept = {str(key): value for key, value in rope.items() if not changes_nothing(key, value)}
    return kept if "type" not in kept else {"rope_type": kept.pop("type")} | kept
