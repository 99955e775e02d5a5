"""How wide the heads of a model are, and how many of their channels turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .config import agreed, stated
from .keys import check_size
from .layer_types import types_of
from .models import Model

HEADS = ("head_dim", "attention_head_dim", "kv_channels", "head_size")
SIZES = ("hidden_size", "n_embd", "d_model")
COUNTS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_num_attention_heads")
BY_LAYER = {"full_attention": "global_head_dim", "sliding_attention": "swa_head_dim"}


def head_of(config: Mapping[str, Any], model: Model, layer_type: str | None) -> int:
    """How wide a head is.

    With multi-head latent attention the channels that turn are a tensor of their own, which counts as the head; but
    where they are the last of a whole head, the head is the head.

    Raises:
        TypeError, ValueError: if nothing tells, or it is no positive integer.
    """
    if latent_of(config) and model.placement == "lead":
        given = {"qk_rope_head_dim": latent_of(config)}
    else:
        given = _of_layer(config, model, layer_type) or _of_all(config, model) or _shared_out(config)
    for name, head in given.items():
        check_size(name, head)
    return agreed(given)


def latent_of(config: Mapping[str, Any]) -> Any:
    """The channels that turn with multi-head latent attention; None without, which some configs say by 0."""
    return None if config.get("use_mla") is False else config.get("qk_rope_head_dim") or None


def _of_layer(config: Mapping[str, Any], model: Model, layer_type: str | None) -> dict[str, Any]:
    """The width in layers of this type, if they have one of their own."""
    name = BY_LAYER.get(layer_type or "", "")
    if config.get(name) is not None:
        return {name: config[name]}
    for index, one in enumerate(types_of(config)):
        if one == layer_type and index in (own := _by_index(config)):
            return own[index]
    usual = dict(model.heads).get(layer_type or "")
    return {"head_dim": usual} if usual else {}


def _by_index(config: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The widths that single layers have for themselves, by their index, under the name that tells it."""
    given = config.get("per_layer_config")
    if not isinstance(given, Mapping | None):
        raise TypeError(f"`per_layer_config` must be a dict or None, got {given!r}.")
    for index, one in (given or {}).items():
        if not str(index).isdecimal() or not isinstance(one, Mapping | None):
            raise TypeError(f"`per_layer_config` must have a dict for the index of a layer, got {index!r}: {one!r}.")
    said = {int(index): stated(one or {}, ("head_dim",)) for index, one in (given or {}).items()}
    return {index: one for index, one in said.items() if one}


def _of_all(config: Mapping[str, Any], model: Model) -> dict[str, Any]:
    if model.head_key and config.get(model.head_key) is None and config.get("head_dim") is None:
        raise ValueError(f"`{model.head_key}` is missing: add it to the config.")
    given = stated(config, HEADS if model.head_key is None else ("head_dim", model.head_key))
    return {"head_dim": model.head_dim} if model.head_dim and not config.keys() & set(HEADS) else given


def _shared_out(config: Mapping[str, Any]) -> dict[str, Any]:
    sizes, counts = (stated(config, names) for names in (SIZES, COUNTS))
    for name, value in (sizes | counts).items():
        check_size(name, value)
    size, count = agreed(sizes), agreed(counts)
    if size is None or count is None:
        raise ValueError(
            "`head_dim` is missing, and so is `hidden_size` or `num_attention_heads`: add it to the config."
        )
    if size % count:
        raise ValueError(f"`{min(sizes)}` {size} is no multiple of `{min(counts)}` {count}: add `head_dim`.")
    return {"head_dim": size // count}


def rotary_channels_of(config: Mapping[str, Any], parameters: Mapping[str, Any], model: Model, head: int) -> int:
    """How many channels of a head turn: of a share of them, the whole part.

    Raises:
        ValueError: if keys contradict each other, or it is no even number of at most all.
    """
    share, latent = parameters.get("partial_rotary_factor"), latent_of(config)
    turning = agreed({"qk_rope_head_dim": latent, "rotary_dim": parameters.get("rotary_dim")})
    wholes = {head}
    if latent:  # the share may be one of the whole head, of which that tensor is a part
        wholes |= {config.get("head_dim") or head, latent + (config.get("qk_nope_head_dim") or 0)}
    shares = {int(whole * (model.share if share is None else share)) for whole in wholes}
    if turning is None:
        (turning,) = shares
    elif share is not None and turning not in shares:
        raise ValueError(
            f"`partial_rotary_factor` {share!r} of {head} channels is not {turning}: leave one of the two out."
        )
    if turning != head and (turning % 2 or turning > head):
        name = "rotary_dim" if share is None else "partial_rotary_factor"
        raise ValueError(f"`{name}` must turn an even number of at most {head} channels, got {turning}.")
    return turning
