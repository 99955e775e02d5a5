"""Models: the facts about RoPE that are in a model's code and not in its config, by `model_type`.

Models of sequences are listed, of text or of audio; `"name"` also stands for `"name_text"` and `"name_text_model"`.

Source: defaults of the config classes and the code of the models in transformers 5.23. Those not in transformers follow
vLLM 0.33 (chatglm, kimi_k2, openpangu_vl), vLLM-Omni 0.14 (bailing_moe_v2) and their authors (hunyuan_image_3_moe).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from ...encodings.rotary.base import Direction
from ...encodings.rotary.multimodal import Sections
from ...rotation import Layout, Placement


class Model(NamedTuple):
    """The defaults of a model, for keys that its config leaves out.

    Attributes:
        layout, placement, direction: as in `Rotary`.
        base: the base of the frequencies.
        share: the partial rotary factor.
        rotary_dim: the number of rotated channels; None if it is the share of the head.
        head_dim: the width of a head; None if it is the hidden size divided by the number of heads.
        heads: pairs of a layer type and its width of a head, if layer types differ.
        sections, arrangement: as in `MultimodalRotary`; or `"openpangu"`, see `sections.spread`.
        scheme: the entry of `SCHEMES` for configs without `rope_parameters`, if layer types have different bases.
        only: the layer types with RoPE, if others have none.
        position_embedding_type: the value of that key which turns RoPE on, if the model reads it.
        head_key: the only key for the width of a head, if similar keys of the config mean something else.
        dealt: the number of axes that take the pairs in turn, if the model has a row and a column for each token.
    """

    layout: Layout = "half"
    placement: Placement = "lead"
    direction: Direction = "forward"
    base: float = 10000
    share: float = 1.0
    rotary_dim: int | None = None
    head_dim: int | None = None
    heads: tuple[tuple[str, int], ...] = ()
    sections: tuple[int, ...] = ()
    arrangement: Sections | Literal["openpangu"] = "chunked"
    scheme: str | None = None
    only: tuple[str, ...] = ()
    position_embedding_type: str | None = None
    head_key: str | None = None
    dealt: int = 1


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
    "blt_global_transformer": Model(layout="interleaved", base=500_000),
    "blt_local_decoder": Model(layout="interleaved", base=500_000),
    "blt_local_encoder": Model(layout="interleaved", base=500_000),
    "blt_patcher": Model(layout="interleaved"),
    "chatglm": Model(layout="interleaved", share=0.5),
    "codegen": Model(layout="interleaved", rotary_dim=64),
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
    "gptj": Model(layout="interleaved", rotary_dim=64),
    "helium": Model(layout="interleaved", base=100_000, head_dim=128),
    "llama4": Model(layout="interleaved", base=500_000, head_dim=128, only=("chunked_attention",)),
    "moonshine": Model(layout="interleaved", share=0.9),
    "moonshine_streaming": Model(layout="interleaved", share=0.8),
    "openai_privacy_filter": Model(layout="interleaved", base=150_000, head_dim=64),
    "pe_audio_encoder": Model(layout="interleaved", base=20000, head_dim=128),
    "pe_audio_video_encoder": Model(layout="interleaved", base=20000, head_dim=128),
    "pe_video_encoder": Model(layout="interleaved", base=20000, head_dim=128),
    "roformer": Model(layout="interleaved"),
    # Adjacent channels form a pair on input; the output has the pairs in halves. `rope_interleave` overrides this.
    "axk1": Model(layout="interleaved_to_half"),
    "axk2": Model(layout="interleaved_to_half"),
    "bailing_hybrid": Model(layout="interleaved_to_half", base=6_000_000),
    "deepseek_v3": Model(layout="interleaved_to_half"),
    "deepseek_v32": Model(layout="interleaved_to_half"),
    "dots3_note": Model(layout="interleaved_to_half", base=80_000_000),
    "glm4_moe_lite": Model(layout="interleaved_to_half"),
    "glm_moe_dsa": Model(layout="interleaved_to_half"),
    "kimi_k2": Model(layout="interleaved_to_half"),
    "longcat_flash": Model(layout="interleaved_to_half", base=10_000_000),
    "mistral4": Model(layout="interleaved_to_half"),
    "mistral_large4": Model(layout="interleaved_to_half"),
    "qwen2_5_omni_dit": Model(layout="interleaved_to_half", head_dim=64),
    "youtu": Model(layout="interleaved_to_half"),
    # Inverse rotation.
    "nanochat": Model(direction="inverse"),
    # Three axes: time, height and width.
    "cohere_compass": _multimodal("qwen3"),
    "cosmos3_edge": _multimodal("qwen3", base=100_000_000, head_dim=128),
    "glm4v_moe": _multimodal("glm", share=0.5),
    "glm_image": _multimodal("glm"),
    "paddleocr_vl": _multimodal("qwen2", base=500_000, head_dim=128),
    "qwen2_5_omni": _multimodal("qwen2", base=1_000_000),
    "qwen2_5_omni_talker": _multimodal("qwen2", base=1_000_000, head_dim=128),
    "qwen2_5_vl": _multimodal("qwen2", base=1_000_000),
    "qwen2_vl": _multimodal("qwen2", base=1_000_000),
    "qwen3_5": _multimodal("qwen3_5", share=0.25, head_dim=256),
    "qwen3_5_moe": _multimodal("qwen3_5", share=0.25, head_dim=256),
    "qwen3_omni_moe": _multimodal("qwen3", base=1_000_000),
    "qwen3_omni_moe_talker": _multimodal("qwen3"),
    "qwen3_vl": _multimodal("qwen3", base=500_000, head_dim=128),
    "qwen3_vl_moe": _multimodal("qwen3", base=500_000),
    "qwen4_exp": _multimodal("qwen3_5", head_dim=256),
    "openpangu_vl": Model(arrangement="openpangu"),
    # Two axes: rows and columns.
    "hunyuan_image_3_moe": Model(dealt=2),
    "neomme": Model(head_dim=64, dealt=2),
    # A base for each layer type.
    "gemma3": Model(head_dim=256, scheme="rope_local_base_freq"),
    "gemma3n": Model(head_dim=256, scheme="rope_local_base_freq"),
    "mimo_v2": Model(head_dim=192, share=0.334, scheme="swa_rope_theta"),
    "mimo_v2_flash": Model(head_dim=192, share=0.334, scheme="swa_rope_theta"),
    "modernbert": Model(scheme="local_rope_theta"),
    "modernbert-decoder": Model(scheme="local_rope_theta"),
    "olmo3": Model(scheme="olmo3"),
    "t5gemma2": Model(head_dim=256, scheme="rope_local_base_freq"),
    "t5gemma2_decoder": Model(head_dim=256, scheme="rope_local_base_freq"),
    # Some layers have no RoPE.
    "afmoe": Model(head_dim=128, only=_SLIDING),
    "beam": Model(head_dim=128, only=_SLIDING),
    "exaone4": Model(only=_SLIDING),
    "exaone_moe": Model(only=_SLIDING),
    "kolibri1": Model(head_dim=128, only=_SLIDING),
    # Another partial rotary factor, base or width of a head.
    "apertus": Model(base=12_000_000),
    "bailing_moe_v2": Model(share=0.5),
    "bamba": Model(share=0.5),
    "bitnet": Model(base=500_000),
    "csm": Model(base=500_000),
    "csm_depth_decoder_model": Model(base=500_000),
    "cwm": Model(base=1_000_000, head_dim=128),
    "dia_decoder": Model(head_dim=128),
    "dia_encoder": Model(head_dim=128),
    "diffusion_gemma": Model(head_dim=256, heads=(("full_attention", 512),)),
    "dots3_note_audio_encoder": Model(share=0.5),
    "embedding_gemma2": Model(head_dim=256, heads=(("full_attention", 512),)),
    "emu3": Model(base=1_000_000),
    "esm": Model(position_embedding_type="rotary"),
    "evolla": Model(base=500_000),
    "flex_olmo": Model(base=500_000),
    "flint": Model(head_dim=128),
    "fuyu": Model(base=25000, share=0.5),
    "gemma": Model(head_dim=256),
    "gemma2": Model(head_dim=256),
    "gemma4": Model(head_dim=256, heads=(("full_attention", 512),)),
    "gemma4_unified": Model(head_dim=256, heads=(("full_attention", 512),)),
    "glm4_moe": Model(share=0.5),
    "glmasr_encoder": Model(share=0.5),
    "gpt_neox": Model(share=0.25),
    "gpt_oss": Model(base=150_000, head_dim=64),
    "granitemoehybrid": Model(position_embedding_type="rope"),
    "gte": Model(base=160_000),
    "higgs_audio_v2": Model(base=500_000, head_dim=128),
    "hrm_text": Model(head_dim=128),
    "hy_v3": Model(base=11_158_840, head_dim=128),
    "hy_v4": Model(head_dim=64),
    "internlm3": Model(head_dim=128),
    "interns1_pro": Model(base=5_000_000),
    "iquestcoder": Model(head_dim=128),
    "jetmoe": Model(head_dim=128),
    "jina_embeddings_v3": Model(base=20000),
    "laguna": Model(head_dim=128),
    "lfm2": Model(base=1_000_000),
    "lfm2_moe": Model(base=1_000_000),
    "lfm3": Model(base=1_000_000, head_dim=128),
    "mellum": Model(head_dim=128),
    "minimax": Model(base=1_000_000),
    "minimax_m2": Model(base=5_000_000, head_dim=128),
    "minimax_m3_vl": Model(base=5_000_000, head_dim=128),
    "ministral3": Model(base=1_000_000, head_dim=128),
    "mixtral": Model(base=1_000_000),
    "mllama": Model(base=500_000),
    "molmo2": Model(head_dim=128),
    "muse_glimmer": Model(head_dim=128),
    "muse_glimmer_assistant": Model(base=500_000, head_dim=128),
    "muse_spark": Model(base=500_000, head_dim=64),
    "nemotron": Model(share=0.5),
    "nemotron3_5_transcribe_asr_audio": Model(share=0.5),
    "nemotron3_5_transcribe_word_timestamp": Model(share=0.5),
    "neucodec": Model(head_dim=64),
    "nomic_bert": Model(base=1000),
    "persimmon": Model(share=0.5),
    "phi": Model(share=0.5),
    "phimoe": Model(base=1_000_000),
    "qwen3": Model(head_dim=128),
    "qwen3_next": Model(share=0.25, head_dim=256),
    "qwen3_omni_moe_talker_code_predictor": Model(head_dim=128),
    "recurrent_gemma": Model(share=0.5),
    "seamless_m4t": Model(position_embedding_type="rotary"),
    "seed_oss": Model(head_dim=128),
    "smollm3": Model(base=2_000_000),
    "solar_open": Model(base=1_000_000, head_dim=128),
    "stablelm": Model(share=0.25),
    "step3p5": Model(head_dim=128),
    "t5_gemma_module": Model(head_dim=256),
    "timesfm2_5": Model(head_dim=80),
    "vaultgemma": Model(head_dim=256),
    "voxtral_realtime_encoder": Model(head_dim=64),
    "wav2vec2-bert": Model(position_embedding_type="rotary"),
    "wav2vec2-conformer": Model(position_embedding_type="rotary"),
    "xcodec2": Model(head_dim=64),
    "zamba2": Model(head_key="attention_head_dim"),
    "zaya": Model(head_dim=128, share=0.5),
}
_USUAL = (
    "arcee", "aria", "chameleon", "clvp_encoder", "dbrx", "deepseek_ocr2", "deepseek_ocr2_encoder", "diffllama",
    "doge", "dots1", "esmc", "eurobert", "falcon", "falcon_h1", "gpt_neox_japanese", "gradium_phonon_tts", "granite",
    "granite4_vision", "granite_docling", "granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl", "hyperclovax", "idefics", "jais2", "kyutai_speech_to_text",
    "lasr_encoder", "llama", "mimi", "mimi_decoder", "mimi_encoder", "minicpm3", "ministral", "mistral", "moshi",
    "nemotron3_diarization_audio", "olmo", "olmo2", "olmo_hybrid", "olmoe", "phi3", "phi4_multimodal", "pocket_tts",
    "pocket_tts_audio_tokenizer", "pocket_tts_audio_tokenizer_decoder", "pocket_tts_audio_tokenizer_encoder", "qwen2",
    "qwen2_moe", "qwen3_moe", "starcoder2", "ultrabert", "unlimited_ocr", "voxtral_realtime",
)  # fmt: skip
MODELS |= dict.fromkeys(_USUAL, Model())
_WITHIN = {  # models of several parts: the type of their text model, for configs that leave it out
    "clvp": "clvp_encoder",
    "dia": "dia_encoder",
    "exaone4_5": "exaone4",
    "glmasr": "llama",
    "kimi_k25": "deepseek_v3",
    "lfm3_vl": "lfm3",
    "musicflamingo": "qwen2",
    "step3p7": "step3p5",
    "t5gemma": "t5_gemma_module",
    "ultravbert": "ultrabert",
    "video_llama_3": "qwen2",
}
MODELS |= {name: MODELS[text] for name, text in _WITHIN.items()}
WRITTEN = {  # with a scaling, or different layer types, that no other key stands for
    "apertus", "cohere_compass", "cwm", "diffusion_gemma", "dots3_note", "embedding_gemma2", "gemma4",
    "gemma4_unified", "gpt_oss", "higgs_audio_v2", "laguna", "lfm3", "lfm3_vl", "mellum", "ministral3", "mistral4",
    "mistral_large4", "neomme", "openai_privacy_filter", "step3p5", "step3p7", "ultrabert", "ultravbert", "zaya",
}  # fmt: skip
WITHOUT_BASE = {  # whose parameters of a layer type have no default base: transformers fails without it
    "diffusion_gemma", "embedding_gemma2", "gemma4", "gemma4_unified", "laguna", "mellum", "zaya",
}  # fmt: skip
LAYER_DEFAULTS = {  # of the parameters of a layer type
    "neomme": {
        "full_attention": {"rope_theta": 1_000_000.0, "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 1.0},
    },
}
NEVER = {  # no RoPE, although the config may have keys for it
    "glm5_next", "inkling2", "kimi_linear", "nemotron_h",
}  # fmt: skip
REFUSED = {
    "hunyuan_vl": "in transformers, the two channels of a pair have the angles of different axes, which is not a "
    "rotation; write `xdrope_section`, not `mrope_section`, for that of its authors",
}


class Note(NamedTuple):
    """How the code of a model differs from a rotation of queries and keys by the positions of tokens.

    Attributes:
        sentence: says it.
        instead: whether it concerns the layers without RoPE, rather than those with it.
        flag: a key of the config that switches it off if False.
    """

    sentence: str
    instead: bool = False
    flag: str | None = None


_HEADS = "its positions are the numbers of the heads, not of the tokens."
_HIDDEN = "it rotates the hidden states of each head, before they are projected to queries and keys."
_QUERY_SCALE = "queries are multiplied by the factors of `load_query_scale`."
NOTES = {
    "beam": Note(_QUERY_SCALE, instead=True),
    "clvp_encoder": Note("it also rotates the values."),
    "inkling2": Note(
        "queries and their bias are multiplied by the factors of `load_query_scale`.", instead=True,
    ),
    "llama4": Note(_QUERY_SCALE, instead=True, flag="attn_temperature_tuning"),
    "mistral_large4": Note(
        "queries are multiplied by a * ln(position + 1) + b, learned for each head, as `load_query_scale` says.",
    ),
    "neucodec": Note(_HEADS),
    "qwen2_5_omni_dit": Note("it rotates the first head only."),
    "seamless_m4t": Note(_HIDDEN),
    "wav2vec2-bert": Note(_HIDDEN),
    "wav2vec2-conformer": Note(_HIDDEN),
    "xcodec2": Note(_HEADS),
}  # fmt: skip


def model_type(config: Mapping[str, Any]) -> str:
    """Return the name of the model in `MODELS`."""
    name = str(config.get("model_type") or "")
    return name if name in MODELS else name.removesuffix("_text_model").removesuffix("_text")


def model_of(config: Mapping[str, Any]) -> Model:
    """Return the defaults of the model of a config."""
    return MODELS.get(model_type(config), Model())
