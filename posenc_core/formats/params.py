"""params.json: the RoPE of checkpoints in the formats of Mistral and Meta, as the dict of a Hugging Face config.

Source: mistral-inference 1.6 and vLLM 0.33 for Mistral, llama-models 0.3 for Meta. Both rotate adjacent channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import shown
from .values import Config, Reader, flag, integer, layer_count, number, quote, skip_layers, warn

ORIGINAL = "original_max_position_embeddings"
SIZES = {
    "hidden_size": "dim",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "num_hidden_layers": "n_layers",
}
WIDTHS = ("head_dim", "qk_rope_head_dim", "qk_nope_head_dim")
YARN = {"factor": "factor", ORIGINAL: ORIGINAL, "beta": "beta_fast", "alpha": "beta_slow"}
USED = {
    "rope_theta", "use_scaled_rope", "rope_scaling_factor", "rope_high_freq_factor", "yarn", "llama_4_scaling",
    "nope_layer_interval", *SIZES.values(), *WIDTHS,
}  # fmt: skip
OTHER_PARTS = {"vision_encoder", "vision_args", "multimodal", "moe", "moe_args", "lora", "quantization"}
LLAMA4 = {"nope_layer_interval", "use_qk_norm", "moe_args"}


def is_params(content: Config) -> bool:
    """Return whether a dict has the keys of a `params.json`."""
    others = {"_class_name", "architecture", "architectures"}  # diffusers, timm, transformers
    if others & content.keys():
        return False
    scaled = isinstance(content.get("yarn"), Mapping) or isinstance(content.get("llama_4_scaling"), Mapping)
    return scaled or "use_scaled_rope" in content or {"dim", "n_heads"} <= content.keys()


def from_params(params: Config) -> dict[str, Any]:
    """Return the config that a `params.json` describes.

    Raises:
        TypeError, ValueError: if a key is missing, of the wrong type, out of range or not supported.
    """
    params = Reader(params)
    sizes = {name: integer(params, key) for name, key in SIZES.items()} | {key: integer(params, key) for key in WIDTHS}
    base = number(params, "rope_theta", above=1)
    rope = {"rope_type": "default", "rope_theta": _usual_base(params) if base is None else base}
    rope |= _yarn(params) | _llama3(params)
    if (scaling := _part(params, "llama_4_scaling")) is not None:
        original = integer(scaling, ORIGINAL, rope.get(ORIGINAL))
        if original != rope.setdefault(ORIGINAL, original):
            raise ValueError(f"`llama_4_scaling.{ORIGINAL}` must be {rope[ORIGINAL]}, as in `yarn`, got {original}.")
        rope["llama_4_scaling_beta"] = number(scaling, "beta", minimum=0)
    layers = _layers(params)
    params.warn_of_unread(USED, {}, "it is read beside `use_scaled_rope` alone")
    others = {key: value for key, value in params.items() if key not in USED | OTHER_PARTS | {"model_type"}}
    return (
        others
        | {key: size for key, size in sizes.items() if size}
        | layers
        | {"rope_parameters": rope, "rotary_emb_interleaved": True, "layout_from": "params.json"}
        | {"own_keys": params.read_keys({})}
    )


def _layers(params: Config) -> dict[str, list[int]]:
    """Return 0 for each layer that has no RoPE in Llama 4, each n-th."""
    interval = integer(params, "nope_layer_interval")
    if interval is None:
        return {}
    if (count := layer_count(params, "n_layers")) is None:
        raise ValueError("`n_layers` is missing, beside `nope_layer_interval`: add it.")
    return {"no_rope_layers": skip_layers(count, interval)}


def _usual_base(params: Config) -> float:
    """Return the base of a model whose file has none."""
    if "multiple_of" in params:  # Llama 1 and 2
        return 10000
    base = 10000 if params.get("sliding_window") else 1_000_000
    warn(f"`rope_theta` is missing: {base}, the default of Mistral's code, is used.")
    return base


def _llama3(params: Config) -> dict[str, Any]:
    """Return the parameters of the scaling of Llama 3.1, or of Llama 4, which sets its two numbers."""
    if not flag(params, "use_scaled_rope"):
        return {}
    factor, high = (16, 1) if params.keys() & LLAMA4 else (8, 4)
    if params.get("rope_scaling_factor") is None:
        warn(f"`rope_scaling_factor` is missing: {factor}, that of Meta's code, is used; Llama 3.2 has 32.")
    return {
        "rope_type": "llama3",
        "factor": number(params, "rope_scaling_factor", factor, minimum=1),
        "low_freq_factor": 1,
        "high_freq_factor": number(params, "rope_high_freq_factor", high, minimum=1),
        ORIGINAL: 8192,
    }


def _yarn(params: Config) -> dict[str, Any]:
    """Return the parameters of YaRN; without `apply_scale`, cos and sin keep their size."""
    yarn = _part(params, "yarn")
    if yarn is None:
        return {}
    if flag(params, "use_scaled_rope"):
        raise ValueError(f"`yarn` must be left out beside `use_scaled_rope`, got {shown(yarn)}.")
    for key in yarn.keys() - {*YARN, "apply_scale"}:
        raise ValueError(
            f"{quote(f'yarn.{key}')} is unknown, got {shown(yarn[key])}: leave it out if it changes no angle."
        )
    for key in {*YARN, "apply_scale"} - yarn.keys():
        raise ValueError(f"`yarn.{key}` is missing: add it.")
    integer(yarn, ORIGINAL, minimum=2)
    names = {name: number(yarn, key, above=0) for key, name in YARN.items()}
    return {"rope_type": "yarn", **names} | ({} if flag(yarn, "apply_scale") else {"attention_factor": 1.0})


def _part(params: Config, key: str) -> Mapping[str, Any] | None:
    """Return a dict inside, or None if it is missing or None."""
    part = params.get(key)
    if not isinstance(part, Mapping | None):
        raise TypeError(f"`{key}` must be a dict or None, got {shown(part)}.")
    return part
