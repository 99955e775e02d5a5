"""Loading: the RoPE that a Hugging Face config describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..encodings import MultimodalRotary, Rotary
from ..rotation import Layout
from ..scaling import Proportional
from .config import ROPES, read
from .heads import head_width, rotary_channels_of
from .keys import check_keys, is_rotary
from .layer_types import attention_types, parameters_of
from .models import SCALED, Model, model_of, model_type
from .parameters import complete_parameters
from .scalings import rope_type_of, warn


def load_rope(
    config: Any, *, layer_type: str | None = None, layout: Layout | None = None, part: str | None = None
) -> Rotary | None:
    """Load the RoPE that a Hugging Face config describes, with the keys of transformers 4 or 5.

    For a multimodal config, this is the RoPE of the text model (`text_config`). Every key that concerns RoPE is either
    used or rejected with an error that names it. If some layers have no RoPE by their index (`no_rope_layers`), the
    encoding is that of the other layers. For a model with a sparse indexer, it is that of the attention.
    `llama_4_scaling_beta` is not a rotation: a warning says how to multiply the queries.

    Args:
        config: a `config.json`, its folder, its content as a dict, or a config object of transformers.
        layer_type: the layers to load, such as `"full_attention"`, if not all layers are alike; see `layer_types`.
        layout: the channels that form a pair: `"interleaved"`, `"half"` or `"interleaved_to_half"`. Configs do not
            contain it: by default it is that of the `model_type`, or `"half"`, as in most models.
        part: the part of a multimodal model to load; None is the text model, the only one that is supported.
    Returns:
        `Rotary`, or `MultimodalRotary` if the config has an `mrope_section`; None if these layers have no RoPE.
    Raises:
        TypeError, ValueError: if a key is missing, unknown, out of range or contradicts another, or `layer_type` must
            be chosen.
        OSError: if there is no such file.
    Warns:
        UserWarning: if two keys contradict each other and one of them is used, or the base is only assumed.
    Source: the formulas of transformers 5.23, `modeling_rope_utils`.

    >>> load_rope({"head_dim": 128, "rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8.0}})
    Rotary(head_dim=128, layout='half', base=1000000.0, scaling=Linear(factor=8.0))
    """
    if part is not None:
        raise ValueError(f"`part` must be None, the text model, as no other part can be loaded, got {part!r}.")
    text_config = read(config)
    check_keys(text_config)
    _check_scaling_given(text_config)
    model = model_of(text_config)
    if not is_rotary(text_config, model):
        return None
    layer_type = layer_type or _any_type(text_config, model)
    parameters, by_layer_type = parameters_of(text_config, layer_type)
    if parameters is None:
        return None
    return _build(
        complete_parameters(parameters, text_config, by_layer_type=by_layer_type), text_config, layer_type, layout
    )


def _any_type(config: dict[str, Any], model: Model) -> str | None:
    """Return one of the layer types, which must all have the same RoPE; None if the config has no types.

    Raises:
        ValueError: if two types differ.
    """
    types = attention_types(config)
    if len(types) < 2:
        return next(iter(types), None)
    parameters = [parameters_of(config, name)[0] for name in types]
    widths = {head_width(config, model, name) for name, one in zip(types, parameters, strict=True) if one is not None}
    if any(one != parameters[0] for one in parameters) or len(widths) > 1:
        names = ", ".join(repr(name) for name in sorted(types, key=str))
        raise ValueError(f"`layer_type` must be one of {names}, got None: they have different RoPE.")
    return types[0]


def _build(
    parameters: dict[str, Any], config: dict[str, Any], layer_type: str | None, layout: Layout | None
) -> Rotary | None:
    """Return the encoding of layers with these parameters; None if no channel is rotated."""
    model = model_of(config)
    scaling = rope_type_of(parameters).scaling(parameters)
    head_dim = head_width(config, model, layer_type)
    is_whole = isinstance(scaling, Proportional)
    rotary_dim = head_dim if is_whole else rotary_channels_of(config, parameters, model, head_dim)
    if parameters.get("llama_4_scaling_beta"):
        warn("`llama_4_scaling_beta` is no rotation: also multiply queries by 1 + beta * ln(1 + floor(position / L0)).")
    if rotary_dim == 0:
        return None
    fields = {
        "head_dim": head_dim,
        "layout": layout or _layout(config, model),
        "base": parameters["rope_theta"],
        "rotary_dim": None if rotary_dim == head_dim else rotary_dim,
        "placement": "spread" if is_whole else model.placement,
        "direction": model.direction,
        "scaling": scaling,
    }
    return _with_axes(fields, parameters, model)


def _check_scaling_given(config: Mapping[str, Any]) -> None:
    """Raise if the model has a scaling and the config, shortened, lacks it."""
    name = model_type(config)
    if name in SCALED and not config.keys() & set(ROPES):
        raise ValueError(f"`rope_parameters` is missing, but the `model_type` {name!r} has a scaling: add it.")


def _layout(config: Mapping[str, Any], model: Model) -> Layout:
    """Return the layout, from the two keys that may contain it or from the model."""
    if config.get("rope_interleave") is not None:
        return "interleaved_to_half" if config["rope_interleave"] else "half"
    if config.get("rotary_emb_interleaved") is not None:
        return "interleaved" if config["rotary_emb_interleaved"] else "half"
    return "half" if config.get("use_mla") is False else model.layout


def _with_axes(fields: dict[str, Any], parameters: Mapping[str, Any], model: Model) -> Rotary:
    """Return the encoding, with its pairs divided among three axes if the config or the model does so."""
    sections, interleaved = parameters.get("mrope_section"), parameters.get("mrope_interleaved")
    sections = model.sections if sections is None else sections
    if sections == ():
        _check_no_axes(parameters)
        return Rotary(**fields)
    if interleaved is False and model.arrangement == "interleaved":
        raise ValueError("`mrope_interleaved` must be True or left out, as the model interleaves the axes, got False.")
    if not isinstance(sections, list | tuple) or len(sections) != 3:
        raise ValueError(f"`mrope_section` must be three numbers, for time, height and width, got {sections!r}.")
    arrangement = "interleaved" if interleaved else model.arrangement
    try:
        return MultimodalRotary(**fields, sections=tuple(sections), arrangement=arrangement)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`sections`", "`mrope_section`")) from error


def _check_no_axes(parameters: Mapping[str, Any]) -> None:
    """Raise if a key requires sections."""
    key = "`mrope_interleaved`" if parameters.get("mrope_interleaved") else "`rope_type` 'mrope'"
    if parameters.get("mrope_interleaved") or "mrope" in (parameters.get("rope_type"), parameters.get("type")):
        raise ValueError(f"`mrope_section` is missing: {key} needs it.")
