"""Parameters: the numbers of the RoPE of one layer type, from all keys of a config, and the layer types that it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._array_api.checks import check_number, shown
from ..formats.values import Reader, quote, warn
from .config import (
    BASES,
    COUNTS,
    HEADS,
    LENGTHS,
    LOCAL_BASES,
    ROPES,
    SHARES,
    SIZES,
    WIDTHS,
    check_size,
    check_values,
    common_value,
    get_values,
    join_names,
    read,
)
from .facts.models import MODELS, find_model, model_type
from .facts.records import SCHEMES, LayerBase, Model
from .rope_types import KEYS, L0, LENGTH, changes_nothing

Parameters = dict[str, Any]
MOST_TYPES = 100
LAYER_BASES = "layer_rope_theta"
NOT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe")
NAMES = {"rope_theta": BASES, "partial_rotary_factor": SHARES, "rotary_dim": WIDTHS, L0: (L0,)}
BY_LAYER = {"full_attention": "global_head_dim", "sliding_attention": "swa_head_dim"}


def layer_types(config: Any) -> tuple[str, ...]:
    """Return the layer types with different RoPE, the valid `layer_type` of `load_rope`; none if all layers are alike.

    Args:
        config: as in `load_rope`.

    >>> rope = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    >>> layer_types({"head_dim": 64, "rope_parameters": rope})
    ('full_attention', 'sliding_attention')
    """
    text_config = read(config)
    return tuple(_parameters_by_type(text_config, _rope(text_config))) or _mixed_types(text_config)


def attention_types(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the types of attention layers that a config or its model has.

    Raises:
        ValueError: if the RoPE parameters are given by layer type, and a layer has another type.
    """
    by_type = _parameters_by_type(config, _rope(config))
    names = [name for name in dict.fromkeys(list_types(config)) if name not in NOT_ATTENTION]
    if by_type and not by_type.keys() >= set(names):
        raise ValueError(
            f"`layer_type` must be one of {join_names(by_type)} as other layers have other types, got None."
        )
    return tuple(by_type or names) or _mixed_types(config)


def list_types(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the type of each layer, or nothing if the config does not list them."""
    names = config.get("layer_types")
    if names is None:
        return ()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`layer_types` must be a list of strings or None, got {shown(names)}.")
    _check_type_count(names)
    return tuple(names)


def find_parameters(config: dict[str, Any], layer_type: str | None) -> tuple[Parameters | None, bool]:
    """Return the RoPE parameters of one layer type, and whether the config has others for other layer types.

    The parameters are None if these layers have no RoPE.

    Raises:
        ValueError: if the config does not have the layer type, or has several and `layer_type` is None.
    """
    rope, rotated = _rope(config), _rotary_types(config)
    by_type = _parameters_by_type(config, rope)
    known = {*by_type, *list_types(config), *_mixed_types(config)}
    if layer_type is not None and not known:
        raise ValueError(
            f"`layer_type` must be left out, as all layers of this config are alike, got {shown(layer_type)}."
        )
    if layer_type not in known and (layer_type is not None or by_type):
        raise ValueError(f"`layer_type` must be one of {join_names(by_type or known)}, got {shown(layer_type)}.")
    if layer_type in NOT_ATTENTION or (rotated and layer_type not in (None, *rotated)):
        return None, False
    if not by_type:
        return rope, False
    if layer_type not in by_type:
        raise ValueError(
            f"`layer_type` must be one of {join_names(by_type)}, which have different RoPE, got {shown(layer_type)}."
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


def _parameters_by_type(config: dict[str, Any], rope: Parameters) -> dict[str, Parameters | None]:
    """Return the parameters of each layer type; empty if all layers have the same ones."""
    local, types = get_values(config, LOCAL_BASES), list_types(config)
    if any(
        isinstance(value, Mapping) or key in types or (value is None and str(key).endswith("_attention"))
        for key, value in rope.items()
    ):
        nested = _split_by_type(rope)
        bases = [(parameters or {}).get("rope_theta") for parameters in nested.values()]
        _check_used({key: base in bases for key, base in local.items()})
        return _read_outer_keys(config, nested)
    scheme = SCHEMES.get(find_model(config).scheme or next(iter(local), ""), {})
    _check_used({key: key in [base.key for base in scheme.values()] for key in local})
    return _read_outer_keys(config, {name: _read_base_keys(config, rope, base) for name, base in scheme.items()})


def _read_outer_keys(config: dict[str, Any], by_type: dict[str, Parameters | None]) -> dict[str, Parameters | None]:
    """Return the parameters by layer type, after the keys outside are read that a type lacks or repeats."""
    for key, names in NAMES.items():
        inner = [parameters.get(key) for parameters in by_type.values() if parameters is not None]
        get_values(config, [name for name in names if None in inner or dict.get(config, name) in inner])
    return by_type


def _check_used(used: Mapping[str, bool]) -> None:
    for key in used:
        if not used[key]:
            raise ValueError(f"`{key}` is the base of no layer type of this config: leave it out.")


def _split_by_type(rope: Parameters) -> dict[str, Parameters | None]:
    """Return the dicts of `rope_parameters` by layer type."""
    by_type = {key: value for key, value in rope.items() if key not in KEYS}
    _check_type_count(by_type)
    for key, layer in by_type.items():
        if not isinstance(layer, Mapping | None):
            raise TypeError(
                f"{quote(key)} must be a dict or None beside {join_names(by_type.keys() - {key})}, got {shown(layer)}."
            )
    for key in rope.keys() & KEYS:  # a key that each layer type has itself may be left over
        if not changes_nothing(key, rope[key]) and not all(layer is None or key in layer for layer in by_type.values()):
            raise ValueError(
                f"`{key}` must be inside each of {join_names(by_type)}, not beside them, got {shown(rope[key])}."
            )
    return {key: None if layer is None else dict(layer) for key, layer in by_type.items()}


def _check_type_count(names: Iterable[str]) -> None:
    """Raise if there are more layer types than models have, whose comparison would take minutes."""
    if (count := len(set(names))) > MOST_TYPES:
        raise ValueError(f"`layer_types` must have at most {MOST_TYPES} different types, got {count}.")


def _read_base_keys(config: Mapping[str, Any], rope: Parameters, layer: LayerBase) -> Parameters:
    """Return the parameters of one layer type, as in `rope_parameters`, from a config with a key for each base."""
    names = (layer.key,) if layer.key else BASES
    inner = None if layer.key else rope.get("rope_theta")
    base = common_value({"rope_parameters.rope_theta": inner} | {name: config.get(name) for name in names})
    kept = rope if layer.scaled else get_values(rope, ("partial_rotary_factor",))
    attention = {} if layer.attention_factor is None else {"attention_factor": layer.attention_factor}
    return attention | kept | {"rope_theta": layer.base if base is None else base}


def _rotary_types(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the layer types with RoPE, if the model has others without; none if there is no sliding window."""
    return find_model(config).rotary_layers if config.get("sliding_window", 1) is not None else ()


def _mixed_types(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the layer types with and without RoPE, if the model has both."""
    rotated = _rotary_types(config)
    return (*rotated, "full_attention") if rotated else ()


def complete_parameters(
    given: Mapping[str, Any], config: dict[str, Any], *, by_layer_type: bool, layer_type: str | None
) -> Reader:
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
    parameters = {key: value for key, value in given.items() if key != "rope_dim"}
    parameters["rotary_dim"] = common_value(get_values(given, ("rotary_dim", "rope_dim")))
    if not by_layer_type and None not in (original := given.get(L0), outer := config.get(L0)) and original != outer:
        warn(
            f"`{L0}` is {shown(original)} in the rotary parameters, but {shown(outer)} outside of them, which is used."
        )
        del parameters[L0]
    for key, names in NAMES.items():
        if not by_layer_type or parameters.get(key) is None:
            inner = {f"rope_parameters.{key}": parameters.get(key)}
            parameters[key] = common_value(inner | get_values(config, names) | _derive(key, config))
    parameters[LENGTH] = _longest_length(parameters, config)
    model = find_model(config)
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
    for base in layer_bases(config):
        if base not in (0, parameters["rope_theta"]):
            raise ValueError(
                f"`{LAYER_BASES}` must be `rope_theta` {shown(parameters['rope_theta'])} or 0 in every layer, got "
                f"{shown(base)}: `load_layers` reads other bases."
            )
    return Reader(parameters)


def layer_bases(config: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the base of each layer, 0 for a layer without RoPE; nothing if the config does not list them."""
    bases = config.get(LAYER_BASES)
    if not isinstance(bases, list | tuple | None):
        raise TypeError(f"`{LAYER_BASES}` must be a list of numbers or None, got {shown(bases)}.")
    for base in bases or ():
        check_number(LAYER_BASES, base, minimum=0)
    return tuple(bases or ())


def _longest_length(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Return the longest length, which has several names."""
    lengths = get_values(config, LENGTHS)
    for name, length in lengths.items():
        check_size(name, length, minimum=-1)  # -1: no limit
    inner, outer = parameters.get(LENGTH), next(iter(lengths.values()), None)
    if None not in (inner, outer) and inner != outer:
        warn(
            f"`{LENGTH}` is {shown(inner)} in the rotary parameters, but {shown(outer)} outside of them, which is used."
        )
    return inner if outer is None else outer


def _derive(key: str, config: Mapping[str, Any]) -> dict[str, float]:
    """Return the value that another key stands for: ChatGLM's `rope_ratio`, and `projection_dim` in CLVP."""
    if key == "rope_theta" and config.get("rope_ratio") is not None:
        check_number("rope_ratio", config["rope_ratio"], above=0)
        return {"rope_ratio": 10000 * config["rope_ratio"]}
    if key == "rotary_dim" and config.get("use_rotary_embedding", model_type(config).startswith("clvp")):
        for size in (sizes := {"projection_dim": 768} | get_values(config, ("projection_dim", "num_attention_heads"))):
            check_size(size, sizes[size])
        if len(sizes) == 2:
            return {"projection_dim": max(sizes["projection_dim"] // (2 * sizes["num_attention_heads"]), 32)}
    return {}


def _usual_base(config: dict[str, Any], layer_type: str | None) -> float:
    """Return the default base of the model, or of these layers of it, for a config without one.

    Raises:
        ValueError: if the config has no RoPE key, and the model is not known to use RoPE.
    """
    name = model_type(config)
    if name and name not in MODELS:
        if not get_values(config, (*ROPES, *SHARES, *WIDTHS)):
            raise ValueError(
                f"`rope_theta` is missing, and `model_type` {shown(name)} is not known to use RoPE: add it if it does."
            )
        warn(f"`rope_theta` is missing, and its default for `model_type` {shown(name)} is unknown: 10000 is used.")
    model = find_model(config)
    own = SCHEMES.get(model.scheme or "", {}).get(layer_type or "")
    return model.base if own is None else own.base


def head_width(config: Mapping[str, Any], model: Model, layer_type: str | None) -> int:
    """Return the width of a head.

    With multi-head latent attention, the rotated channels are a separate tensor: its width counts as that of the head,
    unless the model rotates the last channels of a whole head.

    Raises:
        TypeError, ValueError: if no key determines the width, or it is not a positive integer.
    """
    if latent_width(config) and model.placement == "lead":
        widths = {"qk_rope_head_dim": latent_width(config)}
    else:
        widths = _width_of_layer(config, model, layer_type) or _width_of_all(config, model) or _from_hidden_size(config)
    for name, width in widths.items():
        check_size(name, width)
    return common_value(widths)


def latent_width(config: Mapping[str, Any]) -> Any:
    """Return the number of rotated channels in multi-head latent attention; None without it, 0 in some configs."""
    width = config.get("qk_rope_head_dim") or None
    return None if width is None or config.get("use_mla") is False else width


def _width_of_layer(config: Mapping[str, Any], model: Model, layer_type: str | None) -> dict[str, Any]:
    """Return the width in layers of this type, if it differs from that in others."""
    name = BY_LAYER.get(layer_type or "", "")
    if config.get(name) is not None:
        return {name: config[name]}
    widths, types = _widths_by_index(config), list_types(config)
    for index, one in enumerate(types):
        if one == layer_type and index in widths:
            return widths[index]
    if config.get("per_layer_config") is not None and (types or not widths):
        return {}  # transformers writes it for layers whose width differs, so that these have that of all
    default = model.head_dims.get(layer_type or "")
    return {"head_dim": default} if default else {}


def _widths_by_index(config: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the keys for the width of a head that single layers have, by the index of the layer."""
    layers = config.get("per_layer_config")
    if not isinstance(layers, Mapping | None):
        raise TypeError(f"`per_layer_config` must be a dict or None, got {shown(layers)}.")
    for index, one in (layers or {}).items():
        if not str(index).isdecimal() or len(str(index)) > 9 or not isinstance(one, Mapping | None):
            raise TypeError(
                f"`per_layer_config` must have a dict for the index of a layer, got {shown(index)}: {shown(one)}."
            )
    widths = {int(index): get_values(one or {}, ("head_dim",)) for index, one in (layers or {}).items()}
    return {index: one for index, one in widths.items() if one}


def _width_of_all(config: Mapping[str, Any], model: Model) -> dict[str, Any]:
    if model.head_key and config.get(model.head_key) is None and config.get("head_dim") is None:
        raise ValueError(f"`{model.head_key}` is missing: add it to the config.")
    widths = get_values(config, HEADS if model.head_key is None else ("head_dim", model.head_key))
    return {"head_dim": model.head_dim} if model.head_dim and not config.keys() & set(HEADS) else widths


def _from_hidden_size(config: Mapping[str, Any]) -> dict[str, Any]:
    sizes, counts = (get_values(config, names) for names in (SIZES, COUNTS))
    for name, value in (sizes | counts).items():
        check_size(name, value)
    size, count = common_value(sizes), common_value(counts)
    if size is None or count is None:
        raise ValueError(
            "`head_dim` is missing, and so is `hidden_size` or `num_attention_heads`: add it to the config."
        )
    if size % count:
        raise ValueError(f"`{min(sizes)}` {size} is not a multiple of `{min(counts)}` {count}: add `head_dim`.")
    return {"head_dim": size // count}


def count_rotary_channels(config: Mapping[str, Any], parameters: Mapping[str, Any], model: Model, head: int) -> int:
    """Return the number of rotated channels of a head: a share of the head is rounded down.

    Raises:
        ValueError: if keys contradict each other, or the number is odd or larger than the head.
    """
    share, latent = parameters.get("partial_rotary_factor"), latent_width(config)
    rotary_dim = common_value({"qk_rope_head_dim": latent, "rotary_dim": parameters.get("rotary_dim")})
    widths = {head}
    if latent:  # the share may refer to the whole head, of which the rotated tensor is a part
        widths |= {config.get("head_dim") or head, latent + (config.get("qk_nope_head_dim") or 0)}
    shares = {int(width * (model.share if share is None else share)) for width in widths}
    if rotary_dim is None and share is None and model.rotary_dim:
        if "rotary_dim" in config:
            raise ValueError("`rotary_dim` must be a number of channels, got None: without it, the model fails.")
        rotary_dim = model.rotary_dim
    if rotary_dim is None:
        (rotary_dim,) = shares
    elif share is not None and rotary_dim not in shares:
        raise ValueError(
            f"`partial_rotary_factor` {shown(share)} of {head} channels is not {rotary_dim}: leave one of the two out."
        )
    if rotary_dim != head and (rotary_dim % 2 or rotary_dim > head):
        name = "rotary_dim" if share is None else "partial_rotary_factor"
        raise ValueError(f"`{name}` must select an even number of at most {head} channels, got {rotary_dim}.")
    return rotary_dim
