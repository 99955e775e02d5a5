"""What a model's code knows and its config does not say: facts by `model_type`, where they are not the usual ones.

Source: defaults of the config classes and the code of the models in transformers 5.23; chatglm and kimi_k2, which are
not there, as in vLLM 0.33. Text models only. `"name"` stands for `"name_text"`, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..encodings.rotary.base import Direction
from ..encodings.rotary.multimodal import Sections
from ..rotation import Layout, Placement


class Model(NamedTuple):
    """What holds for a model unless its config says otherwise.

    Attributes:
        layout, placement, direction: as in `Rotary`.
        base: of the frequencies, where the config names none.
        share: of each head that turns, where the config names none.
        head_dim: where the config has no such key; by default it follows from the hidden size and the number of heads.
        heads: the same for single layer types.
        sections, arrangement: how pairs are dealt to time, height and width.
        scheme: how configs before `rope_parameters` spelled one base for each layer type.
        only: the layer types that turn, where others do not and the config does not say so.
        word: the `position_embedding_type` without which nothing turns, if it decides.
        head_key: what alone tells the width of a head, where the config has other keys of such names.
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
    word: str | None = None
    head_key: str | None = None


class Series(NamedTuple):
    """One of several bases, as configs spelled them before `rope_parameters`.

    Attributes:
        key: what names the base; None: the names that other models have for theirs.
        base: the default.
        scaled: whether `rope_scaling` is for these layers.
    """

    key: str | None
    base: float
    scaled: bool


SCHEMES = {
    "rope_local_base_freq": {
        "full_attention": Series(None, 1_000_000, scaled=True),
        "sliding_attention": Series("rope_local_base_freq", 10000, scaled=False),
    },
    "local_rope_theta": {
        "full_attention": Series(None, 160_000, scaled=True),
        "sliding_attention": Series("local_rope_theta", 10000, scaled=True),
    },
    "swa_rope_theta": {
        "full_attention": Series(None, 5_000_000, scaled=True),
        "sliding_attention": Series("swa_rope_theta", 10000, scaled=False),
    },
    "compress_rope_theta": {
        "main": Series(None, 10000, scaled=False),
        "compress": Series("compress_rope_theta", 160_000, scaled=True),
    },
    "olmo3": {
        "full_attention": Series(None, 500_000, scaled=True),
        "sliding_attention": Series(None, 500_000, scaled=False),
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
    # Pairs come in adjacent and go out in halves; `rope_interleave` says whether, where a config has it.
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
    # The other way round.
    "nanochat": Model(direction="inverse"),
    # Time, height and width.
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
    # Some layers without.
    "afmoe": Model(head_dim=128, only=_SLIDING),
    "exaone4": Model(only=_SLIDING),
    "exaone_moe": Model(only=_SLIDING),
    "kolibri1": Model(head_dim=128, only=_SLIDING),
    # A share, a base or a head of their own.
    "apertus": Model(base=12_000_000),
    "bamba": Model(share=0.5),
    "bitnet": Model(base=500_000),
    "csm": Model(base=500_000),
    "cwm": Model(base=1_000_000, head_dim=128),
    "emu3": Model(base=1_000_000),
    "esm": Model(word="rotary"),
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
    "granitemoehybrid": Model(word="rope"),
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
SCALED = {"apertus", "cwm", "gemma4", "gpt_oss", "laguna", "mellum", "ministral3", "zaya"}  # even where no key says so
NEVER = {"kimi_linear", "nemotron_h"}  # do not turn, whatever their configs say


def model_type(config: Mapping[str, Any]) -> str:
    """The name under which a model is known here."""
    return str(config.get("model_type") or "").removesuffix("_text")


def model_of(config: Mapping[str, Any]) -> Model:
    """What is known of the model of a config."""
    return MODELS.get(model_type(config), Model())
