"""Differences: keys of a config that transformers reads otherwise than `load_rope` does, which a warning names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import shown
from ..encodings import AxialRotary, FoPE, Rotary
from ..formats.values import warn
from .config import BASES, LOCAL_BASES, ROPES, SHARES, WIDTHS, get_values, is_translated
from .facts.models import MODELS, find_model, model_type
from .facts.records import SCHEMES, Model
from .parameters import latent_width
from .rope_types import L0, changes_nothing


def warn_of_quirks(
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    parameters: Mapping[str, Any],
    layer_type: str | None,
    rotary: Rotary | AxialRotary | FoPE | None,
) -> None:
    """Warn of each key that transformers reads otherwise.

    Args:
        config: the config of the text model.
        given: the RoPE parameters of these layers, as they stand in the config.
        parameters: the same, completed.
        layer_type: the layers.
        rotary: the encoding that they gave.
    """
    _warn_of_two_dicts(config)
    name, model = model_type(config), find_model(config)
    if name not in MODELS or model.quirks.elsewhere or rotary is None or is_translated(config):
        return
    for key, own in model.quirks.key_for.items():
        if config.get(key) is not None and config.get(own) is None:
            warn(f"`{key}` {shown(config[key])} is used; for {shown(name)}, transformers reads `{own}` alone.")
    _warn_of_dicts(name, model, config)
    _warn_of_bases(name, model, config, given, parameters["rope_theta"], layer_type)
    _warn_of_channels(name, model, config, given, rotary)
    length, used = model.quirks.original_length, parameters.get(L0)
    if length is not None and used not in (None, length) and config.get(L0) is None:
        warn(f"`{L0}` {shown(used)} is used; transformers takes {length} unless it stands outside of the dict.")


def _warn_of_bases(
    name: str, model: Model, config: Mapping[str, Any], given: Mapping[str, Any], base: float, layer_type: str | None
) -> None:
    fixed = model.quirks.bases.get(layer_type or "")
    if fixed not in (None, base) and not any(layer_type in (config.get(key) or {}) for key in ROPES):
        warn(f"The base {shown(base)} is used; transformers takes {fixed} for {shown(layer_type)} of {shown(name)}.")
    is_missing = given.get("rope_theta", config.get("rope_theta")) is None
    if model.quirks.needs_base and is_missing and get_values(config, ROPES):
        warn(
            f"The base {shown(base)} is used; transformers takes 10000 for {shown(name)} if `rope_parameters` has none."
        )
    of_layers = [layer.key for layer in SCHEMES.get(model.scheme or "", {}).values()]
    for key, value in get_values(config, (*BASES[1:], *LOCAL_BASES)).items():
        if base == value != model.base and key not in (*model.quirks.reads, *of_layers):
            warn(f"`{key}` {shown(value)} is used; transformers does not read it for {shown(name)}.")


def _warn_of_dicts(name: str, model: Model, config: Mapping[str, Any]) -> None:
    """Warn of keys that transformers reads only inside, or only outside, of `rope_parameters`."""
    quirks, has_dict = model.quirks, any(config.get(key) for key in ROPES)
    outside = get_values(config, ("rope_theta", "partial_rotary_factor"))
    if quirks.whole_dict and outside and not has_dict:
        warn(f"`{min(outside)}` is used; for {shown(name)}, transformers reads it only beside `rope_parameters`.")
    within = [key for rope in ROPES for key in config.get(rope) or ()]
    if quirks.loses_share and has_dict and not {*SHARES} & {*within, *outside}:
        warn(
            f"The share {model.share} of {shown(name)} is used; transformers rotates all channels "
            "if `rope_parameters` has none."
        )
    rope = config.get("rope_parameters") or {}
    if quirks.needs_layer_types and rope and not any(isinstance(value, Mapping) for value in rope.values()):
        warn(f"`rope_parameters` of all layers is used; for {shown(name)}, transformers reads it only by layer type.")


def _warn_of_channels(
    name: str, model: Model, config: Mapping[str, Any], given: Mapping[str, Any], rotary: Rotary | AxialRotary | FoPE
) -> None:
    """Warn of a key that selects other channels than the model has by default, if its code does not read it."""
    reads = model.quirks.reads
    if latent := latent_width(config):
        if "qk_rope_head_dim" not in reads:
            warn(f"`qk_rope_head_dim` {shown(latent)} is used; transformers does not read it for {shown(name)}.")
        return
    if rotary.rotary_channels == int(rotary.head_dim * model.share):
        return
    together = {**config, **given}
    for key, value in get_values(together, (*SHARES, *WIDTHS)).items():
        if key not in reads:
            warn(f"`{key}` {shown(value)} is used; transformers does not read it for {shown(name)}.")
    if model.quirks.needs_share and not get_values(together, SHARES):
        warn(f"`rotary_dim` {shown(config['rotary_dim'])} is used; transformers reads `partial_rotary_factor` alone.")


def _warn_of_two_dicts(config: Mapping[str, Any]) -> None:
    """Warn if `rope_parameters` and `rope_scaling` differ, which are used together."""
    outer = get_values(config, ("rope_theta", "partial_rotary_factor", L0))
    one, other = (_effective_keys(outer | (config.get(name) or {})) for name in ROPES)
    alone = sorted(key for key in {**one, **other} if one.get(key) != other.get(key))
    if all(config.get(name) for name in ROPES) and alone:
        names = ", ".join(f"`{key}`" for key in alone)
        warn(
            f"`rope_parameters` and `rope_scaling` differ in {names}: both are used; transformers reads `rope_scaling`."
        )


def _effective_keys(rope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that have an effect, with `type` as `rope_type`."""
    kept = {str(key): value for key, value in rope.items() if not changes_nothing(key, value)}
    return kept if "type" not in kept else {"rope_type": kept.pop("type")} | kept
