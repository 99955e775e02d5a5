"""Architectures of GGUF: the facts about RoPE that are in llama.cpp's code and not in the file.

Source: `llama_model_rope_type`, the loaders and the graphs of the models in llama.cpp of October 2026.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["none", "norm", "neox", "mrope", "imrope"]

# Adjacent channels form a pair.
_NORM = """llama llada llama4 deci baichuan internlm2 minicpm xverse command-r cohere2 cohere2moe olmo arctic deepseek
    deepseek2 deepseek32 muse-glimmer plm chatglm granite granitemoe granitehybrid graniteswitch granite_swa chameleon
    bailingmoe neo-bert smollm3 arcee ernie4_5 ernie4_5-moe mistral3 eagle3 mistral4 llama-embed maincoder glm-dsa
    dots3note nanbeige pockettts hy_v4 bailingmoe3 glm4"""
# Channels half the rotated width apart form a pair; for deepseek2-ocr this is in its graph, not in the list.
_NEOX = """falcon falcon-h1 grok dbrx jina-bert-v3 modern-bert nomic-bert nomic-bert-moe eurobert stablelm bitnet qwen
    qwen2 dream qwen2moe qwen3 qwen3moe llada-moe rnd1 olmo2 olmoe phi2 phi3 phimoe plamo plamo2 plamo3 gemma gemma2
    gemma3 gemma3n gemma4 gemma4-assistant gemma-embedding starcoder2 openelm gptneox codeshell orion nemotron exaone
    exaone4 exaone-moe minicpm3 bailingmoe2 dots1 hunyuan-moe jais2 gpt-oss hunyuan-dense hy_v3 lfm2 lfm2moe
    smallthinker seed_oss grovemoe apertus minimax-01 minimax-m2 minimax-m3 cogvlm pangu-embedded afmoe laguna qwen3next
    mimo2 step35 spark2_5 talkie mellum maple hrm_text glm4moe hunyuan_vl deepseek2-ocr"""
# The same, with three axes in sections one after the other, or interleaved.
_MROPE, _IMROPE = "qwen2vl paddleocr", "qwen3vl qwen3vlmoe qwen35 qwen35moe qwen4exp qwen3tts"
# Nothing is rotated; the last two are in the list with a layout, but their graphs do not rotate.
_NONE = """gpt2 gptj mpt refact bloom mamba mamba2 jamba jina-bert-v2 t5 t5encoder jais rwkv6 rwkv6qwen2 rwkv7 arwkv7
    wavtokenizer-dec nemotron_h nemotron_h_moe kimi-linear kimi-k3 glm5-next bert starcoder"""

KINDS: dict[str, Kind] = {
    **dict.fromkeys(_NORM.split(), "norm"),
    **dict.fromkeys(_NEOX.split(), "neox"),
    **dict.fromkeys(_MROPE.split(), "mrope"),
    **dict.fromkeys(_IMROPE.split(), "imrope"),
    **dict.fromkeys(_NONE.split(), "none"),
}
REFUSED = {
    "clip": "it is an encoder of images or sound, whose RoPE is in llama.cpp's code",
    "deepseek4": "it rotates the last channels of a head, and layers with compressed keys by another base",
    "dflash": "its layout is that of the model that it drafts for",
}
BY_SECTIONS = {"bailingmoe3", "glm4", "glm4moe", "hunyuan_vl"}  # three axes if the file has sections
WHOLE = {"llama", "deci", "falcon", "llama-embed"}  # all channels of a head are rotated

# The base of sliding layers where the file has none: that of the others, with or without their scaling, or 10000.
_SCALED = "afmoe cohere2 cohere2moe exaone4 exaone-moe gemma2 llama4 maple gpt-oss smallthinker spark2_5"
_10000 = "gemma3 gemma3n gemma4 gemma4-assistant gemma-embedding mimo2 modern-bert plamo3 step35 dots3note"
SLIDING_SCALED, SLIDING_10000 = set(_SCALED.split()), set(_10000.split())
SLIDING_UNSCALED = {"olmo2", "laguna", "mellum", "muse-glimmer"}
ONLY_SLIDING = {"cohere2", "cohere2moe", "exaone4", "exaone-moe", "maple", "muse-glimmer"}  # other layers have no RoPE
# Of so many layers, the last has full attention, or the first; a key of the file may say another number, or a list.
PERIODS = {
    "afmoe": 4, "cohere2": 4, "exaone4": 4, "exaone-moe": 4, "gemma-embedding": 6, "gemma2": 2, "gemma3": 6,
    "gemma3n": 5, "gpt-oss": 2, "laguna": 4, "llama4": 4, "modern-bert": 3, "olmo2": 4, "plamo3": 8, "smallthinker": 4,
}  # fmt: skip
FULL_FIRST = {"laguna", "modern-bert", "smallthinker"}
INTERVALS = {"qwen3next", "qwen35", "qwen35moe", "qwen4exp"}  # of 4 layers, or as many as a key says, the last attends
SPARSE = {"deepseek32": "deepseek_v32", "glm-dsa": "glm_moe_dsa"}  # with an indexer: the model in transformers
SHARED_FROM = 2**20  # the context from which indexers of `glm-dsa` are shared
NO_ROPE = {"afmoe": 3, "llama4": 3, "smallthinker": 0, "smollm3": 3}  # of 4 layers, the index of that without RoPE

FLAGGED = {"granite", "granitehybrid", "graniteswitch"}  # `finetuned` false: no RoPE
BETAS = {"grok", "mistral3"}  # that read the keys of YaRN's ramp
LOGS = {"deepseek2": 0.1, "deepseek32": 0.1, "mistral4": 0.1, "mistral3": 1.0}  # the unit of `yarn_log_multiplier`

SQUARED = {"deepseek2", "deepseek32", "mistral4"}  # that multiply the softmax scale, as DeepSeek-V3 does

# That read `rope_freqs.weight`, and the two tensors of LongRoPE.
_DIVISORS = """apertus arcee cogvlm deci eagle3 exaone-moe exaone exaone4 falcon-h1 gemma4-assistant gemma4
    granitehybrid granitemoe granite_swa granite llada llama llama-embed llama4 minicpm mistral3 nanbeige pangu-embedded
    step35"""
_TWO_LISTS = """apertus deci granitemoe granite_swa granite llama llama-embed minicpm minicpm3 mistral3 pangu-embedded
    phi3 phimoe step35"""
DIVISORS, TWO_LISTS = set(_DIVISORS.split()), set(_TWO_LISTS.split())
