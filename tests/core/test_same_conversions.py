"""Conversions of published models that lost a part of their RoPE, as public threads tell them.

Configs are reduced to the keys that concern RoPE. A converted side is written as the config that it amounts to.
"""

from typing import Any, NamedTuple

import pytest

from posenc_core.analysis import compare_rope


class Conversion(NamedTuple):
    """A config, the one that a conversion made of it, and the keys that were lost or changed."""

    name: str
    a: dict[str, Any]
    b: dict[str, Any]
    keys: tuple[str, ...]


def size(model_type, hidden, heads, length, **more):
    sizes = {"hidden_size": hidden, "num_attention_heads": heads, "max_position_embeddings": length}
    return {"model_type": model_type} | sizes | more


VICUNA = size("llama", 4096, 32, 16384, rope_theta=10000.0)
QWEN = size("qwen2", 3584, 28, 131072, rope_theta=1e6)
QWEN_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
MISTRAL = {
    "model_type": "mistral",
    "head_dim": 128,
    "max_position_embeddings": 262144,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1e6,
        "factor": 16.0,
        "original_max_position_embeddings": 16384,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    },
}
MOONLIGHT = {
    "model_type": "deepseek_v3",
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 8192,
    "rope_scaling": {"rope_theta": 50000.0, "rope_type": "default"},
}
MEGATRON_YARN = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0}
LLAMA31 = size("llama", 4096, 32, 131072, rope_theta=500000.0)
LLAMA31_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA32 = size("llama", 2048, 32, 131072, rope_theta=500000.0)
GEMMA3 = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
CODE_LLAMA = size("llama", 4096, 32, 16384, rope_theta=1e6)


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


def scaled(config, **scaling):
    return config | {"rope_scaling": scaling}


CONVERSIONS = [
    Conversion(
        "NVIDIA-NeMo/Megatron-Bridge#5097: linear scaling of Llama left out",
        scaled(VICUNA, type="linear", factor=8.0),
        VICUNA,
        ("rope_scaling",),
    ),
    Conversion(
        "NVIDIA-NeMo/Megatron-Bridge#2791: the default factor 40 of MLA left in a model without scaling",
        MOONLIGHT,
        MOONLIGHT | {"rope_scaling": MEGATRON_YARN | {"rope_theta": 50000.0, "mscale_all_dim": 1.0}},
        ("rope_scaling",),
    ),
    Conversion(
        "NVIDIA-NeMo/Megatron-Bridge#5627: YaRN of Mistral not passed on",
        MISTRAL,
        without(MISTRAL, "rope_parameters") | {"rope_theta": 1e6},
        ("rope_scaling",),
    ),
    Conversion(
        "verl-project/verl#6654: YaRN of Qwen not passed on to Megatron",
        QWEN | {"rope_scaling": QWEN_YARN},
        QWEN,
        ("rope_scaling",),
    ),
    Conversion(
        "swiss-ai/Megatron-LM#80: the scaling factor always 8",
        LLAMA32 | {"rope_scaling": LLAMA31_SCALING | {"factor": 32.0}},
        LLAMA32 | {"rope_scaling": LLAMA31_SCALING},
        ("factor",),
    ),
    Conversion(
        "ggml-org/llama.cpp#8676: factors of Llama 3.1 not written",
        LLAMA31 | {"rope_scaling": LLAMA31_SCALING},
        LLAMA31,
        ("rope_scaling",),
    ),
    Conversion(
        "ggml-org/llama.cpp#22612: apply_scale of Mistral's params.json turned off",
        MISTRAL,
        MISTRAL | {"rope_parameters": MISTRAL["rope_parameters"] | {"attention_factor": 1.0}},
        ("attention_factor",),
    ),
    Conversion(
        "ggml-org/llama.cpp#2772: the scale of a linear model not read",
        scaled(VICUNA, type="linear", factor=4.0),
        VICUNA,
        ("rope_scaling",),
    ),
    Conversion(
        "onnxruntime/mobius#458: scaling and local base of a GGUF file of Gemma 3 left unset",
        GEMMA3,
        {"model_type": "llama", "head_dim": 256, "max_position_embeddings": 131072, "rope_theta": 1e6},
        ("rope_scaling", "rope_theta"),
    ),
    Conversion(
        "deepspeedai/DeepSpeed#8345: rope_theta of transformers 5 not found, 10000 used",
        without(CODE_LLAMA, "rope_theta") | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        without(CODE_LLAMA, "rope_theta"),
        ("rope_theta",),
    ),
    Conversion(
        "deepspeedai/DeepSpeed#8341: scaled RoPE run by its base alone",
        LLAMA31 | {"rope_scaling": LLAMA31_SCALING},
        LLAMA31 | {"rope_scaling": None},
        ("rope_scaling",),
    ),
    Conversion(
        "InternLM/lmdeploy#4304: rope_theta of transformers 5 not found, 10000 used",
        QWEN | {"rope_theta": None, "rope_parameters": {"rope_theta": 1e6}},
        QWEN | {"rope_theta": 10000.0},
        ("rope_theta",),
    ),
    Conversion(
        "vllm-project/vllm#28542: a model without rope_parameters, whose default is another, gets 10000",
        {"model_type": "cohere", "head_dim": 128},
        {"model_type": "cohere", "head_dim": 128, "rope_theta": 1e4},
        ("rope_theta",),
    ),
]


@pytest.mark.filterwarnings("ignore:`factor` 40 is used")
@pytest.mark.parametrize("conversion", CONVERSIONS, ids=lambda conversion: conversion.name.partition(":")[0])
def test_the_key_that_went_wrong_is_named(conversion):
    for one, other in ((conversion.a, conversion.b), (conversion.b, conversion.a)):
        found = compare_rope(one, other)
        assert not found.same
        named = [cause.key for layers in found.layers for cause in layers.causes]
        assert tuple(dict.fromkeys(named)) == conversion.keys
        assert compare_rope(one, one).same
