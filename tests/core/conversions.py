"""Conversions between formats that went wrong in public: the source, what it became, and what it should have become."""

from typing import Any, NamedTuple


class Conversion(NamedTuple):
    """Configs of one model, each as `load_rope` takes it.

    Attributes:
        thread: where the mistake was reported or mended.
        source: the config that was converted.
        wrong: what it became, or what was read in its place.
        right: what it should have become.
        keys: the keys that the difference comes from, as the wrong or the right config spells them.
        layer_type: the layers that differ, if not all are alike.
        refused: whether the wrong config is not answered at all.
    """

    thread: str
    source: Any
    wrong: Any
    right: Any
    keys: tuple[str, ...]
    layer_type: str | None = None
    refused: bool = False


LLAMA = {"model_type": "llama", "head_dim": 128}
LLAMA31 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"original_max_position_embeddings": 16384, "factor": 16.0, "beta": 32.0, "alpha": 1.0}
MINISTRAL = {"dim": 4096, "n_heads": 32, "head_dim": 128, "rope_theta": 1e6, "yarn": YARN | {"apply_scale": True}}
MOONLIGHT = {"multi_latent_attention": True, "qk_pos_emb_head_dim": 64, "rotary_base": 50000}


def gguf(architecture: str, **keys: Any) -> dict[str, Any]:
    return {"general.architecture": architecture} | {f"{architecture}.{key}": value for key, value in keys.items()}


MISTRAL3 = {
    "attention.key_length": 128, "rope.freq_base": 1e6, "rope.scaling.type": "yarn", "rope.scaling.factor": 16.0,
    "rope.scaling.original_context_length": 16384,
}  # fmt: skip
GEMMA3 = {
    "attention.key_length": 256,
    "attention.sliding_window": 1024,
    "rope.freq_base": 1e6,
    "rope.scaling.factor": 8.0,
}
LAGUNA = {
    "attention.key_length": 128, "rope.freq_base": 5e5, "rope.scaling.type": "yarn", "rope.scaling.factor": 64.0,
    "rope.scaling.original_context_length": 4096,
}  # fmt: skip

CONVERSIONS = {
    "linear scaling is lost": Conversion(
        "NVIDIA-NeMo/Megatron-Bridge#5097",
        {**LLAMA, "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8.0}},
        "--position-embedding-type rope --kv-channels 128",
        "--position-embedding-type rope --kv-channels 128 --rotary-seq-len-interpolation-factor 8",
        ("rotary_seq_len_interpolation_factor",),
    ),
    "a default of 40 scales latent attention": Conversion(
        "NVIDIA-NeMo/Megatron-Bridge#2791",
        {"model_type": "deepseek_v3", "qk_rope_head_dim": 64,
         "rope_scaling": {"rope_type": "default", "rope_theta": 5e4}},
        {**MOONLIGHT, "rotary_scaling_factor": 40},
        {**MOONLIGHT, "rotary_scaling_factor": 1.0},
        ("rotary_scaling_factor",),
    ),
    "the factor of Llama 3.2 becomes that of 3.1": Conversion(
        "swiss-ai/Megatron-LM#80",
        {**LLAMA, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, **LLAMA31}},
        "--position-embedding-type rope --kv-channels 128 --rotary-base 500000 --use-rope-scaling",
        "--position-embedding-type rope --kv-channels 128 --rotary-base 500000 --use-rope-scaling "
        "--rope-scaling-factor 32",
        ("rope_scaling_factor",),
    ),
    "the base stays 10000": Conversion(
        "THUDM/slime#1720",
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        "--position-embedding-type rope --kv-channels 128",
        "--position-embedding-type rope --kv-channels 128 --rotary-base 500000",
        ("rotary_base",),
    ),
    "the base inside of rope_parameters is not found": Conversion(
        "deepspeedai/DeepSpeed#8345",
        {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        {**LLAMA, "rope_theta": 10000},
        {**LLAMA, "rope_theta": 500000.0},
        ("rope_theta",),
    ),
    "the scaling is left out with the base kept": Conversion(
        "deepspeedai/DeepSpeed#8341",
        {**LLAMA, "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, **LLAMA31}},
        {**LLAMA, "rope_theta": 5e5},
        {**LLAMA, "rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, **LLAMA31}},
        ("rope_type", "factor"),
    ),
    "cos and sin are not scaled": Conversion(
        "ggml-org/llama.cpp#22612",
        MINISTRAL,
        gguf("mistral3", **MISTRAL3, **{"rope.scaling.yarn_log_multiplier": 1.0}),
        gguf("mistral3", **MISTRAL3, **{"rope.scaling.yarn_log_multiplier": 0.0}),
        ("rope.scaling.yarn_log_multiplier",),
    ),
    "a file's linear scaling is not read": Conversion(
        "onnxruntime/mobius#458",
        gguf("gemma3", **GEMMA3),
        {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4},
        {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        ("rope_scaling", "rope.scaling.factor"),
        layer_type="full_attention",
    ),
    "sliding layers get the base of the others": Conversion(
        "onnxruntime/mobius#458",
        gguf("gemma3", **GEMMA3),
        {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e6,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        ("rope_local_base_freq",),
        layer_type="sliding_attention",
    ),
    "the factor becomes that of the blend": Conversion(
        "ikawrakow/ik_llama.cpp#2003",
        {**LLAMA, "rope_theta": 5e5, "rope_scaling": {
            "rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}},
        gguf("laguna", **LAGUNA, **{"rope.scaling.yarn_ext_factor": 64.0}),
        gguf("laguna", **LAGUNA, **{"rope.scaling.yarn_ext_factor": 1.0}),
        ("rope.scaling.yarn_ext_factor",),
        refused=True,
    ),
}  # fmt: skip
