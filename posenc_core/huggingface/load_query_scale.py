"""Load the factor of queries that a Hugging Face config describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_integer, check_type, shown
from ..encodings import LearnedQueryScale, QueryEncoding, QueryScale
from ..scaling import YaRN
from .config import ROPES, is_foreign, join_names, read
from .facts.models import find_model
from .facts.records import QueryFactor
from .load_layers import index_types, load_layers
from .load_rope import load_rope
from .parameters import find_parameters, layer_types, list_types

OF_HYBRID = "of type 'hybrid'"


def load_query_scale(config: Any, *, layer_type: str | None = None) -> QueryEncoding | None:
    """Load the factor of queries that a Hugging Face config describes.

    Of Llama 4, Ministral 3, Mistral 4, Mistral Large 4 (learned), Beam, Inkling 2 and Qwen (LogN).

    Args:
        config: as in `load_rope`; the factor is that of the text model.
        layer_type: the layers to load, such as `"full_attention"`: Llama 4 and Beam multiply queries in layers without
            RoPE alone, Inkling 2 in those of type `"hybrid"`.
    Returns:
        A `QueryScale`, or a `LearnedQueryScale` whose parameters are in the checkpoint; without a `layer_type`, that of
        the layers that have one. None if these layers have none.
    Raises:
        TypeError, ValueError: if a key is missing or out of range, or there is no such layer type.
        OSError: if there is no such file.
    Source: the code of the models in transformers 5.23; of Qwen, `modeling_qwen.py` of its checkpoints.

    >>> load_query_scale({"model_type": "llama4_text", "attn_scale": 0.1, "floor_scale": 8192})
    QueryScale(length=8192, scale=0.1)
    """
    check_type("layer_type", layer_type, str | None, "a string or None")
    text_config = read(config)
    if is_foreign(text_config):
        return None
    known = {*layer_types(text_config), *list_types(text_config)}
    if layer_type is not None and layer_type not in known:
        raise ValueError(f"`layer_type` must be one of {join_names(known)}, got {shown(layer_type)}.")
    return find_query_scale(text_config) if layer_type is None or _is_scaled(text_config, layer_type) else None


def load_softmax_factor(config: Any, *, layer_type: str | None = None) -> float:
    """Load the factor of the softmax scale of a model, in addition to the attention factor of its RoPE.

    Models with multi-head latent attention multiply the softmax scale by the square of YaRN's growth for
    `mscale_all_dim`, where their attention factor is the quotient of two of them.

    Args:
        config, layer_type: as in `load_rope`.
    Returns:
        The factor; 1.0 for other models.
    Raises:
        TypeError, ValueError, OSError: as in `load_rope`.
    Warns:
        UserWarning: as in `load_rope`.
    Source: DeepSeek-V3, `modeling_deepseek.py` of its checkpoints.

    >>> yarn = {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
    >>> yarn["original_max_position_embeddings"] = 4096
    >>> config = {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_scaling": yarn}
    >>> round(load_softmax_factor(config), 4)
    1.8739
    """
    return softmax_factor(read(config), load_rope(config, layer_type=layer_type))


def softmax_factor(config: Mapping[str, Any], rotary: Any) -> float:
    """Return the factor of the softmax scale of a text model beside the attention factor of this RoPE."""
    scaling = getattr(rotary, "scaling", None)
    if not isinstance(scaling, YaRN) or not find_model(config).squares_factor:
        return 1.0
    return float(scaling.growth(scaling.mscale_all_dim or 0)) ** 2


def find_query_scale(config: Mapping[str, Any]) -> QueryEncoding | None:
    """Return the factor of queries in those layers of a text model that have one."""
    factor = find_model(config).query_factor
    if factor and factor.flag and not config.get(*factor.flag):
        if factor.flag[1]:
            return None  # switched off
        factor = None  # not switched on
    if factor is None:
        ropes = [rope for key in ROPES if isinstance(rope := config.get(key), Mapping)]
        rope = next((rope for rope in ropes if rope.get("llama_4_scaling_beta")), None)
        return None if rope is None else _build(rope, _LLAMA4_SCALING, start=0)
    values = {**factor.defaults, **config}
    if factor.heads:
        return LearnedQueryScale(num_heads=check_integer(factor.heads, values[factor.heads]))
    if factor.optional and values.get(str(factor.length)) is None:
        return None
    return _build(values, factor)


def list_query_scales(config: Any) -> tuple[QueryEncoding | None, ...]:
    """Return the factor of queries of each layer of a model, None for layers without one.

    Raises:
        TypeError, ValueError: as in `load_layers`.
    """
    text_config = read(config)
    scale, where = find_query_scale(text_config), layers_with_factor(text_config)
    rotary, types = load_layers(config), index_types(text_config) or ()
    has_scale = [one is None for one in rotary] if where else [True] * len(rotary)
    if where == OF_HYBRID:
        has_scale = [name == "hybrid" for name in types]
    return tuple(scale if one else None for one in has_scale)


def _is_scaled(config: dict[str, Any], layer_type: str) -> bool:
    """Return whether layers of this type multiply queries, if any do."""
    layers = layers_with_factor(config)
    if layers == OF_HYBRID:
        return layer_type == "hybrid"
    return layers is None or find_parameters(config, layer_type)[0] is None


def layers_with_factor(config: Mapping[str, Any]) -> str | None:
    """Return the layers that multiply queries, in words; None if all do."""
    factor = find_model(config).query_factor
    return factor and factor.layers


def _build(config: Mapping[str, Any], factor: QueryFactor, start: int = 1) -> QueryScale:
    """Return the factor with the numbers of these keys; errors name the keys."""
    numbers: dict[str, Any] = {"length": factor.length, "scale": factor.scale}
    keys = {name: key for name, key in numbers.items() if isinstance(key, str)}
    for name, key in reversed(keys.items()):
        if config.get(key) is None:
            raise ValueError(f"`{key}` is missing: the factor of queries needs it.")
        numbers[name] = config[key]
    try:
        return QueryScale(**numbers, growth=factor.growth, start=start)
    except (TypeError, ValueError) as error:
        message = str(error)
        for name, key in keys.items():
            message = message.replace(f"`{name}`", f"`{key}`")
        raise type(error)(message) from error


_LLAMA4_SCALING = QueryFactor("original_max_position_embeddings", "llama_4_scaling_beta")
