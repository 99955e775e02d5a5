"""Parameters: those of one layer type, completed by the keys of the config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_number, shown
from .config import BASES, LENGTHS, ROPES, SHARES, WIDTHS, common_value, values_of
from .facts.models import MODELS, model_of, model_type
from .facts.records import SCHEMES
from .keys import check_size, check_values
from .rope_types import L0, LENGTH, warn

NAMES = {"rope_theta": BASES, "partial_rotary_factor": SHARES, "rotary_dim": WIDTHS, L0: (L0,)}


def complete_parameters(
    given: Mapping[str, Any], config: dict[str, Any], *, by_layer_type: bool, layer_type: str | None
) -> dict[str, Any]:
    """Return the parameters with the values that the config has outside of them, under one name each.

    Args:
        given: the parameters of one layer type.
        config: the config that has them.
        by_layer_type: whether the config has other parameters for other layer types. Then `given` takes precedence over
            the keys of the config; else the two must agree.
        layer_type: the layers, whose default base may be their own.
    Raises:
        TypeError, ValueError: if a value is not a number, or values contradict each other.
    """
    check_values(given)
    parameters = dict(given) | {"rotary_dim": common_value(values_of(given, ("rotary_dim", "rope_dim")))}
    if not by_layer_type and None not in (original := given.get(L0), outer := config.get(L0)) and original != outer:
        warn(
            f"`{L0}` is {shown(original)} in the rotary parameters, but {shown(outer)} outside of them, which is used."
        )
        del parameters[L0]
    for key, names in NAMES.items():
        if not by_layer_type or parameters.get(key) is None:
            inner = {f"rope_parameters.{key}": parameters.get(key)}
            parameters[key] = common_value(inner | values_of(config, names) | _derived(key, config))
    parameters[LENGTH] = _longest(parameters, config)
    model = model_of(config)
    for key, default in model.layer_defaults.get(layer_type or "", {}).items():
        parameters[key] = default if parameters[key] is None else parameters[key]
    lacks_base = parameters["rope_theta"] is None and parameters.get("encoding") is None
    if by_layer_type and lacks_base and model.needs_base:
        raise ValueError(
            f"`rope_parameters.{layer_type}.rope_theta` is missing, and {shown(model_type(config))} has no default: "
            "add it."
        )
    if parameters["rope_theta"] is None:
        parameters["rope_theta"] = _usual_base(config, layer_type)
    _check_layers(config, parameters["rope_theta"])
    return parameters


def _longest(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Return the longest length, which has several names."""
    lengths = values_of(config, LENGTHS)
    for name, length in lengths.items():
        check_size(name, length, minimum=-1)  # -1: no limit
    inner, outer = parameters.get(LENGTH), next(iter(lengths.values()), None)
    if None not in (inner, outer) and inner != outer:
        warn(
            f"`{LENGTH}` is {shown(inner)} in the rotary parameters, but {shown(outer)} outside of them, which is used."
        )
    return inner if outer is None else outer


def _derived(key: str, config: Mapping[str, Any]) -> dict[str, float]:
    """Return the value that another key stands for: ChatGLM's `rope_ratio`, and `projection_dim` in CLVP."""
    if key == "rope_theta" and config.get("rope_ratio") is not None:
        check_number("rope_ratio", config["rope_ratio"], above=0)
        return {"rope_ratio": 10000 * config["rope_ratio"]}
    if key == "rotary_dim" and config.get("use_rotary_embedding"):
        for size in (sizes := values_of(config, ("projection_dim", "num_attention_heads"))):
            check_size(size, sizes[size])
        if len(sizes) == 2:
            return {"projection_dim": max(sizes["projection_dim"] // (2 * sizes["num_attention_heads"]), 32)}
    return {}


def _check_layers(config: Mapping[str, Any], base: float) -> None:
    bases = config.get("layer_rope_theta")
    if not isinstance(bases, list | tuple | None):
        raise TypeError(f"`layer_rope_theta` must be a list of numbers or None, got {shown(bases)}.")
    for one in bases or ():
        check_number("layer_rope_theta", one, minimum=0)
        if one not in (0, base):  # 0: a layer without RoPE
            raise ValueError(
                f"`layer_rope_theta` must be `rope_theta` {shown(base)} or 0 in every layer, got {shown(one)}."
            )


def _usual_base(config: dict[str, Any], layer_type: str | None) -> float:
    """Return the default base of the model, or of these layers of it, for a config without one.

    Raises:
        ValueError: if the config has no RoPE key, and the model is not known to use RoPE.
    """
    name = model_type(config)
    if name and name not in MODELS:
        if not values_of(config, (*ROPES, *SHARES, *WIDTHS)):
            raise ValueError(
                f"`rope_theta` is missing, and `model_type` {shown(name)} is not known to use RoPE: add it if it does."
            )
        warn(f"`rope_theta` is missing, and its default for `model_type` {shown(name)} is unknown: 10000 is used.")
    model = model_of(config)
    own = SCHEMES.get(model.scheme or "", {}).get(layer_type or "")
    return model.base if own is None else own.base
