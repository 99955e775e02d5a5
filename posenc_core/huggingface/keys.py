"""Keys: the supported keys of a config, and the values that they may have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_integer, check_number, shown
from ..formats.values import named
from .config import BASES, LOCAL_BASES, ROPES, SHARES, WIDTHS, is_rotary_key, is_set, values_of
from .facts.models import model_of
from .facts.records import Model

ROTARY_FLAGS = (  # False: no RoPE
    "rotary", "use_rope", "use_mem_rope", "use_rotary_pos_emb", "use_rotary_embedding", "rope",
)  # fmt: skip
NO_ROTARY_FLAGS = ("alibi", "use_alibi", "mla_use_nope")  # True: no RoPE
FLAGS = (
    *ROTARY_FLAGS,
    *NO_ROTARY_FLAGS,
    "use_mla",
    "rope_interleave",
    "rotary_emb_interleaved",
    "original_rope",
    "use_dynamic_ntk",
)
USED = {*ROPES, *BASES, *LOCAL_BASES, *SHARES, *WIDTHS, *FLAGS, "rope_ratio", "qk_rope_head_dim", "layer_rope_theta"}
HARMLESS = {"no_rope_layers", "no_rope_layer_interval"}  # they select the layers with RoPE
REFUSED = {
    "use_dynamic_ntk": "(a scaling of Qwen)",
    "position_encoding_2d": "(separate positions for each half of a head)",
}
POSITIONS = ("position_embedding_type", "position_embeddings_type")
LARGEST = 2**31


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise if the config has a RoPE key that is not supported, or a value of the wrong type.

    Raises:
        TypeError, ValueError: with the name of the key.
    """
    for key in FLAGS:
        check_flag(key, config.get(key))
    for key, reason in REFUSED.items():
        if is_set(config.get(key)):
            raise ValueError(f"`{key}` {reason} is not supported, got {shown(config[key])}: leave it out.")
    for key, value in config.items():
        known = key in USED | HARMLESS or _scales_all(config, key) or _is_plain(config, key)
        if is_rotary_key(key) and is_set(value) and not known:
            raise ValueError(f"{named(key)} is unknown, got {shown(value)}: leave it out if it changes no angle.")
    for key in ("model_type", *POSITIONS):
        if not isinstance(config.get(key), str | None):
            raise TypeError(f"`{key}` must be a string or None, got {shown(config[key])}.")
    check_values(config)


def check_values(config: Mapping[str, Any]) -> None:
    """Raise unless every base, share and width is a number in its range."""
    for key, base in values_of(config, (*BASES, *LOCAL_BASES)).items():
        check_number(key, base, above=1)
    for key, share in values_of(config, SHARES).items():
        check_number(key, share, minimum=0)
        if share > 1:
            raise ValueError(f"`{key}` must be at most 1, got {shown(share)}.")
    for key, width in values_of(config, (*WIDTHS, "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")).items():
        check_size(key, width, minimum=0)
    check_flag("mrope_interleaved", config.get("mrope_interleaved"))


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True, False or None."""
    if not isinstance(value, bool | None):
        raise TypeError(f"`{name}` must be True or False, got {shown(value)}.")


def check_size(name: str, value: Any, *, minimum: int = 1) -> None:
    """Raise unless `value` is an integer from `minimum` on that is small enough for the size of an array."""
    check_integer(name, value, minimum=minimum, maximum=math.inf)
    if value >= LARGEST:
        raise ValueError(f"`{name}` must be less than {LARGEST}, got {shown(value)}.")


def is_rotary(config: Mapping[str, Any], model: Model) -> bool:
    """Return whether the model uses RoPE at all."""
    if model.never or True in (config.get(key) for key in NO_ROTARY_FLAGS):
        return False
    if False in (config.get(key) for key in ROTARY_FLAGS):
        return False
    name = next(iter(values_of(config, POSITIONS).values()), None)
    if model.position_embedding_type is not None:
        return name == model.position_embedding_type
    if name in (None, "", "rope", "rotary"):
        return True
    if name in ("nope", "alibi"):
        return False
    return bool(values_of(config, (*ROPES, *BASES, *SHARES, *WIDTHS)))  # "absolute" is left over in some RoPE models


def _is_plain(config: Mapping[str, Any], key: str) -> bool:
    """Return whether the key is a rope type beside the parameters that says what the code of the model assumes."""
    return key == "rope_type" and config[key] in model_of(config).plain_types


def _scales_all(config: Mapping[str, Any], key: str) -> bool:
    """Return whether the key is Molmo 2's list of scaled layers, and lists all layers."""
    count, layers = config.get("num_hidden_layers"), config[key]
    is_list = key == "rope_scaling_layers" and isinstance(layers, list) and len(layers) == count
    return is_list and layers == list(range(len(layers)))
