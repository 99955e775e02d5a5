"""Models: one record for each `model_type`, of the facts about RoPE that are in a model's code and not in its config.

Models of sequences are listed, of text or of audio; `"name"` also stands for `"name_text"` and `"name_text_model"`.

Source: defaults of the config classes and the code of the models in transformers 5.23. Those not in transformers follow
vLLM 0.33 (chatglm, internlm2, kimi_k2, openpangu_vl), vLLM-Omni 0.14 (bailing_moe_v2), their checkpoints (qwen) and
their authors (hunyuan_image_3_moe).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .records import Indexer, Model, Note, Pattern, Prompt, QueryFactor, Quirks, by_model_type

_QWEN2: dict[str, Any] = {"sections": (16, 24, 24)}
_QWEN3: dict[str, Any] = {"arrangement": "interleaved", "sections": (24, 20, 20)}
_QWEN3_5: dict[str, Any] = {"arrangement": "interleaved", "sections": (11, 11, 10)}
_ERNIE: dict[str, Any] = {"arrangement": "ernie", "sections": (22, 22, 20)}
_GLM4V: dict[str, Any] = {"sections": (8, 12, 12)}
_SLIDING = ("sliding_attention",)
_ALL = Pattern(1)
_EVERY_4TH, _EVERY_6TH = Pattern(4, "sliding_window_pattern"), Pattern(6, "sliding_window_pattern")
_EVERY_6TH_AND_LAST = _EVERY_6TH._replace(key=None, also=(-1,))
_HYBRID = Pattern(4, "full_attention_interval", others="linear_attention")
_COMPRESSED = ("compressed_sparse_attention", "heavily_compressed_attention")
_INDEXER, _ADJACENT_INDEXER = Indexer(), Indexer("interleaved_to_half")
_SPLIT, _GLM = Prompt(split=True), Prompt(split=True, shared=True)
_OMNI = Prompt(rate="position_id_per_seconds", seconds_first=True, audio="seconds_per_chunk", after="largest")

_HEADS = "its positions are the numbers of the heads, not of the tokens."
_HIDDEN = "it rotates the hidden states of each head, before they are projected to queries and keys."
_QUERY_SCALE = "queries are multiplied by the factors of `load_query_scale`."
_MIXED_PAIRS = (
    "in transformers, the two channels of a pair have the angles of different axes, which is not a rotation; write "
    "`xdrope_section`, not `mrope_section`, for that of its authors"
)
_LLAMA4 = QueryFactor(
    "floor_scale", "attn_scale", defaults={"attn_scale": 0.1, "floor_scale": 8192},
    flag=("attn_temperature_tuning", True), layers="without RoPE",
)  # fmt: skip
_INKLING = QueryFactor(
    "log_scaling_n_floor", "log_scaling_alpha", "log", defaults={"log_scaling_alpha": 0.1}, optional=True,
    layers="of type 'hybrid'",
)  # fmt: skip

_SHARE, _LATENT = "partial_rotary_factor", "qk_rope_head_dim"
_ELSEWHERE = Quirks(elsewhere=True)
_READS_SHARE, _READS_LATENT = Quirks(reads=(_SHARE,)), Quirks(reads=(_LATENT,))
_READS_BOTH = Quirks(reads=(_SHARE, _LATENT))
_SQUARING: dict[str, Any] = {"squares_factor": True, "quirks": _READS_LATENT}
_GEMMA4: dict[str, Any] = {
    "head_dim": 256, "head_dims": {"full_attention": 512}, "needs_parameters": True, "needs_base": True,
}  # fmt: skip
_STREAMING = Quirks(reads=(_SHARE,), whole_dict=True, loses_share=True)
_GPT_NEOX = Quirks(
    reads=(_SHARE, "rotary_pct", "rotary_emb_base"), key_for={"rope_theta": "rotary_emb_base", _SHARE: "rotary_pct"}
)
_MODERN = Quirks(reads=("global_rope_theta",), key_for={"rope_theta": "global_rope_theta"})
_CONFORMER = Quirks(reads=("rotary_embedding_base",))
_GEMMA3: dict[str, Any] = {
    "head_dim": 256, "scheme": "rope_local_base_freq", "quirks": Quirks(needs_layer_types=True),
}  # fmt: skip

_TABLE = {
    # Adjacent channels form a pair.
    """
        blt blt_global_transformer blt_local_decoder blt_local_encoder cohere ernie4_5_moe
    """: Model(layout="interleaved", base=500_000),
    "blt_patcher roformer": Model(layout="interleaved"),
    "chatglm": Model(layout="interleaved", share=0.5, interleaved_key="original_rope", quirks=_ELSEWHERE),
    "codegen gptj": Model(layout="interleaved", rotary_dim=64, quirks=Quirks(reads=("rotary_dim",))),
    "cohere2": Model(layout="interleaved", rotary_layers=_SLIDING, pattern=_EVERY_4TH),
    "cohere2_moe": Model(
        layout="interleaved", head_dim=128, rotary_layers=_SLIDING,
        pattern=_EVERY_4TH._replace(unless="first_k_dense_replace"),
    ),
    "deepseek_v2": Model(**_SQUARING, layout="interleaved"),
    "deepseek_v4": Model(
        layout="interleaved", placement="trail", head_dim=512, share=0.125, scheme="compress_rope_theta",
        pattern=Pattern(2, first=1, kind=_COMPRESSED[0], others=_COMPRESSED[1], unless="compress_ratios"),
        types_key=("compress_ratios", dict(zip((0, 4, 128), (*_SLIDING, *_COMPRESSED), strict=True))),
        rope_of_type=dict.fromkeys(_COMPRESSED, "compress") | dict.fromkeys(_SLIDING, "main"),
        indexer=Indexer("interleaved", "trail", layer_type=_COMPRESSED[0]), quirks=_READS_BOTH,
    ),
    "ernie4_5": Model(layout="interleaved", base=500_000, head_dim=128),
    "ernie4_5_vl_moe": Model(
        layout="interleaved", base=500_000, arrangement="ernie", sections=(22, 22, 20),
        prompt=Prompt(merged="temporal_merge_size"),
    ),
    "glm glm4": Model(layout="interleaved", share=0.5, head_dim=128, quirks=_READS_SHARE),
    "glm4v glm_ocr": Model(**_GLM4V, layout="interleaved", prompt=_GLM, quirks=_READS_SHARE),
    "helium": Model(layout="interleaved", base=100_000, head_dim=128),
    "llama4": Model(
        layout="interleaved", base=500_000, head_dim=128, rotary_layers=("chunked_attention",), no_rope_interval=4,
        query_factor=_LLAMA4, note=Note(_QUERY_SCALE, instead=True, flag="attn_temperature_tuning"),
    ),
    "moonshine": Model(layout="interleaved", share=0.9, quirks=_READS_SHARE),
    "moonshine_streaming": Model(layout="interleaved", share=0.8, quirks=_STREAMING),
    "openai_privacy_filter": Model(layout="interleaved", base=150_000, head_dim=64, needs_parameters=True),
    "pe_audio_encoder pe_audio_video_encoder pe_video_encoder": Model(layout="interleaved", base=20000, head_dim=128),
    # Adjacent channels form a pair on input; the output has the pairs in halves. `rope_interleave` overrides this.
    "axk1 deepseek_v3 youtu": Model(**_SQUARING, layout="interleaved_to_half"),
    "axk2 deepseek_v32": Model(**_SQUARING, layout="interleaved_to_half", indexer=_INDEXER),
    "glm_moe_dsa": Model(**_SQUARING, layout="interleaved_to_half", indexer=_ADJACENT_INDEXER),
    "bailing_hybrid": Model(
        layout="interleaved_to_half", base=6_000_000, squares_factor=True,
        pattern=Pattern(6, "layer_group_size", others="linear_attention"),
        quirks=Quirks(reads=(_LATENT,), needs_base=True),
    ),
    "dots3_note": Model(
        layout="interleaved_to_half", base=80_000_000, needs_parameters=True,
        pattern=Pattern(4, first=1, kind="indexed_attention", also=(0,)),
        indexer=_ADJACENT_INDEXER._replace(layer_type="indexed_attention"), quirks=_READS_BOTH,
    ),
    "glm4_moe_lite": Model(layout="interleaved_to_half", squares_factor=True, quirks=_READS_BOTH),
    "kimi_k2": Model(
        layout="interleaved_to_half", squares_factor=True, quirks=Quirks(elsewhere=True, reads=(_LATENT,))
    ),
    "longcat_flash": Model(**_SQUARING, layout="interleaved_to_half", base=10_000_000),
    "mistral4": Model(**_SQUARING, layout="interleaved_to_half", needs_parameters=True),
    "mistral_large4": Model(
        layout="interleaved_to_half", needs_parameters=True,
        query_factor=QueryFactor(heads="num_attention_heads", defaults={"num_attention_heads": 64}),
        note=Note(
            "queries are multiplied by a * ln(position + 1) + b, learned for each head, as `load_query_scale` says."
        ),
        no_rope_interval=4, indexer=_ADJACENT_INDEXER, squares_factor=True, quirks=_READS_LATENT,
    ),
    "qwen2_5_omni_dit": Model(layout="interleaved_to_half", head_dim=64, note=Note("it rotates the first head only.")),
    # Inverse rotation.
    "nanochat": Model(direction="inverse"),
    # Three axes: time, height and width.
    "cohere_compass": Model(**_QWEN3, needs_parameters=True, prompt=_SPLIT),
    "cosmos3_edge": Model(**_QWEN3, base=100_000_000, head_dim=128, prompt=_SPLIT, quirks=Quirks(whole_dict=True)),
    "glm4v_moe": Model(**_GLM4V, share=0.5, prompt=_GLM, quirks=_READS_SHARE),
    "glm_image": Model(**_GLM4V, quirks=_READS_SHARE),
    "openpangu_vl": Model(arrangement="openpangu", prompt=Prompt(split=True, after="largest"), quirks=_ELSEWHERE),
    "paddleocr_vl": Model(**_QWEN2, base=500_000, head_dim=128, prompt=Prompt()),
    "qwen2_5_omni": Model(**_QWEN2, base=1_000_000, prompt=_OMNI),
    "qwen2_5_omni_talker": Model(**_QWEN2, base=1_000_000, head_dim=128),
    "qwen2_5_vl": Model(**_QWEN2, base=1_000_000, prompt=Prompt(rate="tokens_per_second")),
    "qwen2_vl": Model(**_QWEN2, base=1_000_000, prompt=Prompt()),
    "qwen3_5 qwen3_5_moe": Model(
        **_QWEN3_5, share=0.25, head_dim=256, pattern=_HYBRID, prompt=_SPLIT, quirks=_READS_SHARE
    ),
    "qwen3_omni_moe": Model(**_QWEN3, base=1_000_000),
    "qwen3_omni_moe_talker": Model(**_QWEN3),
    "qwen3_vl": Model(**_QWEN3, base=500_000, head_dim=128, prompt=_SPLIT),
    "qwen3_vl_moe": Model(**_QWEN3, base=500_000, prompt=_SPLIT),
    "qwen4_exp": Model(
        **_QWEN3_5, head_dim=256, pattern=_HYBRID._replace(kind="indexed_attention"), prompt=_SPLIT,
        indexer=Indexer(keys=("indexer_head_dim",), head_dim=None), quirks=_READS_SHARE,
    ),
    # Two axes: rows and columns. `HunyuanImage3SDPAttention` reads no key of its scaling, which it calls 'custom'.
    "hunyuan_image_3_moe": Model(
        axes=2, plain_types=("2d", "default"), prompt=Prompt(merge=1, centered=True), quirks=_ELSEWHERE
    ),
    "neomme": Model(
        head_dim=64, axes=2, pattern=_EVERY_6TH_AND_LAST,
        layer_defaults={
            "full_attention": {"rope_theta": 1_000_000.0, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        },
        needs_parameters=True, quirks=_READS_SHARE,
    ),
    # A base for each layer type.
    "gemma3 t5gemma2 t5gemma2_decoder": Model(**_GEMMA3, pattern=_EVERY_6TH),
    "gemma3n": Model(**_GEMMA3, pattern=Pattern(5)),
    "mimo_v2": Model(head_dim=192, share=0.334, scheme="swa_rope_theta", quirks=_ELSEWHERE),
    "mimo_v2_flash": Model(
        pattern=Pattern(6, also=(0,)),
        head_dim=192, share=0.334, scheme="swa_rope_theta",
        quirks=Quirks(
            reads=(_SHARE,), needs_layer_types=True, bases={"full_attention": 5000000, "sliding_attention": 10000},
        ),
    ),
    "modernbert modernbert-decoder": Model(
        scheme="local_rope_theta", pattern=Pattern(3, "global_attn_every_n_layers", first=0), quirks=_MODERN
    ),
    "olmo3": Model(
        scheme="olmo3", pattern=Pattern(4), quirks=Quirks(needs_layer_types=True, bases={"sliding_attention": 500000})
    ),
    # Some layers have no RoPE.
    "afmoe": Model(head_dim=128, rotary_layers=_SLIDING, pattern=Pattern(4, "global_attn_every_n_layers")),
    "beam": Model(
        head_dim=128, rotary_layers=_SLIDING, pattern=_EVERY_6TH_AND_LAST,
        query_factor=QueryFactor(2048, 0.1, "power", layers="without RoPE"),
        note=Note(_QUERY_SCALE, instead=True),
    ),
    "exaone4 exaone_moe": Model(rotary_layers=_SLIDING, pattern=_EVERY_4TH),
    "kolibri1": Model(head_dim=128, rotary_layers=_SLIDING, pattern=Pattern(5)),
    # Another partial rotary factor, base or width of a head.
    "apertus": Model(base=12_000_000, needs_parameters=True),
    "bailing_moe_v2": Model(
        share=0.5, prompt=Prompt(rate=2, seconds_first=True, merge=2, diagonal=True), quirks=_ELSEWHERE
    ),
    "bamba": Model(
        share=0.5, pattern=_ALL._replace(indices="attn_layer_indices", others="mamba"),
        quirks=Quirks(reads=(_SHARE, "attn_rotary_emb")),
    ),
    "bitnet csm csm_depth_decoder_model evolla flex_olmo mllama": Model(base=500_000),
    "cwm lfm3": Model(base=1_000_000, head_dim=128, needs_parameters=True),
    """
        dia_decoder dia_encoder flint hrm_text internlm3 iquestcoder jetmoe molmo2 qwen3
        qwen3_omni_moe_talker_code_predictor seed_oss
    """: Model(head_dim=128),
    "diffusion_gemma": Model(**_GEMMA4, pattern=_EVERY_6TH_AND_LAST, quirks=_READS_SHARE),
    """
        dots3_note_audio_encoder glm4_moe glmasr_encoder nemotron persimmon phi
    """: Model(share=0.5, quirks=_READS_SHARE),
    "recurrent_gemma": Model(
        share=0.5, pattern=Pattern(3, kind="attention", others="recurrent"), quirks=_READS_SHARE
    ),
    "embedding_gemma2": Model(**_GEMMA4, pattern=_EVERY_6TH_AND_LAST._replace(key="sliding_window_pattern")),
    "emu3 mixtral phimoe": Model(base=1_000_000),
    "esm": Model(position_embedding_type="rotary"),
    "fuyu": Model(base=25000, share=0.5, quirks=_ELSEWHERE),
    "gemma gemma2 t5_gemma_module vaultgemma": Model(head_dim=256),
    "gemma4 gemma4_unified": Model(**_GEMMA4, pattern=_EVERY_6TH_AND_LAST),
    "gpt_neox": Model(share=0.25, quirks=_GPT_NEOX),
    "gpt_oss": Model(base=150_000, head_dim=64, needs_parameters=True),
    "granitemoehybrid": Model(position_embedding_type="rope"),
    "gte": Model(base=160_000),
    "higgs_audio_v2": Model(base=500_000, head_dim=128, needs_parameters=True, quirks=Quirks(needs_base=True)),
    "hy_v3": Model(base=11_158_840, head_dim=128),
    "hy_v4": Model(**_SQUARING, head_dim=64, indexer=Indexer(placement="trail", step=4)),
    "internlm2": Model(quirks=_ELSEWHERE),
    "interns1_pro": Model(base=5_000_000, quirks=_ELSEWHERE),
    "jina_embeddings_v3": Model(base=20000),
    "laguna mellum": Model(
        head_dim=128, pattern=_ALL, needs_parameters=True, needs_base=True, quirks=_READS_SHARE
    ),
    "lfm2 lfm2_moe": Model(base=1_000_000, pattern=_ALL._replace(indices="full_attn_idxs", others="conv")),
    "minimax_m2": Model(base=5_000_000, head_dim=128, quirks=Quirks(reads=(_SHARE, "rotary_dim"))),
    "minimax": Model(base=1_000_000, pattern=Pattern(2, first=0, others="linear_attention")),
    "minimax_m3_vl": Model(
        base=5_000_000, head_dim=128,
        types_key=("sparse_attention_config.sparse_attention_freq", {0: "full_attention", 1: "minimax_m3_sparse"}),
        indexer=Indexer(
            keys=("index_head_dim", "sparse_attention_config.sparse_index_dim"), layer_type="minimax_m3_sparse"
        ),
        quirks=Quirks(reads=(_SHARE, "rotary_dim"), needs_share=True),
    ),
    "ministral3": Model(base=1_000_000, head_dim=128, needs_parameters=True, quirks=Quirks(needs_base=True)),
    "muse_glimmer_assistant": Model(base=500_000, head_dim=128),
    "muse_spark": Model(
        base=500_000, head_dim=64, no_rope_interval=-4, quirks=Quirks(whole_dict=True, needs_base=True)
    ),
    "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp": Model(share=0.5, quirks=_STREAMING),
    "neucodec xcodec2": Model(head_dim=64, note=Note(_HEADS)),
    "nomic_bert": Model(base=1000, quirks=Quirks(reads=("rotary_emb_fraction", "rotary_emb_base"))),
    "olmo_hybrid": Model(pattern=_HYBRID._replace(key=None)),
    "qwen3_next": Model(share=0.25, head_dim=256, pattern=_HYBRID, quirks=_READS_SHARE),
    "seamless_m4t wav2vec2-bert wav2vec2-conformer": Model(
        position_embedding_type="rotary", note=Note(_HIDDEN), quirks=_CONFORMER
    ),
    "muse_glimmer": Model(head_dim=128, no_rope_interval=-4),
    "smollm3": Model(base=2_000_000, no_rope_interval=4),
    "solar_open": Model(base=1_000_000, head_dim=128, quirks=_READS_SHARE),
    "stablelm": Model(share=0.25, quirks=_READS_SHARE),
    "step3p5": Model(head_dim=128, needs_parameters=True, quirks=_READS_SHARE),
    "timesfm2_5": Model(head_dim=80),
    "voxtral_realtime_encoder": Model(head_dim=64),
    "zamba2": Model(head_key="attention_head_dim"),
    "zaya": Model(
        head_dim=128, share=0.5, pattern=_ALL._replace(kind="hybrid"), needs_parameters=True, needs_base=True,
        quirks=_READS_SHARE,
    ),
    # Other facts.
    "clvp": Model(),  # as its encoder is, in configs that leave it out
    "clvp_encoder": Model(note=Note("it also rotates the values.")),
    "gpt_neox_japanese": Model(quirks=_GPT_NEOX),
    "hunyuan_vl": Model(refused=_MIXED_PAIRS, prompt=Prompt(newlines=True)),
    "minicpm3": Model(**_SQUARING),
    "nemotron3_diarization_audio": Model(quirks=_READS_SHARE),
    "phi3 phi4_multimodal": Model(quirks=Quirks(reads=(_SHARE,), original_length=4096)),
    "step3p7": Model(head_dim=128, needs_parameters=True),
    "ultrabert": Model(needs_parameters=True, pattern=Pattern(3, unless="attention_windows")),
    # The usual facts.
    """
        arcee aria chameleon dbrx deepseek_ocr2 deepseek_ocr2_encoder diffllama doge dots1 esmc eurobert falcon
        falcon_h1 gradium_phonon_tts granite granite4_vision granite_docling granite_swa granitemoe granitemoe_swa
        granitemoeshared hunyuan_v1_dense hunyuan_v1_moe hyperclovax idefics jais2 kyutai_speech_to_text lasr_encoder
        llama mimi mimi_decoder mimi_encoder ministral mistral moshi olmo olmo2 olmoe pocket_tts
        pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder qwen2
        qwen2_moe qwen3_moe starcoder2 unlimited_ocr voxtral_realtime
    """: Model(),
}  # fmt: skip
_WITHIN = {  # models of several parts: the type of their text model, for configs that leave it out
    "dia": "dia_encoder",
    "exaone4_5": "exaone4",
    "glmasr": "llama",
    "kimi_k25": "deepseek_v3",
    "lfm3_vl": "lfm3",
    "musicflamingo": "qwen2",
    "t5gemma": "t5_gemma_module",
    "ultravbert": "ultrabert",
    "video_llama_3": "qwen2",
}
MODELS = by_model_type(_TABLE)
MODELS |= {name: MODELS[text] for name, text in _WITHIN.items()}

OTHERS = {  # without RoPE, or with one that is not known, but for other facts
    "cosmos3_omni": Model(prompt=_SPLIT),
    "glm46v": Model(prompt=_GLM),
    "glm5_next": Model(never=True),
    "inkling": Model(query_factor=_INKLING),
    "inkling2": Model(
        never=True, query_factor=_INKLING._replace(defaults={"log_scaling_alpha": 0.1, "log_scaling_n_floor": 128000}),
        note=Note("queries and their bias are multiplied by the factors of `load_query_scale`.", instead=True),
    ),
    "kimi_linear": Model(never=True),
    "nemotron_h": Model(never=True),
    "qwen": Model(query_factor=QueryFactor("seq_length", None, "log", flag=("use_logn_attn", False))),
    "qwen2_5_omni_thinker": Model(prompt=_OMNI),
}  # fmt: skip


def model_type(config: Mapping[str, Any]) -> str:
    """Return the name of the model in `MODELS`."""
    name = str(config.get("model_type") or "")
    return name if name in MODELS else name.removesuffix("_text_model").removesuffix("_text")


def find_model(config: Mapping[str, Any]) -> Model:
    """Return the record of the model of a config."""
    name = model_type(config)
    return MODELS.get(name) or OTHERS.get(name, Model())
