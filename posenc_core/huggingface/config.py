"""What a config says of its text model, as a dict: from a file, a folder, a dict or a config object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

ROPES = ("rope_parameters", "rope_scaling")
BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base", "global_rope_theta")
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta", "compress_rope_theta")
SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction", "rotary_percentage")
WIDTHS = ("rotary_dim", "rotary_emb_dim", "attn_rotary_emb", "rope_dim")
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length")

TEXTS = (
    "thinker_config", "vlm_config", "text_config", "llm_config", "language_config", "language_model_config",
    "lm_config",
)  # fmt: skip
_ROTARY = re.compile(r"(?<!p)rope|rotary|theta", re.IGNORECASE)  # but no properties
_NO_TEXT = re.compile(r"vision|visual|vit_|image|img|video|audio|speech|wav|codec", re.IGNORECASE)


def read(config: Any) -> dict[str, Any]:
    """The config of the text model: of a nested config the innermost of its parts for text.

    Raises:
        TypeError: if it is no config.
        ValueError: if a file holds no JSON, or parts contradict each other.
        FileNotFoundError: if there is no such file.
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
    _check_printable(given)
    try:
        return _text_part(dict(given))
    except RecursionError as error:
        raise ValueError("`config` must not be nested so deeply that Python cannot follow it.") from error


def is_rotary_key(key: object) -> bool:
    """Whether a key sounds as if it said something of a rotation, however it is spelled."""
    return _ROTARY.search(str(key)) is not None


def is_said(value: object) -> bool:
    """Whether a value is more than the absence of what its key names."""
    return value is not None and value is not False


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


def _from_file(path: Path) -> Any:
    path = path / "config.json" if path.is_dir() else path
    try:
        given = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`config` must be a path to config.json, its folder, a dict or a config object; there is no file {path}, "
            "and nothing is downloaded from the Hub."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`config` must be a file of JSON, but {path} is not: {error}.") from error
    if not isinstance(given, dict):
        raise TypeError(f"`config` must hold a JSON object, but {path} holds {type(given).__name__}.")
    return given


def _check_printable(config: Mapping[str, Any]) -> None:
    """Raise if messages could not say what the config holds."""
    try:
        repr(config)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"`config` must be nested less deeply and have shorter numbers: {error}.") from error


def _text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The innermost config for text, with what only the outer ones say of its rotation."""
    _check_nested(config)
    for name in TEXTS:
        part = config.get(name)
        if not isinstance(part, Mapping | None):
            raise TypeError(f"`{name}` must be a dict or None, got {part!r}.")
        if part is not None:
            outer = stated(config, ("model_type", *filter(is_rotary_key, config)))
            for key in {*BASES, *SHARES} & outer.keys():
                agreed({key: outer[key], f"{name}.{key}": part.get(key)})
            return _text_part(
                outer | {key: value for key, value in part.items() if value is not None or key not in outer}
            )
    return _with_attention(config)


def _with_attention(config: dict[str, Any]) -> dict[str, Any]:
    """The config with what DBRX and MPT say of positions in a dict of their own."""
    attention = config.get("attn_config")
    if not isinstance(attention, Mapping):
        return config
    for key in filter(lambda key: key == "alibi" or is_rotary_key(key), attention):
        config = {**config, key: agreed({key: config.get(key), f"attn_config.{key}": attention[key]})}
    return config


def _check_nested(config: Mapping[str, Any]) -> None:
    """Raise if a dict that is neither a part of its own nor one for the rotation says something of one."""
    for name, part in config.items():
        if isinstance(part, Mapping) and name not in (*TEXTS, *ROPES, "attn_config"):
            for path, value in _rotary_paths(str(name), part):
                raise ValueError(f"`{path}` is not looked for there, got {value!r}: move it out, or leave it out.")


def _rotary_paths(path: str, part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if _NO_TEXT.search(path) or "model_type" in part:
        return
    for key, value in part.items():
        if is_rotary_key(key) and is_said(value):
            yield f"{path}.{key}", value
        elif isinstance(value, Mapping):
            yield from _rotary_paths(f"{path}.{key}", value)
