"""Load the factor of queries that a Hugging Face config describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_integer, check_type, shown
from ..encodings import LearnedQueryScale, QueryEncoding, QueryScale
from ..tables.query_factors import Growth
from .config import ROPES, is_foreign, read
from .facts.models import model_type
from .layer_types import layer_types, listed, parameters_of, types_of

WITHOUT_ROPE = {"llama4", "beam"}  # models that multiply queries in layers without RoPE alone
INKLING = {"inkling", "inkling2"}  # multiply queries in layers without a sliding window alone
BEAM = QueryScale(length=2048, scale=0.1, growth="power")  # numbers in its code


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
    known = {*layer_types(text_config), *types_of(text_config)}
    if layer_type is not None and layer_type not in known:
        raise ValueError(f"`layer_type` must be one of {listed(known)}, got {shown(layer_type)}.")
    return query_scale_of(text_config) if layer_type is None or _is_scaled(text_config, layer_type) else None


def query_scale_of(config: dict[str, Any]) -> QueryEncoding | None:
    """Return the factor of queries in those layers of a text model that have one."""
    name = model_type(config)
    if name == "beam":
        return BEAM
    if name == "mistral_large4":
        return LearnedQueryScale(num_heads=check_integer("num_attention_heads", config.get("num_attention_heads", 64)))
    if name == "llama4":
        llama = {"attn_scale": 0.1, "floor_scale": 8192, **config}  # the defaults of transformers
        return _built(llama, "attn_scale", "floor_scale") if config.get("attn_temperature_tuning", True) else None
    if name in INKLING:
        inkling = {
            "log_scaling_alpha": 0.1,
            **({"log_scaling_n_floor": 128000} if name == "inkling2" else {}),
            **config,
        }
        is_scaled = inkling.get("log_scaling_n_floor") is not None
        return _built(inkling, "log_scaling_alpha", "log_scaling_n_floor", "log") if is_scaled else None
    if name == "qwen" and config.get("use_logn_attn"):
        return _built(config, None, "seq_length", "log")
    return _of_rope_parameters(config)


def _of_rope_parameters(config: dict[str, Any]) -> QueryScale | None:
    for key in ROPES:
        rope = config.get(key)
        if isinstance(rope, Mapping) and rope.get("llama_4_scaling_beta"):
            return _built(rope, "llama_4_scaling_beta", "original_max_position_embeddings", start=0)
    return None


def only_some_layers(config: Mapping[str, Any]) -> str | None:
    """Return the layers that multiply queries, in words; None if all do."""
    if model_type(config) in INKLING:
        return "of type 'hybrid'"
    return "without RoPE" if model_type(config) in WITHOUT_ROPE else None


def _is_scaled(config: dict[str, Any], layer_type: str) -> bool:
    """Return whether layers of this type multiply queries, if any do."""
    if model_type(config) in INKLING:
        return layer_type == "hybrid"
    return model_type(config) not in WITHOUT_ROPE or parameters_of(config, layer_type)[0] is None


def _built(
    config: Mapping[str, Any], scale: str | None, length: str, growth: Growth = "steps", start: int = 1
) -> QueryScale:
    """Return the factor with the numbers of these keys; errors name the keys."""
    for key in (scale, length):
        if key is not None and config.get(key) is None:
            raise ValueError(f"`{key}` is missing: the factor of queries needs it.")
    try:
        return QueryScale(
            length=config[length], scale=None if scale is None else config[scale], growth=growth, start=start
        )
    except (TypeError, ValueError) as error:
        message = str(error).replace("`length`", f"`{length}`").replace("`scale`", f"`{scale}`")
        raise type(error)(message) from error
