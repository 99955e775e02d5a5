"""Which rotary parameters a config has for which layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .config import BASES, LOCAL_BASES, ROPES, agreed, read, stated
from .models import SCHEMES, Series, model_of
from .scalings import KEYS, changes_nothing

Parameters = dict[str, Any]
NOT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe")


def layer_types(config: Any) -> tuple[str, ...]:
    """The layer types that `load_rope` tells apart; none if all layers turn alike.

    Args:
        config: as in `load_rope`.

    >>> rope = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    >>> layer_types({"head_dim": 64, "rope_parameters": rope})
    ('full_attention', 'sliding_attention')
    """
    text = read(config)
    only = _only(text)
    return tuple(_each(text, _rope(text))) or ((*only, "full_attention") if only else ())


def attention_types(config: dict[str, Any]) -> tuple[str, ...]:
    """The layer types of attention that a config names, or the model knows of.

    Raises:
        ValueError: if some of them are not among those that the rotary parameters are told apart by.
    """
    each, only = _each(config, _rope(config)), _only(config)
    named = [name for name in dict.fromkeys(types_of(config)) if name not in NOT_ATTENTION]
    if each and not each.keys() >= set(named):
        raise ValueError(f"`layer_type` must be one of {_list(each)}, which not all layers are, got None.")
    return tuple(each or named or ((*only, "full_attention") if only else ()))


def types_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The type of each layer, where the config says it."""
    given = config.get("layer_types")
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"`layer_types` must be a list of strings or None, got {given!r}.")
    return tuple(given)


def parameters_of(config: dict[str, Any], layer_type: str | None) -> tuple[Parameters | None, bool]:
    """The rotary parameters of these layers, None if they do not turn; and whether others have others.

    Raises:
        ValueError: if the config does not have the layer type, or has several and none is asked for.
    """
    rope, only = _rope(config), _only(config)
    each = _each(config, rope)
    known = {*each, *types_of(config), *((*only, "full_attention") if only else ())}
    if layer_type is not None and not known:
        raise ValueError(f"`layer_type` must be left out, all layers of this config being alike, got {layer_type!r}.")
    if layer_type not in known and (layer_type is not None or each):
        raise ValueError(f"`layer_type` must be one of {_list(each or known)}, got {layer_type!r}.")
    if layer_type in NOT_ATTENTION or (only and layer_type not in (None, *only)):
        return None, False
    if not each:
        return rope, False
    if layer_type not in each:
        raise ValueError(f"`layer_type` must be one of {_list(each)}, which turn differently, got {layer_type!r}.")
    return each[layer_type], True


def _rope(config: Mapping[str, Any]) -> Parameters:
    """What `rope_parameters` and `rope_scaling` say, one of which most configs have."""
    rope: Parameters = {}
    for name in ROPES:
        given = config.get(name)
        if not isinstance(given, Mapping | None):
            raise TypeError(f"`{name}` must be a dict or None, got {given!r}.")
        for key, value in (given or {}).items():
            rope[key] = agreed({key: rope.get(key), f"{name}.{key}": value})
    return rope


def _each(config: dict[str, Any], rope: Parameters) -> dict[str, Parameters | None]:
    """The parameters by layer type; empty if all layers have the same."""
    local = stated(config, LOCAL_BASES)
    if any(_is_layer(key, value, types_of(config)) for key, value in rope.items()):
        nested = _nested(rope)
        _check_used(
            {key: base in [(own or {}).get("rope_theta") for own in nested.values()] for key, base in local.items()}
        )
        return nested
    scheme = SCHEMES.get(model_of(config).scheme or next(iter(local), ""), {})
    _check_used({key: key in [series.key for series in scheme.values()] for key in local})
    return {layer_type: _spelled_out(config, rope, series) for layer_type, series in scheme.items()}


def _is_layer(key: str, value: Any, names: tuple[str, ...]) -> bool:
    """Whether a key among the rotary parameters is a layer type."""
    return isinstance(value, Mapping) or key in names or (value is None and str(key).endswith("_attention"))


def _check_used(used: Mapping[str, bool]) -> None:
    for key, is_used in used.items():
        if not is_used:
            raise ValueError(f"`{key}` is the base of no layer type of this config: leave it out.")


def _nested(rope: Parameters) -> dict[str, Parameters | None]:
    each = {key: value for key, value in rope.items() if key not in KEYS}
    for key, layer in each.items():
        if not isinstance(layer, Mapping | None):
            raise TypeError(f"`{key}` must be a dict or None beside {_list(each.keys() - {key})}, got {layer!r}.")
    for key in rope.keys() & KEYS:  # what each layer type says itself may be left over
        if not changes_nothing(key, rope[key]) and not all(layer is None or key in layer for layer in each.values()):
            raise ValueError(f"`{key}` must be said of each of {_list(each)}, not beside them, got {rope[key]!r}.")
    return {key: None if layer is None else dict(layer) for key, layer in each.items()}


def _spelled_out(config: Mapping[str, Any], rope: Parameters, series: Series) -> Parameters:
    """The parameters of one layer type as `rope_parameters` has them, from keys for one base each."""
    names = (series.key,) if series.key else BASES
    own = None if series.key else rope.get("rope_theta")
    base = agreed({"rope_parameters.rope_theta": own} | {name: config.get(name) for name in names})
    kept = rope if series.scaled else stated(rope, ("partial_rotary_factor",))
    attention = {"attention_factor": 1.0} if series.key == "compress_rope_theta" else {}  # DeepSeek-V4 leaves it out
    return attention | kept | {"rope_theta": series.base if base is None else base}


def _only(config: dict[str, Any]) -> tuple[str, ...]:
    """The layer types that turn, if the model knows of some; where there is no window, all do."""
    return model_of(config).only if config.get("sliding_window", 1) is not None else ()


def _list(names: Iterable[Any]) -> str:
    return ", ".join(repr(name) for name in sorted(names, key=str))
