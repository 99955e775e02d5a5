"""From a Hugging Face config to the rotary encoding that its model was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..encodings import MultimodalRotary, Rotary
from ..rotation import Layout
from ..scaling import Proportional
from .config import ROPES, read
from .heads import head_of, rotary_channels_of
from .keys import check_keys, is_rotary
from .layer_types import attention_types, parameters_of
from .models import SCALED, Model, model_of, model_type
from .parameters import completed
from .scalings import kind_of, warn


def load_rope(config: Any, *, layer_type: str | None = None, layout: Layout | None = None) -> Rotary | None:
    """The rotary encoding that a Hugging Face config describes, in the spelling of transformers 4 or 5.

    Of a multimodal config the text model is meant (`text_config`). Every key that says something of the rotation is
    used, or refused by name. Where layers are told apart by index (`no_rope_layers`), the encoding is that of those
    that turn, and of a model with a sparse indexer that of its attention. `llama_4_scaling_beta` is no rotation: there
    is a warning that queries are to be multiplied, too.

    Args:
        config: a `config.json`, the folder it is in, the dict that it holds, or a config object of transformers.
        layer_type: which layers are meant, such as `"full_attention"`, where not all turn alike; see `layer_types`.
        layout: which channels form a pair, which configs do not say: `"interleaved"`, `"half"` or
            `"interleaved_to_half"`. By default as the model does by its `model_type`, or `"half"`, as most do.
    Returns:
        `Rotary`, or `MultimodalRotary` where the config has an `mrope_section`; None if these layers do not turn.
    Raises:
        TypeError, ValueError: if a key is missing, unknown, out of range or contradicts another, or a layer type must
            be chosen.
        OSError: if there is no such file.
    Warns:
        UserWarning: if a key is used though another says something else of it, or a base is only assumed.
    Source: the formulas as in transformers 5.23, `modeling_rope_utils`.

    >>> load_rope({"head_dim": 128, "rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8.0}})
    Rotary(head_dim=128, layout='half', base=1000000.0, scaling=Linear(factor=8.0))
    """
    text = read(config)
    check_keys(text)
    _check_stated(text)
    model = model_of(text)
    if not is_rotary(text, model):
        return None
    layer_type = layer_type or _any_type(text, model)
    own, apart = parameters_of(text, layer_type)
    return None if own is None else _made(completed(own, text, apart=apart), text, layer_type, layout)


def _any_type(config: dict[str, Any], model: Model) -> str | None:
    """One of the layer types, all of which turn alike; None if the config has none.

    Raises:
        ValueError: if they do not.
    """
    types = attention_types(config)
    if len(types) < 2:
        return next(iter(types), None)
    each = [parameters_of(config, layer_type)[0] for layer_type in types]
    heads = [head_of(config, model, one) for one, own in zip(types, each, strict=True) if own is not None]
    if each != each[:1] * len(each) or len(set(heads)) > 1:
        names = ", ".join(repr(name) for name in sorted(types, key=str))
        raise ValueError(f"`layer_type` must be one of {names}, got None: they do not turn alike.")
    return types[0]


def _made(
    parameters: dict[str, Any], text: dict[str, Any], layer_type: str | None, layout: Layout | None
) -> Rotary | None:
    """The encoding of layers with these parameters; None if no channel turns."""
    model = model_of(text)
    scaling = kind_of(parameters).scaling(parameters)
    head = head_of(text, model, layer_type)
    turning = head if isinstance(scaling, Proportional) else rotary_channels_of(text, parameters, model, head)
    if parameters.get("llama_4_scaling_beta"):
        warn("`llama_4_scaling_beta` is no rotation: multiply queries by 1 + beta * ln(1 + floor(position / L0)), too.")
    if turning == 0:
        return None
    fields = {
        "head_dim": head,
        "layout": layout or _layout(text, model),
        "base": parameters["rope_theta"],
        "rotary_dim": None if turning == head else turning,
        "placement": "spread" if isinstance(scaling, Proportional) else model.placement,
        "direction": model.direction,
        "scaling": scaling,
    }
    return _dealt(fields, parameters, model)


def _check_stated(config: Mapping[str, Any]) -> None:
    """Raise if the model has a scaling of its own and the config, shortened, does not say it."""
    name = model_type(config)
    if name in SCALED and not config.keys() & set(ROPES):
        raise ValueError(f"`rope_parameters` is missing, but the `model_type` {name!r} has a scaling: add it.")


def _layout(config: Mapping[str, Any], model: Model) -> Layout:
    """The layout, from the two keys that may say it or from what is known of the model."""
    if config.get("rope_interleave") is not None:
        return "interleaved_to_half" if config["rope_interleave"] else "half"
    if config.get("rotary_emb_interleaved") is not None:
        return "interleaved" if config["rotary_emb_interleaved"] else "half"
    return "half" if config.get("use_mla") is False else model.layout


def _dealt(fields: dict[str, Any], parameters: Mapping[str, Any], model: Model) -> Rotary:
    """The encoding, its pairs dealt to several axes if the model has them."""
    given, interleaved = parameters.get("mrope_section"), parameters.get("mrope_interleaved")
    sections = model.sections if given is None else given
    if sections == ():
        _check_unsectioned(parameters)
        return Rotary(**fields)
    if interleaved is False and model.arrangement == "interleaved":
        raise ValueError("`mrope_interleaved` must be True or left out, as the model interleaves, got False.")
    if not isinstance(sections, list | tuple) or len(sections) != 3:
        raise ValueError(f"`mrope_section` must be three numbers, for time, height and width, got {sections!r}.")
    arrangement = "interleaved" if interleaved else model.arrangement
    try:
        return MultimodalRotary(**fields, sections=tuple(sections), arrangement=arrangement)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`sections`", "`mrope_section`")) from error


def _check_unsectioned(parameters: Mapping[str, Any]) -> None:
    """Raise if pairs are to be dealt, and no sections say how."""
    needing = "`mrope_interleaved`" if parameters.get("mrope_interleaved") else "`rope_type` 'mrope'"
    if parameters.get("mrope_interleaved") or "mrope" in (parameters.get("rope_type"), parameters.get("type")):
        raise ValueError(f"`mrope_section` is missing: {needing} needs it.")
