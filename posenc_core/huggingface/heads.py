"""Heads: their width, and the number of their channels that are rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import shown
from .config import common_value, values_of
from .facts.records import Model
from .keys import check_size
from .layer_types import types_of

HEADS = ("head_dim", "attention_head_dim", "kv_channels", "head_size")
SIZES = ("hidden_size", "n_embd", "d_model")
COUNTS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "decoder_num_attention_heads",
    "speech_encoder_attention_heads",
)
BY_LAYER = {"full_attention": "global_head_dim", "sliding_attention": "swa_head_dim"}


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
    return None if config.get("use_mla") is False else config.get("qk_rope_head_dim") or None


def _width_of_layer(config: Mapping[str, Any], model: Model, layer_type: str | None) -> dict[str, Any]:
    """Return the width in layers of this type, if it differs from that in others."""
    name = BY_LAYER.get(layer_type or "", "")
    if config.get(name) is not None:
        return {name: config[name]}
    widths, types = _by_index(config), types_of(config)
    for index, one in enumerate(types):
        if one == layer_type and index in widths:
            return widths[index]
    if config.get("per_layer_config") is not None and (types or not widths):
        return {}  # transformers writes it for layers whose width differs, so that these have that of all
    default = model.head_dims.get(layer_type or "")
    return {"head_dim": default} if default else {}


def _by_index(config: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the keys for the width of a head that single layers have, by the index of the layer."""
    layers = config.get("per_layer_config")
    if not isinstance(layers, Mapping | None):
        raise TypeError(f"`per_layer_config` must be a dict or None, got {shown(layers)}.")
    for index, one in (layers or {}).items():
        if not str(index).isdecimal() or len(str(index)) > 9 or not isinstance(one, Mapping | None):
            raise TypeError(
                f"`per_layer_config` must have a dict for the index of a layer, got {shown(index)}: {shown(one)}."
            )
    widths = {int(index): values_of(one or {}, ("head_dim",)) for index, one in (layers or {}).items()}
    return {index: one for index, one in widths.items() if one}


def _width_of_all(config: Mapping[str, Any], model: Model) -> dict[str, Any]:
    if model.head_key and config.get(model.head_key) is None and config.get("head_dim") is None:
        raise ValueError(f"`{model.head_key}` is missing: add it to the config.")
    widths = values_of(config, HEADS if model.head_key is None else ("head_dim", model.head_key))
    return {"head_dim": model.head_dim} if model.head_dim and not config.keys() & set(HEADS) else widths


def _from_hidden_size(config: Mapping[str, Any]) -> dict[str, Any]:
    sizes, counts = (values_of(config, names) for names in (SIZES, COUNTS))
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


def rotary_channels_of(config: Mapping[str, Any], parameters: Mapping[str, Any], model: Model, head: int) -> int:
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
