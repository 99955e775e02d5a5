"""Parts: the nested config of a tower in the config of a multimodal model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._array_api.checks import shown
from .config import ROPES, TEXTS, join_names, translate
from .facts.towers import SUFFIXES, TOWERS


def find_part(config: dict[str, Any], part: str | None) -> dict[str, Any]:
    """Return the nested config that `part` names, with the full `model_type` of a tower; the config itself for None.

    Args:
        config: the whole config, or that of a tower alone, which `"vision"` also names.
        part: the name of a nested config, with or without `_config` at its end, or its path, such as
            `"thinker_config.vision_config"`.
    Raises:
        TypeError: if `part` is not a string.
        ValueError: if there is no such part, or several that differ.
    """
    if part is None:
        return config
    if not isinstance(part, str):
        raise TypeError(f"`part` must be the name of a nested config such as 'vision', or None, got {shown(part)}.")
    nested = dict(_walk_parts(config, config.get("model_type")))
    found = {path: one for path, one in nested.items() if part in _names(path)}
    own = _add_full_type(config, None) if "patch_size" in config else config
    if part == "vision" and is_tower(own) and not any(map(is_tower, found.values())):
        return own
    different = [one for index, one in enumerate(found.values()) if one not in list(found.values())[:index]]
    if len(different) != 1:
        names = found or dict.fromkeys(path.rpartition(".")[2] for path in nested)
        other = "; `load_layers` has the layers that predict more tokens" if part == "mtp" else ""
        raise ValueError(
            f"`part` must name one nested config, got {shown(part)}: there are {join_names(names) or 'none'}{other}."
        )
    return different[0]


def is_tower(config: Mapping[str, Any]) -> bool:
    """Return whether a config is that of a known tower alone."""
    return isinstance(config.get("model_type"), str) and config["model_type"] in TOWERS


def _names(path: str) -> tuple[str, ...]:
    """Return the names of the nested config at a path."""
    name = path.rpartition(".")[2]
    return path, name, name.removesuffix("_config")


def _walk_parts(config: Mapping[str, Any], outer_type: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the content of each nested config; that of a backbone alone stands for its tower."""
    for key, value in config.items():
        if isinstance(value, Mapping) and key not in ROPES:
            name = str(key)
            own = _add_full_type(value, outer_type) if "vision" in name else dict(value)
            own = {"model_type": outer_type} | own if name in TEXTS else own
            own = translate(own)
            backbone = None if is_tower(own) else value.get("backbone_config")
            if name.endswith("_config") or "model_type" in value:
                yield f"{path}{name}", dict(backbone) if isinstance(backbone, Mapping) else own
            yield from _walk_parts(value, own.get("model_type"), f"{path}{name}.")


def _add_full_type(config: Mapping[str, Any], outer_type: Any) -> dict[str, Any]:
    """Return the config with the `model_type` of its tower; older configs have that of the whole model, or none."""
    name = config.get("model_type") or outer_type
    names = [f"{name}{suffix}" for suffix in SUFFIXES]
    return dict(config) | {"model_type": next((full for full in names if full in TOWERS), name)}
