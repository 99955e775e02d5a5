"""Models: the facts about RoPE that are in a model's code and not in its config, by `model_type`.

Only text models are listed; `"name"` also stands for `"name_text"`.

Source: defaults of the config classes and the code of the models in transformers 5.23. chatglm and kimi_k2 are not in
transformers; they follow vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..encodings.rotary.base import Direction
from ..encodings.rotary.multimodal import Sections
from ..rotation import Layout, Placement


class Model(NamedTuple):
    """The defaults of a model, for keys that its config leaves out.

    Attributes:
        layout, placement, direction: as in `Rotary`.
        base: the base of the frequencies.
        share: the partial rotary factor.
        head_dim: the width of a head; None if it is the hidden size divided by the number of heads.
        heads: pairs of a layer type and its width of a head, if layer types differ.
        sections, arrangement: as in `MultimodalRotary`.
        scheme: the entry of `SCHEMES` for configs without `rope_parameters`, if layer types have different bases.
        only: the layer types with RoPE, if others have none.
        position_embedding_type: the value of that key which turns RoPE on, if the model reads it.
        head_key: the only key for the width of a head, if similar keys of the config mean something else.
    """

    layout: Layout = "half"
    placement: Placement = "lead"
    direction: Direction = "forward"
    base: float = 10000
    share: float = 1.0
    head_dim: int | None = None
    heads: tuple[tuple[str, int], ...] = ()
    sections: tuple[int, ...] = ()
    arrangement: Sections = "chunked"
    scheme: str | None = None
    only: tuple[str, ...] = ()
    position_embedding_type: str | None = None
    head_key: str | None = None


class LayerBase(NamedTuple):
    """The base of one layer type, in configs that are older than `rope_parameters`.

    Attributes:
        key: the key of the base; None for the usual keys, `BASES`.
        base: the default.
        scaled: whether `rope_scaling` applies to these layers.
    """

    key: str | None
    base: float
    scaled: bool


SCHEMES = {
    "rope_local_base_freq": {
        "full_attention": LayerBase(None, 1_000_000, scaled=True),
        "sliding_attention": LayerBase("rope_local_base_freq", 10000, scaled=False),
    },
    "local_rope_theta": {
        "full_attention": LayerBase(None, 160_000, scaled=True),
        "sliding_attention": LayerBase("local_rope_theta", 10000, scaled=True),
    },
    "swa_rope_theta": {
        "full_attention": LayerBase(None, 5_000_000, scaled=True),
        "sliding_attention": LayerBase("swa_rope_theta", 10000, scaled=False),
    },
    "compress_rope_theta": {
        "main": LayerBase(None, 10000, scaled=False),
        "compress": LayerBase("compress_rope_theta", 160_000, scaled=True),
    },
    "olmo3": {
        "full_attention": LayerBase(None, 500_000, scaled=True),
        "sliding_attention": LayerBase(None, 500_000, scaled=False),
    },
}

_SECTIONS: dict[str, tuple[Sections, tuple[int, ...]]] = {
    "qwen2": ("chunked", (16, 24, 24)),
    "qwen3": ("interleaved", (24, 20, 20)),
    "qwen3_5": ("interleaved", (11, 11, 10)),
    "glm": ("chunked", (8, 12, 12)),
    "ernie": ("ernie", (22, 22, 20)),
}


def _multimodal(family: str, **facts: Any) -> Model:
    arrangement, sections = _SECTIONS[family]
    return Model(arrangement=arrangement, sections=sections, **facts)


_SLIDING = ("sliding_attention",)

MODELS = {
    # Adjacent channels form a pair.
    "blt": Model(layout="interleaved", base=500_000),
    "chatglm": Model(layout="interleaved", share=0.5),
    "codegen": Model(layout="interleaved"),
    "cohere": Model(layout="interleaved", base=500_000),
    "cohere2": Model(layout="interleaved", only=_SLIDING),
    "cohere2_moe": Model(layout="interleaved", head_dim=128, only=_SLIDING),
    "deepseek_v2": Model(layout="interleaved"),
    "deepseek_v4": Model(
        layout="interleaved", placement="trail", head_dim=512, share=0.125, scheme="compress_rope_theta"
    ),
    "ernie4_5": Model(layout="interleaved", base=500_000, head_dim=128),
    "ernie4_5_moe": Model(layout="interleaved", base=500_000),
    "ernie4_5_vl_moe": _multimodal("ernie", layout="interleaved", base=500_000),
    "glm": Model(layout="interleaved", share=0.5, head_dim=128),
    "glm4": Model(layout="interleaved", share=0.5, head_dim=128),
    "glm4v": _multimodal("glm", layout="interleaved"),
    "glm_ocr": _multimodal("glm", layout="interleaved"),
    "gptj": Model(layout="interleaved"),
    "helium": Model(layout="interleaved", base=100_000, head_dim=128),
    "llama4": Model(layout="interleaved", base=500_000, head_dim=128, only=("chunked_attention",)),
    "moonshine": Model(layout="interleaved", share=0.9),
    "moonshine_streaming": Model(layout="interleaved", share=0.8),
    "openai_privacy_filter": Model(layout="interleaved", base=150_000, head_dim=64),
    "roformer": Model(layout="interleaved"),
    # Adjacent channels form a pair on input; the output has the pairs in halves. `rope_interleave` overrides this.
    "axk1": Model(layout="interleaved_to_half"),
    "axk2": Model(layout="interleaved_to_half"),
    "bailing_hybrid": Model(layout="interleaved_to_half", base=6_000_000),
    "deepseek_v3": Model(layout="interleaved_to_half"),
    "deepseek_v32": Model(layout="interleaved_to_half"),
    "dots3_note": Model(layout="interleaved_to_half"),
    "glm4_moe_lite": Model(layout="interleaved_to_half"),
    "glm_moe_dsa": Model(layout="interleaved_to_half"),
    "kimi_k2": Model(layout="interleaved_to_half"),
    "longcat_flash": Model(layout="interleaved_to_half", base=10_000_000),
    "mistral4": Model(layout="interleaved_to_half"),
    "mistral_large4": Model(layout="interleaved_to_half"),
    "youtu": Model(layout="interleaved_to_half"),
    # Inverse rotation.
    "nanochat": Model(direction="inverse"),
    # Three axes: time, height and width.
    "cosmos3_edge": _multimodal("qwen3", base=100_000_000, head_dim=128),
    "glm4v_moe": _multimodal("glm", share=0.5),
    "glm_image": _multimodal("glm"),
    "paddleocr_vl": _multimodal("qwen2", base=500_000, head_dim=128),
    "qwen2_5_omni": _multimodal("qwen2", base=1_000_000),
    "qwen2_5_vl": _multimodal("qwen2", base=1_000_000),
    "qwen2_vl": _multimodal("qwen2", base=1_000_000),
    "qwen3_5": _multimodal("qwen3_5", share=0.25, head_dim=256),
    "qwen3_5_moe": _multimodal("qwen3_5", share=0.25, head_dim=256),
    "qwen3_omni_moe": _multimodal("qwen3", base=1_000_000),
    "qwen3_vl": _multimodal("qwen3", base=500_000, head_dim=128),
    "qwen3_vl_moe": _multimodal("qwen3", base=500_000),
    "qwen4_exp": _multimodal("qwen3_5", head_dim=256),
    # A base for each layer type.
    "gemma3": Model(head_dim=256, scheme="rope_local_base_freq"),
    "gemma3n": Model(head_dim=256, scheme="rope_local_base_freq"),
    "mimo_v2": Model(head_dim=192, share=0.334, scheme="swa_rope_theta"),
    "mimo_v2_flash": Model(head_dim=192, share=0.334, scheme="swa_rope_theta"),
    "modernbert": Model(scheme="local_rope_theta"),
    "modernbert-decoder": Model(scheme="local_rope_theta"),
    "olmo3": Model(scheme="olmo3"),
    "t5gemma2": Model(head_dim=256, scheme="rope_local_base_freq"),
    # Some layers have no RoPE.
    "afmoe": Model(head_dim=128, only=_SLIDING),
    "exaone4": Model(only=_SLIDING),
    "exaone_moe": Model(only=_SLIDING),
    "kolibri1": Model(head_dim=128, only=_SLIDING),
    # Another partial rotary factor, base or width of a head.
    "apertus": Model(base=12_000_000),
    "bamba": Model(share=0.5),
    "bitnet": Model(base=500_000),
    "csm": Model(base=500_000),
    "cwm": Model(base=1_000_000, head_dim=128),
    "emu3": Model(base=1_000_000),
    "esm": Model(position_embedding_type="rotary"),
    "evolla": Model(base=500_000),
    "flex_olmo": Model(base=500_000),
    "fuyu": Model(base=25000, share=0.5),
    "gemma": Model(head_dim=256),
    "gemma2": Model(head_dim=256),
    "gemma4": Model(head_dim=256, heads=(("full_attention", 512),)),
    "gemma4_unified": Model(head_dim=256, heads=(("full_attention", 512),)),
    "glm4_moe": Model(share=0.5),
    "gpt_neox": Model(share=0.25),
    "gpt_oss": Model(base=150_000, head_dim=64),
    "gte": Model(base=160_000),
    "higgs_audio_v2": Model(base=500_000, head_dim=128),
    "granitemoehybrid": Model(position_embedding_type="rope"),
    "hy_v3": Model(base=11_158_840, head_dim=128),
    "internlm3": Model(head_dim=128),
    "iquestcoder": Model(head_dim=128),
    "jetmoe": Model(head_dim=128),
    "jina_embeddings_v3": Model(base=20000),
    "lfm2": Model(base=1_000_000),
    "lfm2_moe": Model(base=1_000_000),
    "minimax": Model(base=1_000_000),
    "minimax_m2": Model(base=5_000_000, head_dim=128),
    "ministral3": Model(base=1_000_000, head_dim=128),
    "mixtral": Model(base=1_000_000),
    "mllama": Model(base=500_000),
    "nemotron": Model(share=0.5),
    "nomic_bert": Model(base=1000),
    "persimmon": Model(share=0.5),
    "phi": Model(share=0.5),
    "phimoe": Model(base=1_000_000),
    "qwen3": Model(head_dim=128),
    "qwen3_next": Model(share=0.25, head_dim=256),
    "recurrent_gemma": Model(share=0.5),
    "seed_oss": Model(head_dim=128),
    "smollm3": Model(base=2_000_000),
    "solar_open": Model(base=1_000_000, head_dim=128),
    "stablelm": Model(share=0.25),
    "vaultgemma": Model(head_dim=256),
    "zamba2": Model(head_key="attention_head_dim"),
}
_USUAL = (
    "arcee", "aria", "chameleon", "dbrx", "diffllama", "doge", "dots1", "eurobert", "falcon", "falcon_h1",
    "gpt_neox_japanese", "granite", "granitemoe", "granitemoeshared", "hunyuan_v1_dense",
    "hunyuan_v1_moe", "hyperclovax", "idefics", "llama", "minicpm3", "ministral", "mistral", "moshi", "olmo", "olmo2",
    "olmo_hybrid", "olmoe", "phi3", "phi4_multimodal", "qwen2", "qwen2_moe", "qwen3_moe", "starcoder2",
)  # fmt: skip
MODELS |= dict.fromkeys(_USUAL, Model())
SCALED = {"apertus", "cwm", "gemma4", "gpt_oss", "laguna", "mellum", "ministral3", "zaya"}  # without a key for it
NEVER = {"kimi_linear", "nemotron_h"}  # no RoPE, although their configs have keys for it


def model_type(config: Mapping[str, Any]) -> str:
    """Return the name of the model in `MODELS`."""
    return str(config.get("model_type") or "").removesuffix("_text")


def model_of(config: Mapping[str, Any]) -> Model:
    """Return the defaults of the model of a config."""
    return MODELS.get(model_type(config), Model())
