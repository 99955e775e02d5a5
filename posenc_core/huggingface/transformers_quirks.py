"""Differences: keys of a config that transformers reads otherwise than `load_rope` does, which a warning names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import shown
from ..encodings import AxialRotary, FoPE, Rotary
from .config import BASES, LOCAL_BASES, ROPES, SHARES, WIDTHS, values_of
from .facts.models import MODELS, SCHEMES, model_type
from .heads import latent_width
from .rope_types import L0, changes_nothing, warn

OWN_KEYS = {  # the only key that transformers reads outside of `rope_parameters` instead of the usual one
    "gpt_neox": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
    "gpt_neox_japanese": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"},
    "modernbert": {"rope_theta": "global_rope_theta"},
    "modernbert-decoder": {"rope_theta": "global_rope_theta"},
}
READERS: dict[str, set[str]] = {  # the models whose code reads a key
    "partial_rotary_factor": {
        "bamba", "deepseek_v4", "diffusion_gemma", "dots3_note", "dots3_note_audio_encoder", "glm", "glm4",
        "glm4_moe", "glm4_moe_lite", "glm4v", "glm4v_moe", "glm_image", "glm_ocr", "glmasr_encoder", "gpt_neox",
        "gpt_neox_japanese", "laguna", "mellum", "mimo_v2_flash", "minimax_m2", "minimax_m3_vl", "moonshine",
        "moonshine_streaming", "nemotron", "nemotron3_5_transcribe_asr_audio",
        "nemotron3_5_transcribe_word_timestamp", "nemotron3_diarization_audio", "neomme", "persimmon", "phi", "phi3",
        "phi4_multimodal", "qwen3_5", "qwen3_5_moe", "qwen3_next", "qwen4_exp", "recurrent_gemma", "solar_open",
        "stablelm", "step3p5", "zaya",
    },
    "qk_rope_head_dim": {
        "axk1", "axk2", "bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "dots3_note",
        "glm4_moe_lite", "glm_moe_dsa", "hy_v4", "kimi_k2", "kimi_k25", "longcat_flash", "minicpm3", "mistral4",
        "mistral_large4", "youtu",
    },
    "rotary_pct": {"gpt_neox", "gpt_neox_japanese"},
    "rotary_emb_fraction": {"nomic_bert"},
    "rotary_percentage": set(),
    "rotary_dim": {"codegen", "gptj", "minimax_m2", "minimax_m3_vl"},
    "attn_rotary_emb": {"bamba"},
    "rotary_emb_dim": set(),
    "rope_dim": set(),
    "rotary_emb_base": {"gpt_neox", "gpt_neox_japanese", "nomic_bert"},
    "rotary_embedding_base": {"seamless_m4t", "wav2vec2-bert", "wav2vec2-conformer"},
    "global_rope_theta": {"modernbert", "modernbert-decoder"},
}  # fmt: skip
ELSEWHERE = {  # not in transformers, or read by another model within
    "bailing_moe_v2", "chatglm", "fuyu", "hunyuan_image_3_moe", "interns1_pro", "kimi_k2", "mimo_v2",
    "openpangu_vl",
}  # fmt: skip
WHOLE_DICTS = {  # whose default of `rope_parameters` stands, if there is none, against keys outside
    "cosmos3_edge", "moonshine_streaming", "muse_spark", "nemotron3_5_transcribe_asr_audio",
    "nemotron3_5_transcribe_word_timestamp",
}  # fmt: skip
LOST_SHARES = {  # which rotate all channels, if `rope_parameters` has no share
    "moonshine_streaming", "nemotron3_5_transcribe_asr_audio", "nemotron3_5_transcribe_word_timestamp",
}  # fmt: skip
BY_LAYER = {
    "gemma3",
    "gemma3n",
    "mimo_v2_flash",
    "olmo3",
    "t5gemma2",
    "t5gemma2_decoder",
}  # flat `rope_parameters`: unread
DICT_BASES = {"bailing_hybrid", "higgs_audio_v2", "ministral3", "muse_spark"}  # 10000 if `rope_parameters` has no base
OWN_LENGTHS = {"phi3": 4096, "phi4_multimodal": 4096}  # the original length, unless it stands at the top level
FIXED_BASES = {  # the bases of layers that transformers takes if they do not stand in `rope_parameters`
    "mimo_v2_flash": {"full_attention": 5_000_000, "sliding_attention": 10000},
    "olmo3": {"sliding_attention": 500_000},
}


def warn_of_differences(
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    parameters: Mapping[str, Any],
    layer_type: str | None,
    rotary: Rotary | AxialRotary | FoPE | None,
) -> None:
    """Warn of each key that transformers reads otherwise.

    Args:
        config: the config of the text model.
        given: the RoPE parameters of these layers, as they stand in the config.
        parameters: the same, completed.
        layer_type: the layers.
        rotary: the encoding that they gave.
    """
    _warn_of_two_dicts(config)
    name, of_other_format = model_type(config), "layout_from" in config  # transformers does not read such configs
    if name not in MODELS or name in ELSEWHERE or rotary is None or of_other_format:
        return
    for key, own in OWN_KEYS.get(name, {}).items():
        if config.get(key) is not None and config.get(own) is None:
            warn(f"`{key}` {shown(config[key])} is used; for {shown(name)}, transformers reads `{own}` alone.")
    _warn_of_dicts(name, config)
    _warn_of_bases(name, config, given, parameters, layer_type)
    _warn_of_channels(name, config, given, rotary)
    length, used = OWN_LENGTHS.get(name), parameters.get(L0)
    if length is not None and used not in (None, length) and config.get(L0) is None:
        warn(f"`{L0}` {shown(used)} is used; transformers takes {length} unless it stands outside of the dict.")


def _warn_of_bases(
    name: str,
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    parameters: Mapping[str, Any],
    layer_type: str | None,
) -> None:
    base, model = parameters["rope_theta"], MODELS[name]
    fixed = FIXED_BASES.get(name, {}).get(layer_type or "")
    if fixed not in (None, base) and not any(layer_type in (config.get(key) or {}) for key in ROPES):
        warn(f"The base {shown(base)} is used; transformers takes {fixed} for {shown(layer_type)} of {shown(name)}.")
    if name in DICT_BASES and given.get("rope_theta", config.get("rope_theta")) is None and values_of(config, ROPES):
        warn(
            f"The base {shown(base)} is used; transformers takes 10000 for {shown(name)} if `rope_parameters` has none."
        )
    keys = [key for key in BASES[1:] if name not in READERS[key]]
    keys += [key for key in LOCAL_BASES if key not in [one.key for one in SCHEMES.get(model.scheme or "", {}).values()]]
    for key, value in values_of(config, keys).items():
        if base == value != model.base:
            warn(f"`{key}` {shown(value)} is used; transformers does not read it for {shown(name)}.")


def _warn_of_dicts(name: str, config: Mapping[str, Any]) -> None:
    """Warn of keys that transformers reads only inside, or only outside, of `rope_parameters`."""
    has_dict = any(config.get(key) for key in ROPES)
    outside = values_of(config, ("rope_theta", "partial_rotary_factor"))
    if name in WHOLE_DICTS and outside and not has_dict:
        warn(f"`{min(outside)}` is used; for {shown(name)}, transformers reads it only beside `rope_parameters`.")
    within = [key for rope in ROPES for key in config.get(rope) or ()]
    if name in LOST_SHARES and has_dict and not {*SHARES} & {*within, *outside}:
        share = MODELS[name].share
        warn(
            f"The share {share} of {shown(name)} is used; transformers rotates all channels "
            "if `rope_parameters` has none."
        )
    rope = config.get("rope_parameters") or {}
    if name in BY_LAYER and rope and not any(isinstance(value, Mapping) for value in rope.values()):
        warn(f"`rope_parameters` of all layers is used; for {shown(name)}, transformers reads it only by layer type.")


def _warn_of_channels(
    name: str, config: Mapping[str, Any], given: Mapping[str, Any], rotary: Rotary | AxialRotary | FoPE
) -> None:
    """Warn of a key that selects other channels than the model has by default, if its code does not read it."""
    if latent_width(config) and name not in READERS["qk_rope_head_dim"]:
        warn(
            f"`qk_rope_head_dim` {shown(latent_width(config))} is used; transformers does not read it "
            f"for {shown(name)}."
        )
    if latent_width(config) or rotary.rotary_channels == int(rotary.head_dim * MODELS[name].share):
        return
    for key, value in values_of({**config, **given}, (*SHARES, *WIDTHS)).items():
        if name not in READERS[key]:
            warn(f"`{key}` {shown(value)} is used; transformers does not read it for {shown(name)}.")
    if name == "minimax_m3_vl" and not values_of({**config, **given}, SHARES):
        warn(f"`rotary_dim` {shown(config['rotary_dim'])} is used; transformers reads `partial_rotary_factor` alone.")


def _warn_of_two_dicts(config: Mapping[str, Any]) -> None:
    """Warn if `rope_parameters` and `rope_scaling` differ, which are used together."""
    one, other = (_spelled(config.get(name) or {}) for name in ROPES)
    alone = sorted(key for key in {**one, **other} if one.get(key) != other.get(key))
    if all(config.get(name) for name in ROPES) and alone:
        names = ", ".join(f"`{key}`" for key in alone)
        warn(
            f"`rope_parameters` and `rope_scaling` differ in {names}: both are used; transformers reads `rope_scaling`."
        )


def _spelled(rope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that have an effect, with `type` as `rope_type`."""
    kept = {str(key): value for key, value in rope.items() if not changes_nothing(key, value)}
    return kept if "type" not in kept else {"rope_type": kept.pop("type")} | kept
