"""What a config says of its text model, as a dict: from a file, a folder, a dict or a config object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

ROPES = ("rope_parameters", "rope_scaling")
BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base", "global_rope_theta")
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta", "compress_rope_theta")
SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction", "rotary_percentage")
WIDTHS = ("rotary_dim", "rotary_emb_dim", "attn_rotary_emb", "rope_dim")
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length")

USED = {*ROPES, *BASES, *LOCAL_BASES, *SHARES, *WIDTHS, "rope_ratio", "rope_interleave", "rotary_emb_interleaved"}
USED |= {"qk_rope_head_dim", "rotary", "use_rope", "use_mem_rope", "layer_rope_theta"}
HARMLESS = {"no_rope_layers", "no_rope_layer_interval", "original_rope"}  # which layers turn; true wherever published


def read(config: Any) -> dict[str, Any]:
    """The config of the text model: of a nested config the innermost of its parts for text.

    Raises:
        TypeError: if it is no config.
        ValueError: if a file holds no JSON, or parts contradict each other.
    """
    given = config
    if isinstance(config, str | PathLike):
        given = _from_file(Path(config))
    elif hasattr(config, "to_dict"):
        given = config.to_dict()
    if not isinstance(given, Mapping):
        raise TypeError(
            f"`config` must be a path, a dict or a config object of transformers, got {type(config).__name__}."
        )
    return _text_part(dict(given))


def _from_file(path: Path) -> Any:
    path = path / "config.json" if path.is_dir() else path
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"`config` must be a file of JSON, but {path} is not: {error}.") from error
    if not isinstance(given, dict):
        raise TypeError(f"`config` must hold a JSON object, but {path} holds {type(given).__name__}.")
    return given


def _text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The innermost config for text, with what only the outer ones say of its rotation."""
    for name in ("thinker_config", "text_config", "llm_config", "language_config"):
        part = config.get(name)
        if isinstance(part, Mapping):
            outer = {key: config[key] for key in ("model_type", *ROPES, *BASES, *SHARES) if config.get(key) is not None}
            for key in {*BASES, *SHARES} & outer.keys():
                agreed({key: outer[key], f"{name}.{key}": part.get(key)})
            return _text_part(
                outer | {key: value for key, value in part.items() if value is not None or key not in outer}
            )
    return config


def agreed(candidates: Mapping[str, Any]) -> Any:
    """The value that all of the keys have that have one; None if none has.

    Raises:
        ValueError: if two of them differ.
    """
    stated = [(key, value) for key, value in candidates.items() if value is not None]
    for key, value in stated[1:]:
        if value != stated[0][1]:
            raise ValueError(
                f"`{stated[0][0]}` is {stated[0][1]!r}, but `{key}` is {value!r}: leave one of the two out."
            )
    return stated[0][1] if stated else None


def stated(config: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Those of the keys that have a value."""
    return {key: config[key] for key in keys if config.get(key) is not None}


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise if the config says something of its rotation that is not understood."""
    if config.get("use_dynamic_ntk"):
        raise ValueError("`use_dynamic_ntk` is a scaling of Qwen's own that no encoding here has; set it to false.")
    for key, value in config.items():
        rotary = {"rope", "mrope", "xdrope", "rotary"} & set(str(key).split("_"))
        if rotary and value and key not in USED | HARMLESS:
            raise ValueError(f"`{key}` is not known here, got {value!r}: leave it out if it changes no angle.")


def is_rotary(config: Mapping[str, Any]) -> bool:
    """Whether the model turns queries and keys at all."""
    if config.get("alibi") or config.get("use_alibi"):
        return False
    if False in (config.get(key) for key in ("rotary", "use_rope", "use_mem_rope")):
        return False
    word = config.get("position_embedding_type") or "rope"
    silent = not stated(config, (*ROPES, *BASES, *SHARES, *WIDTHS))  # "absolute" is left over in some that turn
    return word in ("rope", "rotary") or not (silent or word in ("nope", "alibi"))
