"""Layer types: the RoPE parameters that a config has for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._array_api.checks import shown
from ..formats.values import named
from .config import BASES, LOCAL_BASES, ROPES, common_value, read, values_of
from .facts.models import model_of
from .facts.records import SCHEMES, LayerBase
from .rope_types import KEYS, changes_nothing

Parameters = dict[str, Any]
MOST_TYPES = 100
NOT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe")


def layer_types(config: Any) -> tuple[str, ...]:
    """Return the layer types with different RoPE, the valid `layer_type` of `load_rope`; none if all layers are alike.

    Args:
        config: as in `load_rope`.

    >>> rope = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    >>> layer_types({"head_dim": 64, "rope_parameters": rope})
    ('full_attention', 'sliding_attention')
    """
    text_config = read(config)
    return tuple(_by_layer_type(text_config, _rope(text_config))) or _partly_rotated(text_config)


def attention_types(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the types of attention layers that a config or its model has.

    Raises:
        ValueError: if the RoPE parameters are given by layer type, and a layer has another type.
    """
    by_type = _by_layer_type(config, _rope(config))
    names = [name for name in dict.fromkeys(types_of(config)) if name not in NOT_ATTENTION]
    if by_type and not by_type.keys() >= set(names):
        raise ValueError(f"`layer_type` must be one of {listed(by_type)} as other layers have other types, got None.")
    return tuple(by_type or names) or _partly_rotated(config)


def types_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the type of each layer, or nothing if the config does not list them."""
    names = config.get("layer_types")
    if names is None:
        return ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`layer_types` must be a list of strings or None, got {shown(names)}.")
    _check_few(names)
    return tuple(names)


def parameters_of(config: dict[str, Any], layer_type: str | None) -> tuple[Parameters | None, bool]:
    """Return the RoPE parameters of one layer type, and whether the config has others for other layer types.

    The parameters are None if these layers have no RoPE.

    Raises:
        ValueError: if the config does not have the layer type, or has several and `layer_type` is None.
    """
    rope, rotated = _rope(config), _rotated_types(config)
    by_type = _by_layer_type(config, rope)
    known = {*by_type, *types_of(config), *_partly_rotated(config)}
    if layer_type is not None and not known:
        raise ValueError(
            f"`layer_type` must be left out, as all layers of this config are alike, got {shown(layer_type)}."
        )
    if layer_type not in known and (layer_type is not None or by_type):
        raise ValueError(f"`layer_type` must be one of {listed(by_type or known)}, got {shown(layer_type)}.")
    if layer_type in NOT_ATTENTION or (rotated and layer_type not in (None, *rotated)):
        return None, False
    if not by_type:
        return rope, False
    if layer_type not in by_type:
        raise ValueError(
            f"`layer_type` must be one of {listed(by_type)}, which have different RoPE, got {shown(layer_type)}."
        )
    return by_type[layer_type], True


def _rope(config: Mapping[str, Any]) -> Parameters:
    """Return the keys of `rope_parameters` and `rope_scaling` together; most configs have one of the two."""
    rope: Parameters = {}
    for name in ROPES:
        part = config.get(name)
        if not isinstance(part, Mapping | None):
            raise TypeError(f"`{name}` must be a dict or None, got {shown(part)}.")
        for key, value in (part or {}).items():
            if key in ROPES and value is not None:
                raise ValueError(f"`{name}.{key}` is not read there, got {shown(value)}: leave one of the two out.")
            rope[key] = common_value({key: rope.get(key), f"{name}.{key}": value})
    return rope


def _by_layer_type(config: dict[str, Any], rope: Parameters) -> dict[str, Parameters | None]:
    """Return the parameters of each layer type; empty if all layers have the same ones."""
    local = values_of(config, LOCAL_BASES)
    if any(_is_layer(key, value, types_of(config)) for key, value in rope.items()):
        nested = _nested(rope)
        bases = [(parameters or {}).get("rope_theta") for parameters in nested.values()]
        _check_used({key: base in bases for key, base in local.items()})
        return nested
    scheme = SCHEMES.get(model_of(config).scheme or next(iter(local), ""), {})
    _check_used({key: key in [base.key for base in scheme.values()] for key in local})
    return {layer_type: _from_base_keys(config, rope, base) for layer_type, base in scheme.items()}


def _is_layer(key: str, value: Any, names: tuple[str, ...]) -> bool:
    """Return whether a key of the RoPE parameters is a layer type."""
    return isinstance(value, Mapping) or key in names or (value is None and str(key).endswith("_attention"))


def _check_used(used: Mapping[str, bool]) -> None:
    for key in used:
        if not used[key]:
            raise ValueError(f"`{key}` is the base of no layer type of this config: leave it out.")


def _nested(rope: Parameters) -> dict[str, Parameters | None]:
    """Return the dicts of `rope_parameters` by layer type."""
    by_type = {key: value for key, value in rope.items() if key not in KEYS}
    _check_few(by_type)
    for key, layer in by_type.items():
        if not isinstance(layer, Mapping | None):
            raise TypeError(
                f"{named(key)} must be a dict or None beside {listed(by_type.keys() - {key})}, got {shown(layer)}."
            )
    for key in rope.keys() & KEYS:  # a key that each layer type has itself may be left over
        if not changes_nothing(key, rope[key]) and not all(layer is None or key in layer for layer in by_type.values()):
            raise ValueError(
                f"`{key}` must be inside each of {listed(by_type)}, not beside them, got {shown(rope[key])}."
            )
    return {key: None if layer is None else dict(layer) for key, layer in by_type.items()}


def _check_few(names: Iterable[str]) -> None:
    """Raise if there are more layer types than models have, whose comparison would take minutes."""
    if (count := len(set(names))) > MOST_TYPES:
        raise ValueError(f"`layer_types` must have at most {MOST_TYPES} different types, got {count}.")


def _from_base_keys(config: Mapping[str, Any], rope: Parameters, layer: LayerBase) -> Parameters:
    """Return the parameters of one layer type, as in `rope_parameters`, from a config with a key for each base."""
    names = (layer.key,) if layer.key else BASES
    inner = None if layer.key else rope.get("rope_theta")
    base = common_value({"rope_parameters.rope_theta": inner} | {name: config.get(name) for name in names})
    kept = rope if layer.scaled else values_of(rope, ("partial_rotary_factor",))
    attention = {} if layer.attention_factor is None else {"attention_factor": layer.attention_factor}
    return attention | kept | {"rope_theta": layer.base if base is None else base}


def _rotated_types(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the layer types with RoPE, if the model has others without; none if there is no sliding window."""
    return model_of(config).rotary_layers if config.get("sliding_window", 1) is not None else ()


def _partly_rotated(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the layer types with and without RoPE, if the model has both."""
    rotated = _rotated_types(config)
    return (*rotated, "full_attention") if rotated else ()


def listed(names: Iterable[Any]) -> str:
    """Return names for a message."""
    return shown(sorted(names, key=str))[1:].removesuffix("]")
