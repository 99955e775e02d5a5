"""Load the RoPE that a Hugging Face config describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._array_api.checks import check_known, check_type, shown
from ..encodings import AxialRotary, DualChunk, FoPE, MixedRotary, Rotary, RotaryEncoding
from ..formats.values import Reader, warn
from ..positions.sequences import LIMIT
from ..rotation import LAYOUTS, Layout
from ..scaling import Proportional
from .config import (
    BASES,
    INDEXER_LAYOUT,
    KNOWN,
    LAYERS_WITHOUT,
    ROPES,
    ROTATED,
    SHARES,
    WIDTHS,
    check_keys,
    contents,
    find_text,
    get_values,
    is_foreign,
    is_rotary,
    is_translated,
    join_names,
)
from .diffusers import load_diffusers
from .dual_chunk import KEY as CHUNKS
from .dual_chunk import add_chunks
from .facts.audio import AUDIO
from .facts.kinds import Lack, Rope
from .facts.models import MODELS, find_model, model_type
from .facts.records import Model
from .facts.text import TEXT
from .facts.towers import REFUSED, TOWERS, WITHOUT_ROPE
from .fope import load_fope
from .indexer import INDEXER, find_indexer
from .parameters import (
    NOT_ATTENTION,
    attention_types,
    complete_parameters,
    count_rotary_channels,
    find_parameters,
    head_width,
    layer_bases,
    layer_types,
    list_types,
)
from .parts import find_part
from .posenc_type import load_encoding
from .rope_types import FOPE, L0, LENGTH, NEUTRAL, find_rope_type
from .sections import AXES_KEYS, AXES_TYPES, alternate_axes, divide_axes, is_xdrope
from .timm import load_timm
from .transformers_quirks import warn_of_quirks
from .vision import load_tower


def _mentions(facts: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether facts, which are nested tuples, have one of these kinds."""
    return isinstance(facts, kinds) or (isinstance(facts, tuple) and any(_mentions(one, kinds) for one in facts))


WITHOUT = {name for name, facts in (TEXT | AUDIO).items() if name not in MODELS and not _mentions(facts, (Lack, Rope))}


def load_rope(
    config: Any, *, layer_type: str | None = None, layout: Layout | None = None, part: str | None = None
) -> Rotary | Any:  # a union of all its results would have to be narrowed by every caller
    """Load the RoPE that a Hugging Face config describes, with the keys of transformers 4 or 5.

    For a multimodal config, this is the RoPE of the text model (`text_config`), or with `part="vision"` that of the
    vision tower; for the config of a separate tower, it is that of the tower. Every key that concerns RoPE is read,
    rejected with an error that names it, or named by a warning that nothing reads it. If some layers have no RoPE by
    their index (`no_rope_layers`), the encoding is that of the other layers; `load_layers` lists all. For a model with
    a sparse indexer, it is that of the attention, or with `part="indexer"` that of the indexer.
    A warning names any other use of positions in the model, such as a factor of its queries.

    Args:
        config: a `config.json`, its folder, its content as a dict, or a config object of transformers; the config of a
            transformer of diffusers (`_class_name`) or of a model of timm (`architecture`); a GGUF file, a
            `params.json` of Mistral or Meta, or the content of either; arguments of Megatron-LM, as a namespace, words
            or text.
        layer_type: the layers to load, such as `"full_attention"`, if not all layers are alike; see `layer_types`.
        layout: the channels that form a pair: `"interleaved"`, `"half"` or `"interleaved_to_half"`. Configs do not
            contain it: by default it is that of the weights of the `model_type` as transformers loads them, or
            `"half"`, as in most models. Without it, a warning names an unknown `model_type`, and models whose files
            have another layout than the loaded weights.
        part: the part of a multimodal model: `"vision"`, `"audio"` or another nested config by its name, with or
            without `_config` at its end, or by its path, such as `"thinker_config.vision_config"`; or `"indexer"`. The
            default is the attention of the text model.
    Returns:
        `Rotary`, or `MultimodalRotary` if the config has an `mrope_section` or `xdrope_section`, or `FoPE` if it has
        `fope_init_factor`, or `AxialRotary` if tokens have rows and columns, in a vision tower those of
        `vision_positions`, or `MixedRotary` if a model of timm learns its frequencies, or `DualChunk` if the config has
        a `dual_chunk_attention_config`, as vLLM reads it (transformers ignores the key); None if these layers have no
        RoPE.
    Raises:
        TypeError, ValueError: if a key is missing, unknown, out of range or contradicts another, `layer_type` must be
            chosen, there is no such part, or its rotation is unknown.
        OSError: if there is no such file.
    Warns:
        UserWarning: if two keys contradict each other and one of them is used, if the base or, for an unknown
            `model_type`, the layout is only assumed, or the model does more than rotate queries and keys.
    Source: the formulas of transformers 5.23, `modeling_rope_utils`.

    >>> load_rope({"head_dim": 128, "rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8.0}})
    Rotary(head_dim=128, layout='half', base=1000000.0, scaling=Linear(factor=8.0))
    """
    check_type("layer_type", layer_type, str | None, "a string or None")
    if layout is not None:
        check_known("layout", layout, LAYOUTS)
    check_type("part", part, str | None, "a string or None")
    content = contents(config)
    if part == INDEXER:
        return _load_indexer(find_text(content), layer_type, layout)
    whole = content
    if part is not None:
        content = find_known_part(content, part)
    _warn_of_permuted(whole, content, layout)
    name = content.get("model_type")
    if isinstance(name, str):
        if name in TOWERS:
            return load_tower(content, layer_type, layout)
        if name in WITHOUT_ROPE:
            return None
        if name in REFUSED:
            raise ValueError(f"`model_type` {shown(name)} is not supported: {REFUSED[name]}.")
    text_config = find_text(content)
    if is_foreign(text_config):
        return _load_foreign(text_config, layer_type, layout)
    rotary = load_text(text_config, layer_type, layout)
    if sentence := find_note(text_config, rotary):
        warn(f"`model_type` {shown(model_type(text_config))} does more than this encoding says: {sentence}")
    return rotary


def _warn_of_permuted(whole: Mapping[str, Any], config: Mapping[str, Any], layout: Layout | None) -> None:
    """Warn that the layout, if it is not given, is that of loaded weights where the file has neighbouring pairs."""
    tower, model = TOWERS.get(str(config.get("model_type"))), find_model(config)
    permuted = tower.permuted or find_model(whole).permuted == "vision" if tower else model.permuted == "text"
    if permuted and layout is None:
        warn(
            "`layout` 'half' is that of the weights as transformers loads them; in the file, neighbouring channels "
            "form a pair: pass `layout='interleaved'` for weights that are read from it."
        )


def find_known_part(content: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the nested config that `part` names; raise unless it is known how its model rotates."""
    own = find_part(content, part)
    name = own.get("model_type")
    if not (is_foreign(own) or model_type(own) in MODELS or str(name) in {*TOWERS, *WITHOUT_ROPE, *REFUSED}):
        raise ValueError(
            f"`part` {shown(part)} has the `model_type` {shown(name)}, of which it is not known how it rotates."
        )
    return own


def _load_indexer(config: dict[str, Any], layer_type: str | None, layout: Layout | None) -> RotaryEncoding | None:
    """Load the RoPE of the indexers in layers of a type; by default, of the type that has some."""
    model = find_model(config)
    if model.indexer is not None and layer_type is None:
        kind = model.rope_of_type.get(model.indexer.layer_type or "", model.indexer.layer_type)
        layer_type = kind if kind in layer_types(config) else None
    indexer = find_indexer(config, load_text(config, layer_type, None))
    return indexer if indexer is None or layout is None else replace(indexer, layout=layout)


def load_text(
    config: dict[str, Any], layer_type: str | None, layout: Layout | None = None
) -> Rotary | AxialRotary | FoPE | DualChunk | None:
    """Load the RoPE of a text model from its config, as `read` returns it; None if the layers have no RoPE."""
    check_keys(config)
    config = Reader(config)
    name, model = model_type(config), find_model(config)
    if model.refused and not is_xdrope(config):
        raise ValueError(f"`model_type` {shown(name)} cannot be loaded: {model.refused}.")
    if model.needs_parameters and not get_values(config, ROPES):
        raise ValueError(
            f"`rope_parameters` is missing, but the `model_type` {shown(name)} has a scaling "
            "or different layers: add it."
        )
    if not is_rotary(config, model) or _rotates_nowhere(config):
        return None
    layer_type = layer_type or _one_type(config, model)
    given, by_layer_type = find_parameters(config, layer_type)
    if given is None:
        return None
    parameters = complete_parameters(given, config, by_layer_type=by_layer_type, layer_type=layer_type)
    own_layout = _layout(config, model)
    rotary = _build(parameters, config, layer_type, layout or own_layout)
    if rotary is not None and parameters.get("encoding") is not None:
        rotary = load_encoding(parameters["encoding"], rotary)
    if rotary is not None:
        _warn_of_unread(config, given, parameters, model)
    warn_of_quirks(config, given, parameters, layer_type, rotary)
    if rotary is not None and layout is None and name and name not in MODELS:
        axes = getattr(rotary, "num_axes", 1)
        said = (
            "one axis" if axes == 1 else f"{axes} axes, their arrangement {shown(getattr(rotary, 'arrangement', ''))},"
        )
        warn(
            f"`model_type` {shown(name)} is unknown: {said} and `layout` {shown(rotary.layout)} are "
            "assumed; pass `layout` to confirm."
        )
    return add_chunks(rotary, config) if rotary is not None and config.get(CHUNKS) else rotary


def _rotates_nowhere(config: Mapping[str, Any]) -> bool:
    """Return whether no layer has RoPE: by its type, by its index, by its base, or as the model has other encodings."""
    if config.get("model_type") in WITHOUT and not get_values(config, (*ROPES, *BASES, *SHARES, *WIDTHS)):
        return True
    types, bases, rotated = list_types(config), layer_bases(config), config.get(ROTATED)
    still = types and {*types} <= {*NOT_ATTENTION}
    return bool(still or (bases and not any(bases)) or (isinstance(rotated, list) and rotated and not any(rotated)))


def _warn_of_unread(config: Reader, given: Mapping[str, Any], parameters: Reader, model: Model) -> None:
    """Warn of keys of RoPE, and of the parameters as they stand in the config, that nothing has read."""
    elsewhere = LAYERS_WITHOUT if model.no_rope_interval or is_translated(config) else LAYERS_WITHOUT[:1]
    name, rope_type = model_type(config), parameters.get("rope_type") or parameters.get("type") or "default"
    reason = f"it is not read for `model_type` {shown(name)} with its other keys"
    config.warn_of_unread(KNOWN.difference(elsewhere, (INDEXER_LAYOUT,)), {}, reason)
    parameters.warn_of_unread(given.keys(), NEUTRAL, f"`rope_type` {shown(rope_type)} does not read it")


def find_note(config: Mapping[str, Any], rotary: Rotary | AxialRotary | FoPE | DualChunk | None) -> str | None:
    """Return other uses of positions in the model, besides or instead of a rotation of queries and keys."""
    note = find_model(config).note
    if note and note.instead is (rotary is None) and not (note.flag and config.get(note.flag) is False):
        return note.sentence
    return None


def _load_foreign(
    config: dict[str, Any], layer_type: str | None, layout: Layout | None
) -> Rotary | AxialRotary | MixedRotary | None:
    """Load the RoPE of a config of diffusers or timm, whose layers are all alike and whose layout follows from it."""
    for name, value in (("layer_type", layer_type), ("layout", layout)):
        if value is not None:
            raise ValueError(f"`{name}` must be left out for a config of diffusers or timm, got {shown(value)}.")
    return load_diffusers(config) if "_class_name" in config else load_timm(config)


def _one_type(config: dict[str, Any], model: Model) -> str | None:
    """Return one of the layer types, which must all have the same RoPE; None if the config has no types.

    Raises:
        ValueError: if two types differ.
    """
    types = attention_types(config)
    if len(types) < 2:
        return next(iter(types), None)
    parameters = [find_parameters(config, name)[0] for name in types]
    widths = {head_width(config, model, name) for name, one in zip(types, parameters, strict=True) if one is not None}
    if any(one != parameters[0] for one in parameters) or len(widths) > 1:
        raise ValueError(f"`layer_type` must be one of {join_names(types)}, got None: they have different RoPE.")
    return types[0]


def _build(
    parameters: dict[str, Any], config: dict[str, Any], layer_type: str | None, layout: Layout
) -> Rotary | AxialRotary | FoPE | None:
    """Return the encoding of layers with these parameters; None if no channel is rotated."""
    model = find_model(config)
    scaling = find_rope_type(parameters).scaling(parameters)
    types = {parameters.get("rope_type"), parameters.get("type")}
    if "custom" in types and model.axes == 1:
        raise ValueError(
            "`rope_type` 'custom' means that the code of the model has the formula, which is known for the "
            f"`model_type` 'hunyuan_image_3_moe' alone, got {shown(model_type(config))}."
        )
    head_dim = head_width(config, model, layer_type)
    is_whole = isinstance(scaling, Proportional)
    rotary_dim = head_dim if is_whole else count_rotary_channels(config, parameters, model, head_dim)
    if parameters.get("llama_4_scaling_beta"):
        parameters.get(L0)  # the length of these factors
        warn("`llama_4_scaling_beta` is not a rotation: multiply queries by the factors of `load_query_scale`.")
    if rotary_dim == 0:
        return None
    length = parameters[LENGTH]
    fields = {
        "head_dim": head_dim,
        "layout": layout,
        "base": parameters["rope_theta"],
        "rotary_dim": None if rotary_dim == head_dim else rotary_dim,
        "placement": "spread" if is_whole else model.placement,
        "direction": model.direction,
        "scaling": scaling,
        "max_len": None if length is None or length < 1 else min(int(length), LIMIT),
    }
    fope = parameters.get("use_fope")
    if fope or (fope is None and get_values(parameters, FOPE)):
        return load_fope(fields, parameters, config)
    if model.axes > 1:
        return alternate_axes(fields, model.axes)
    has_axes = model.sections or get_values(parameters, AXES_KEYS) or types & AXES_TYPES
    return divide_axes(fields, parameters, model) if has_axes else Rotary(**fields)


def _layout(config: Mapping[str, Any], model: Model) -> Layout:
    """Return the layout, from the two keys that may contain it or from the model."""
    if config.get("rope_interleave") is not None:
        return "interleaved_to_half" if config["rope_interleave"] else "half"
    if config.get("rotary_emb_interleaved") is not None:
        return "interleaved" if config["rotary_emb_interleaved"] else "half"
    if (model.layout != "half" and config.get("use_mla") is False) or (
        model.interleaved_key and config.get(model.interleaved_key) is False
    ):
        return "half"
    return model.layout
