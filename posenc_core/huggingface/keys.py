"""Which keys are understood, and what kind of value each must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_integer, check_number
from .config import BASES, LOCAL_BASES, ROPES, SHARES, WIDTHS, is_rotary_key, is_said, stated
from .models import NEVER, Model, model_type

TURNING = ("rotary", "use_rope", "use_mem_rope", "use_rotary_pos_emb", "rope")  # False where nothing turns
STILL = ("alibi", "use_alibi", "mla_use_nope")  # True where nothing turns
FLAGS = (*TURNING, *STILL, "use_mla", "rope_interleave", "rotary_emb_interleaved", "original_rope", "use_dynamic_ntk")
USED = {*ROPES, *BASES, *LOCAL_BASES, *SHARES, *WIDTHS, *FLAGS, "rope_ratio", "qk_rope_head_dim", "layer_rope_theta"}
HARMLESS = {"no_rope_layers", "no_rope_layer_interval"}  # which layers turn
REFUSED = {
    "use_dynamic_ntk": "is a scaling of Qwen's own",
    "position_encoding_2d": "gives each half of a head positions of its own",
    "dual_chunk_attention_config": "moves positions by chunks",
}
LARGEST = 2**31


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise if the config says something of its rotation that is not understood, or has the wrong kind of value.

    Raises:
        TypeError, ValueError: by the name that the config has for it.
    """
    for key in FLAGS:
        check_flag(key, config.get(key))
    for key, reason in REFUSED.items():
        if is_said(config.get(key)):
            raise ValueError(f"`{key}` {reason} that no encoding here has, got {config[key]!r}: leave it out.")
    for key, value in config.items():
        if is_rotary_key(key) and is_said(value) and key not in USED | HARMLESS and not _scales_all(config, key):
            raise ValueError(f"`{key}` is not known here, got {value!r}: leave it out if it changes no angle.")
    for key in ("model_type", "position_embedding_type"):
        if not isinstance(config.get(key), str | None):
            raise TypeError(f"`{key}` must be a string or None, got {config[key]!r}.")
    check_values(config)


def check_values(config: Mapping[str, Any]) -> None:
    """Raise unless every base, share and width is a number in its range."""
    for key, base in stated(config, (*BASES, *LOCAL_BASES)).items():
        check_number(key, base, above=1)
    for key, share in stated(config, SHARES).items():
        check_number(key, share, minimum=0)
    for key, width in stated(config, (*WIDTHS, "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")).items():
        check_size(key, width, minimum=0)
    check_flag("mrope_interleaved", config.get("mrope_interleaved"))


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True, False or None."""
    if not isinstance(value, bool | None):
        raise TypeError(f"`{name}` must be True or False, got {value!r}.")


def check_size(name: str, value: Any, *, minimum: int = 1) -> None:
    """Raise unless `value` is an integer from `minimum` to what an array may have."""
    check_integer(name, value, minimum=minimum)
    if value >= LARGEST:
        raise ValueError(f"`{name}` must be less than {LARGEST}, got {value!r}.")


def is_rotary(config: Mapping[str, Any], model: Model) -> bool:
    """Whether the model turns queries and keys at all."""
    if model_type(config) in NEVER or True in (config.get(key) for key in STILL):
        return False
    if False in (config.get(key) for key in TURNING):
        return False
    word = config.get("position_embedding_type")
    if model.word is not None:
        return word == model.word
    silent = not stated(config, (*ROPES, *BASES, *SHARES, *WIDTHS))  # "absolute" is left over in some that turn
    return word in (None, "", "rope", "rotary") or not (silent or word in ("nope", "alibi"))


def _scales_all(config: Mapping[str, Any], key: str) -> bool:
    """Whether it is Molmo 2's list of the layers that are scaled, and has all of them."""
    count = config.get("num_hidden_layers")
    return key == "rope_scaling_layers" and isinstance(count, int) and config[key] == list(range(count))
