"""The rotary parameters of one layer type, with what the config says beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_number
from .config import BASES, LENGTHS, ROPES, SHARES, WIDTHS, agreed, stated
from .keys import check_size, check_values
from .models import MODELS, model_of, model_type
from .scalings import L0, LENGTH, warn

NAMES = {"rope_theta": BASES, "partial_rotary_factor": SHARES, "rotary_dim": WIDTHS, L0: (L0,)}


def completed(own: Mapping[str, Any], config: dict[str, Any], *, apart: bool) -> dict[str, Any]:
    """The parameters and what stands beside them in the config, under one name each.

    Args:
        own: the parameters.
        config: the config that they are in.
        apart: whether they are those of one layer type among several: then they go before what is said of all layers;
            else the two must agree.
    Raises:
        TypeError, ValueError: if numbers are none, or contradict each other.
    """
    check_values(own)
    parameters = dict(own) | {"rotary_dim": agreed(stated(own, ("rotary_dim", "rope_dim")))}
    if not apart and None not in (original := own.get(L0), outer := config.get(L0)) and original != outer:
        warn(f"`{L0}` is {original!r} within the rotary parameters, but {outer!r} beside them, which is used.")
        del parameters[L0]
    for key, names in NAMES.items():
        if not apart or parameters.get(key) is None:
            inner = {f"rope_parameters.{key}": parameters.get(key)}
            parameters[key] = agreed(inner | stated(config, names) | (_ratio(config) if key == "rope_theta" else {}))
    parameters[LENGTH] = _longest(parameters, config)
    if parameters["rope_theta"] is None:
        parameters["rope_theta"] = _usual_base(config)
    _check_layers(config, parameters["rope_theta"])
    return parameters


def _longest(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """The longest length, which goes by several names."""
    lengths = stated(config, LENGTHS)
    for name, length in lengths.items():
        check_size(name, length, minimum=-1)  # -1: no limit
    inner, outer = parameters.get(LENGTH), next(iter(lengths.values()), None)
    if None not in (inner, outer) and inner != outer:
        warn(f"`{LENGTH}` is {inner!r} within the rotary parameters, but {outer!r} beside them, which is used.")
    return inner if outer is None else outer


def _ratio(config: Mapping[str, Any]) -> dict[str, float]:
    """The base by ChatGLM's `rope_ratio`."""
    if config.get("rope_ratio") is None:
        return {}
    check_number("rope_ratio", config["rope_ratio"], above=0)
    return {"rope_ratio": 10000 * config["rope_ratio"]}


def _check_layers(config: Mapping[str, Any], base: float) -> None:
    given = config.get("layer_rope_theta")
    if not isinstance(given, list | tuple | None):
        raise TypeError(f"`layer_rope_theta` must be a list of numbers or None, got {given!r}.")
    for each in given or ():
        if each not in (0, base):  # 0: a layer that does not turn
            raise ValueError(f"`layer_rope_theta` must be `rope_theta` {base!r} or 0 in every layer, got {each!r}.")


def _usual_base(config: dict[str, Any]) -> float:
    """The base of models that do not say theirs.

    Raises:
        ValueError: if the config says nothing of a rotation, and the model may well have none.
    """
    name = model_type(config)
    if name and name not in MODELS:
        if not stated(config, (*ROPES, *SHARES, *WIDTHS)):
            raise ValueError(
                f"`rope_theta` is missing, and `model_type` {name!r} not known to turn: add it if it does."
            )
        warn(f"`rope_theta` is missing, and unknown for `model_type` {name!r}: 10000 is used.")
    return model_of(config).base
