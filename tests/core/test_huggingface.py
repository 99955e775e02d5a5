"""Configs as published, less what has nothing to do with positions; numbers from `tests/golden/rope_models.json`."""

import json
import math
import warnings
from pathlib import Path

import mpmath
import numpy as np
import pytest

from posenc_core import AxialRotary, DualChunk, FoPE, MultimodalRotary, Rotary, XPos
from posenc_core.huggingface import layer_types, load_rope, to_config
from posenc_core.scaling import (
    NTK,
    AttentionFactor,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    NTKAlpha,
    Proportional,
    YaRN,
)

from ..errors import rejects

CASES = json.loads((Path(__file__).parents[1] / "golden" / "rope_models.json").read_text(encoding="utf-8"))
SMALL = {"head_dim": 64, "max_position_embeddings": 4096}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LISTS = {"short_factor": [1.0 + i / 64 for i in range(32)], "long_factor": [1.0 + i for i in range(32)]}
LONG = {"rope_type": "longrope", **LISTS, "original_max_position_embeddings": 1024}
L0 = {"original_max_position_embeddings": 1024}
CHUNKS = {"chunk_size": 8, "local_size": 2}


def half(head_dim, base, **fields):
    return Rotary(head_dim=head_dim, layout="half", base=base, **fields)


MISTRAL4 = {"type": "yarn", "partial_rotary_factor": 0.5, "max_position_embeddings": 4096}
SCOUT = {"factor": 16.0, "high_freq_factor": 1.0}
DEEPSEEK = {"factor": 40, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0}
HUNYUAN = {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
FOPE = {"rope_type": "default", "fope_init_factor": 0.5}
XDROPE = {"type": "xdrope", "alpha": 1000.0}
GPT_OSS = {"factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
GEMMA4 = {
    "full_attention": {"factor": 1.0, "partial_rotary_factor": 0.25, "rope_theta": 1e6, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    "rope_theta": None,
    "rope_type": "default",
}
MIMO = {"partial_rotary_factor": 0.334, "rope_theta": 1e7}
# fmt: off
PUBLISHED = {
    "Llama 2": (
        {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_scaling": None}, None,
        half(128, 10000),
    ),
    "Llama 3.1": (
        {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
         "max_position_embeddings": 131072, "rope_scaling": {**LLAMA3, "rope_type": "llama3"}}, None,
        half(128, 500000.0, scaling=Llama3(**LLAMA3)),
    ),
    "Llama 4 Scout": (
        {"model_type": "llama4", "text_config": {
            "model_type": "llama4_text", "head_dim": 128, "no_rope_layers": [], "rope_theta": 500000.0,
            "rope_scaling": {**LLAMA3, **SCOUT, "rope_type": "llama3"}}}, "chunked_attention",
        Rotary(head_dim=128, layout="interleaved", base=500000, scaling=Llama3(**LLAMA3 | SCOUT)),
    ),
    "Phi-3": (
        {"model_type": "phi3", "head_dim": 64, "rope_theta": 10000.0, "max_position_embeddings": 32768, **L0,
         "rope_scaling": {**LISTS, "type": "su"}}, None,
        half(64, 10000, scaling=LongRoPE(**LISTS, **L0, factor=32)),
    ),
    "Phi-3.5 MoE": (
        {"model_type": "phimoe", "head_dim": 64, "max_position_embeddings": 131072,
         "rope_scaling": {**LONG, "type": "longrope", "short_mscale": 1.25, "long_mscale": 1.5}}, None,
        half(64, 1e6, scaling=LongRoPE(**LISTS, **L0, short_mscale=1.25, long_mscale=1.5)),
    ),
    "DeepSeek-V3": (
        {"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128, "rope_theta": 10000,
         "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "max_position_embeddings": 163840,
         "rope_scaling": {**DEEPSEEK, "type": "yarn", "beta_fast": 32, "beta_slow": 1}}, None,
        Rotary(head_dim=64, layout="interleaved_to_half", scaling=YaRN(**DEEPSEEK)),
    ),
    "DeepSeek-V4, compressed": (
        {"model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64, "max_position_embeddings": 1048576,
         "rope_theta": 10000, "compress_rope_theta": 160000,
         "rope_scaling": {"factor": 16, "original_max_position_embeddings": 65536, "type": "yarn"}}, "compress",
        Rotary(head_dim=512, layout="interleaved", base=160000, rotary_dim=64, placement="trail",
               scaling=YaRN(factor=16, original_max_position_embeddings=65536, attention_factor=1)),
    ),
    "Mistral-Small-4": (
        {"model_type": "mistral4", "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "rope_interleave": False,
         "rope_parameters": {**YARN, **MISTRAL4}}, None,
        half(64, 10000, scaling=YaRN(factor=4, **L0)),
    ),
    "Qwen2-VL": (
        {"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1000000.0,
         "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, None,
        MultimodalRotary(head_dim=128, layout="half", base=1e6, sections=(16, 24, 24)),
    ),
    "Qwen3-VL": (
        {"model_type": "qwen3_vl", "text_config": {
            "model_type": "qwen3_vl_text", "head_dim": 128, "rope_theta": 5000000,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}}}, None,
        MultimodalRotary(head_dim=128, layout="half", base=5e6, sections=(24, 20, 20), arrangement="interleaved"),
    ),
    "Ernie 4.5 VL": (
        {"model_type": "ernie4_5_vl_moe_text", "head_dim": 128,
         "rope_parameters": {"mrope_section": [22, 22, 20]}}, None,
        MultimodalRotary(head_dim=128, layout="interleaved", base=5e5, sections=(22, 22, 20), arrangement="ernie"),
    ),
    "HunyuanImage-3.0": (
        {"model_type": "hunyuan_image_3_moe", "attention_head_dim": 128, "rope_theta": 10000.0, "use_mla": False,
         "qk_rope_head_dim": 64}, None,
        AxialRotary(head_dim=128, layout="half", axes_dims=(64, 64), arrangement="alternating", series="dealt"),
    ),
    "HunyuanImage-3.0, as published": (
        {"model_type": "hunyuan_image_3_moe", "attention_head_dim": 128, "rope_theta": 10000.0, "use_mla": False,
         "qk_rope_head_dim": 64, "rope_type": "2d", "rope_scaling": {
             "alpha": 1.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
             "type": "custom"}}, None,
        AxialRotary(head_dim=128, layout="half", axes_dims=(64, 64), arrangement="alternating", series="dealt"),
    ),
    "Ming-flash-omni-2.0": (
        {"model_type": "bailing_moe_v2", "head_dim": 128, "rope_theta": 2400000,
         "rope_scaling": {"factor": None, "type": "video_rope"}}, None,
        MultimodalRotary(head_dim=128, layout="half", base=2400000, rotary_dim=64,
                         sections=(12, 12, 8), arrangement="ernie"),
    ),
    "openPangu-VL": (
        {"model_type": "openpangu_vl", "head_dim": 32, "rope_theta": 16e6,
         "rope_parameters": {"mrope_section": [6, 5, 5], "mrope_interleaved": True}}, None,
        MultimodalRotary(head_dim=32, layout="half", base=16e6,
                         arrangement=(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0)),
    ),
    "Gemma 3, full": (
        {"model_type": "gemma3", "text_config": {
            "model_type": "gemma3_text", "hidden_size": 2560,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}, "full_attention",
        half(256, 1e6, scaling=Linear(factor=8)),
    ),
    "Gemma 3, sliding": (
        {"head_dim": 256, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0,
         "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}, "sliding_attention",
        half(256, 10000),
    ),
    "Gemma 4, full": (
        {"text_config": {"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512,
                         "rope_parameters": GEMMA4}}, "full_attention",
        half(512, 1e6, placement="spread", scaling=Proportional(partial_rotary_factor=0.25)),
    ),
    "gpt-oss": (
        {"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "num_attention_heads": 64, "rope_theta": 150000,
         "max_position_embeddings": 131072,
         "rope_scaling": {**GPT_OSS, "rope_type": "yarn", "beta_fast": 32.0, "beta_slow": 1.0}}, None,
        half(64, 150000, scaling=YaRN(**GPT_OSS)),
    ),
    "GPT-NeoX": (
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_attention_heads": 64, "rotary_emb_base": 10000,
         "rotary_pct": 0.25}, None,
        half(96, 10000, rotary_dim=24),
    ),
    "GPT-J": (
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048, "rotary": True, "rotary_dim": 64},
        None, Rotary(head_dim=256, layout="interleaved", rotary_dim=64),
    ),
    "Falcon-H1": (
        {"model_type": "falcon_h1", "head_dim": 128, "attn_rotary_emb": 128, "rope_theta": 100000000000.0}, None,
        half(128, 1e11),
    ),
    "Bamba": (
        {"model_type": "bamba", "hidden_size": 4096, "num_attention_heads": 32, "attn_rotary_emb": 64}, None,
        half(128, 10000, rotary_dim=64),
    ),
    "MiniMax-M2": (
        {"model_type": "minimax_m2", "head_dim": 128, "rope_theta": 5000000, "rotary_dim": 64}, None,
        half(128, 5e6, rotary_dim=64),
    ),
    "nomic-bert": (
        {"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
         "rotary_emb_interleaved": False, "rotary_emb_scale_base": None}, None,
        half(64, 1000),
    ),
    "Hunyuan": (
        {"model_type": "hunyuan_v1_dense", "attention_head_dim": 128, "rope_theta": 10000.0,
         "max_position_embeddings": 32768, "rope_scaling": {**HUNYUAN, "type": "dynamic"}}, None,
        half(128, 10000, scaling=NTKAlpha(alpha=1000)),
    ),
    "ModernBERT, global": (
        {"model_type": "modernbert", "hidden_size": 768, "num_attention_heads": 12, "global_rope_theta": 160000.0,
         "local_rope_theta": 10000.0, "position_embedding_type": "absolute"}, "full_attention",
        half(64, 160000),
    ),
    "MiMo-V2, sliding": (
        {"model_type": "mimo_v2", "head_dim": 192, "swa_head_dim": 192, "swa_rope_theta": 10000.0, **MIMO,
         "rope_parameters": {**MIMO, "rope_type": "default", "type": "default"}}, "sliding_attention",
        half(192, 10000, rotary_dim=64),
    ),
    "Olmo 3, sliding": (
        {"model_type": "olmo3", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000,
         "rope_scaling": {**YARN, "attention_factor": 1.2}}, "sliding_attention",
        half(128, 500000),
    ),
    "ChatGLM": (
        {"model_type": "chatglm", "hidden_size": 4096, "kv_channels": 128, "num_attention_heads": 32,
         "original_rope": True, "rope_ratio": 500, "seq_length": 131072}, None,
        Rotary(head_dim=128, layout="interleaved", base=5e6, rotary_dim=64),
    ),
    "nanochat": ({"model_type": "nanochat", "head_dim": 128}, None, half(128, 10000, direction="inverse")),
}
# fmt: on


@pytest.mark.parametrize(("config", "layer_type", "rotary"), PUBLISHED.values(), ids=PUBLISHED)
def test_published_configs(config, layer_type, rotary):
    assert load_rope(config, layer_type=layer_type) == rotary


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_published_numbers(case):
    rotary = load_rope(case["config"], layout=case["layout"]).at(case["seq_len"])
    np.testing.assert_array_equal(rotary.frequencies(), np.float64(case["frequencies"]))
    assert rotary.attention_factor == case["attention_factor"]
    tables = np.stack(rotary.cos_sin(np.array(case["positions"])), axis=-1)
    np.testing.assert_array_equal(tables[:, case["columns"]], np.float32(case["cos_sin"]))
    assert load_rope(to_config(rotary.at(1)), layout=case["layout"]).at(case["seq_len"]) == rotary


TWINS = {
    "base": ({"rope_theta": 5e5}, {"rope_theta": 5e5}, {"base": 5e5}),
    "linear": (
        {"rope_scaling": {"type": "linear", "factor": 2.5}},
        {"rope_type": "linear", "factor": 2.5},
        {"scaling": Linear(factor=2.5)},
    ),
    "linear, a whole factor": (
        {"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2}},
        {"rope_type": "linear", "factor": 2, "original_max_position_embeddings": None},
        {"scaling": Linear(factor=2)},
    ),
    "dynamic": (
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"rope_type": "dynamic", "factor": 2.0},
        {"scaling": DynamicNTK(factor=2, original_max_position_embeddings=4096)},
    ),
    "llama3": (
        {"rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_type": "llama3", **LLAMA3},
        {"scaling": Llama3(**LLAMA3)},
    ),
    "yarn by the lengths": (
        {"rope_scaling": {"type": "yarn", "factor": None, **L0}},
        {"rope_type": "yarn", **L0},
        {"scaling": YaRN(factor=4, **L0)},
    ),
    "yarn, length beside": (
        {"rope_scaling": {"type": "yarn", "factor": 4.0, "finetuned": True}, **L0},
        {**YARN, "extrapolation_factor": 1.0, "attn_factor": 1},
        {"scaling": YaRN(factor=4, **L0)},
    ),
    "yarn, all": (
        {"rope_scaling": {**YARN, "beta_fast": 16, "beta_slow": 16, "truncate": False, "attention_factor": 1.5}},
        {**YARN, "beta_fast": 16, "beta_slow": 16, "truncate": False, "attention_factor": 1.5},
        {"scaling": YaRN(factor=4, **L0, beta_fast=16, beta_slow=16, truncate=False, attention_factor=1.5)},
    ),
    "longrope": (
        {"rope_scaling": {**LISTS, "type": "su", "rope_type": "longrope"}, **L0},
        LONG,
        {"scaling": LongRoPE(**LISTS, **L0, factor=4)},
    ),
    "share": (
        {"rotary_percentage": 0.29, "rotary_dim": 18},
        {"partial_rotary_factor": 0.29},
        {"rotary_dim": 18},
    ),
    "width": ({"rotary_emb_dim": 16}, {"rope_dim": 16}, {"rotary_dim": 16}),
    "all of it": ({"rotary_emb_fraction": 1.0}, {"partial_rotary_factor": 1.0, "rotary_dim": 64}, {}),
    "scaled in part": (
        {"partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"partial_rotary_factor": 0.5, "rope_type": "linear", "factor": 2.0},
        {"rotary_dim": 32, "scaling": Linear(factor=2)},
    ),
    "no scaling, all keys given": (
        {"rope_scaling": {"type": "default", "factor": 1.0}, "rope_parameters": None},
        {"rope_type": "default", "attention_factor": None},
        {},
    ),
}


@pytest.mark.parametrize(("old", "new", "fields"), TWINS.values(), ids=TWINS)
def test_both_spellings_give_the_same_encoding(old, new, fields):
    rotary = Rotary(**{"head_dim": 64, "layout": "half"} | fields)
    assert load_rope(SMALL | old) == load_rope(SMALL | {"rope_parameters": new}) == rotary


def test_a_file_a_folder_and_an_object(tmp_path):
    class Config:
        def to_dict(self):
            return {"rope_theta": 1e6, **SMALL}

    path = tmp_path / "config.json"
    path.write_text(json.dumps(Config().to_dict()), encoding="utf-8")
    for config in (path, str(path), tmp_path, Config()):
        assert load_rope(config) == half(64, 1e6)
    for text, error in (("{", ValueError), ("[]", TypeError)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(error, match=r"`config` must .*config\.json"):
            load_rope(path)
    path.write_text(json.dumps(Config().to_dict()), encoding="utf-8-sig")
    assert load_rope(path) == half(64, 1e6)
    path.write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(ValueError, match="`config` must be a file of JSON"):
        load_rope(path)
    for missing in (tmp_path / "other.json", "meta-llama/Llama-3.1-8B"):
        message = f"`config` must be a path to config.json, .* no file {missing}, and nothing is downloaded"
        with pytest.raises(FileNotFoundError, match=message):
            load_rope(missing)
    with rejects(TypeError, "config", "int"):
        load_rope(64)


def test_the_text_part_of_a_nested_config():
    text = {**SMALL, "model_type": "qwen2"}
    outer = {"hidden_size": 1024, "num_attention_heads": 8, "vision_config": {"head_dim": 80}, "rope_theta": 1e6}
    for config in (
        {"llm_config": text, **outer},
        {"language_config": {**text, "rope_theta": None}, **outer},
        {"thinker_config": {"text_config": text, **outer}},
        {"text_config": {**text, "rope_parameters": {"rope_theta": 1e6}}, **outer, "rope_theta": None},
        {"text_config": {**text, "rope_scaling": {}}, **outer, "rope_scaling": {"type": "linear", "factor": 2.0}},
    ):
        assert load_rope(config) == half(64, 1e6)
    nameless = {"model_type": "qwen3_vl_moe", "text_config": {"head_dim": 128}}
    assert load_rope(nameless).arrangement == "interleaved"


def test_rotary_keys_in_dicts_of_their_own():
    dbrx = {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "attn_config": {"rope_theta": 500000}}
    assert load_rope(dbrx) == half(128, 500000)
    assert load_rope({"lm_config": {**SMALL, "rope_theta": 5e5}}) == half(64, 5e5)
    others = {
        "vision_config": {"rope_theta": 1e2},
        "audio_tower": {"rope_theta": 1e2},
        "mtp": {"model_type": "", "theta": 1},
    }
    assert load_rope({"text_config": {**SMALL, "rope_theta": 5e5}, **others}) == half(64, 5e5)


def test_a_part_that_cannot_be_loaded():
    assert load_rope(SMALL, part=None) == half(64, 10000)
    with rejects(ValueError, "part", "'tail'"):
        load_rope(SMALL, part="tail")


def test_configs_that_hold_themselves():
    config = {**SMALL}
    config["text_config"] = config
    with rejects(ValueError, "config"):
        load_rope(config)


def test_flags_that_are_true_in_models_with_rope():
    for flag in ({"use_rotary_pos_emb": True}, {"model_type": "esm", "position_embedding_type": "rotary"}):
        assert load_rope({**SMALL, **flag}) == half(64, 10000)
    plain = {"model_type": "deepseek_v2", "use_mla": False, "qk_rope_head_dim": 32, "rope_theta": 10000}
    assert load_rope({**SMALL, **plain}) == half(64, 10000)
    assert load_rope({**SMALL, **plain, "use_mla": True}) == Rotary(head_dim=32, layout="interleaved")


def test_published_keys_that_change_no_angle():
    for one in (
        {"qk_nope_head_dim": 32, "properties": 1, "rope_scaling": None, "rotary_value": False},
        {"rotary_emb_scale_base": None, "use_dynamic_ntk": False, "position_encoding_2d": False},
        {"rope_scaling_layers": [0, 1], "num_hidden_layers": 2, "dual_chunk_attention_config": None},
    ):
        assert load_rope({**SMALL, **one}) == half(64, 10000)


def test_equal_layer_types_need_no_name():
    alike = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e6}}
    assert load_rope({**SMALL, "rope_parameters": alike}) == half(64, 1e6)


def test_the_part_of_a_share_is_its_whole_part():
    widths = [(192, 0.334, 64), (100, 0.29, 28), (80, 0.4, 32), (96, 0.25, 24)]
    for head_dim, share, rotary_dim in widths:
        assert int(head_dim * share) == rotary_dim
        assert load_rope({"head_dim": head_dim, "partial_rotary_factor": share}).rotary_dim == rotary_dim


def test_the_layout_is_an_argument_a_key_or_that_of_the_model():
    layouts = [
        ({"model_type": "cohere"}, None, "interleaved"),
        ({"model_type": "cohere"}, "half", "half"),
        ({"model_type": "glm4_moe_lite"}, None, "interleaved_to_half"),
        ({"model_type": "deepseek_v2"}, None, "interleaved"),
        ({"rope_interleave": True}, None, "interleaved_to_half"),
        ({"rope_interleave": False, "model_type": "deepseek_v3"}, None, "half"),
        ({"rotary_emb_interleaved": True}, None, "interleaved"),
        ({}, None, "half"),
    ]
    for config, asked, layout in layouts:
        assert load_rope({"rope_theta": 1e5, **SMALL, **config}, layout=asked).layout == layout
    with rejects(ValueError, "layout", "'neox'"):
        load_rope(SMALL, layout="neox")


def test_a_config_has_at_most_100_layer_types():
    types = [f"type{index}" for index in range(100)]
    assert len(layer_types({"head_dim": 64, "rope_parameters": {name: {"rope_theta": 1e4} for name in types}})) == 100
    more = {name: {"rope_theta": 1e4} for name in [*types, "another"]}
    with rejects(ValueError, "layer_types", 101):
        layer_types({"head_dim": 64, "rope_parameters": more})


def test_keys_that_are_not_text_mean_no_other_key():
    config = {"model_type": "llama", "head_dim": 64}
    assert load_rope({**config, 7: 1, None: 2, (1, 2): 3}) == load_rope(config)


def test_layer_types_are_listed():
    rope = {"sliding_attention": {"rope_theta": 10000.0}, "full_attention": None}
    nested = {"head_dim": 64, "layer_types": ["sliding_attention", "conv", "full_attention"], "rope_parameters": rope}
    assert layer_types(nested) == ("sliding_attention", "full_attention")
    assert load_rope(nested, layer_type="sliding_attention") == half(64, 10000)
    assert load_rope(nested, layer_type="full_attention") is None
    assert load_rope(nested, layer_type="conv") is None
    assert load_rope({**nested, "rope_parameters": {"full_attention": None}}, layer_type="full_attention") is None
    for layer_type in (None, "global"):
        with pytest.raises(ValueError, match=f"`layer_type` must be one of 'full.*', 'sliding.*', got {layer_type!r}"):
            load_rope(nested, layer_type=layer_type)


def test_bases_may_go_by_other_names_than_layers():
    config = {"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "layer_types": ["heavily_compressed_attention"]}
    assert layer_types(config) == ("main", "compress")
    with rejects(ValueError, "layer_type", "'heavily_compressed_attention'"):
        load_rope(config, layer_type="heavily_compressed_attention")


def test_layers_that_are_alike_need_no_name():
    alike = {**SMALL, "layer_types": ["linear_attention", "full_attention"], "rope_theta": 1e6}
    assert layer_types(alike) == ()
    assert load_rope(alike) == load_rope(alike, layer_type="full_attention") == half(64, 1e6)
    assert load_rope(alike, layer_type="linear_attention") is None
    with rejects(ValueError, "layer_type", "'main'"):
        load_rope(alike, layer_type="main")
    with rejects(ValueError, "layer_type", "'full_attention'"):
        load_rope(SMALL, layer_type="full_attention")


def test_layers_without_rope():
    config = {"head_dim": 128, "model_type": "cohere2", "rope_theta": 50000, "sliding_window": 4096}
    rotary = Rotary(head_dim=128, layout="interleaved", base=50000)
    assert layer_types(config) == ("sliding_attention", "full_attention")
    assert load_rope(config, layer_type="sliding_attention") == rotary
    assert load_rope(config, layer_type="full_attention") is None
    with rejects(ValueError, "layer_type", "None"):
        load_rope(config)
    assert load_rope({**config, "layer_types": ["sliding_attention"]}) == rotary
    assert load_rope({**config, "sliding_window": None}, layer_type=None) == rotary
    assert layer_types({"model_type": "cohere2"}) == layer_types(config)
    exaone = {"head_dim": 64, "model_type": "exaone4", "sliding_window": None, "layer_types": ["full_attention"]}
    assert load_rope(exaone, layer_type="full_attention") == half(64, 10000)


def test_keys_of_a_layer_type_take_precedence():
    nested = {"full_attention": {"partial_rotary_factor": 0.5}, "sliding_attention": {"rope_theta": 100.0}}
    config = {**SMALL, "rope_theta": 1e6, "partial_rotary_factor": 0.25, "rope_parameters": nested}
    assert load_rope(config, layer_type="full_attention") == half(64, 1e6, rotary_dim=32)
    assert load_rope(config, layer_type="sliding_attention") == half(64, 100, rotary_dim=16)


def test_keys_left_over_beside_layer_types_that_have_them():
    each = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": None}
    config = {**SMALL, "rope_parameters": {**each, "rope_theta": 1e5, "rope_type": "default", "factor": 1.0}}
    assert load_rope(config, layer_type="full_attention") == half(64, 1e6)


def test_the_length_goes_by_several_names():
    for name in ("n_positions", "seq_length", "max_position_embeddings"):
        rotary = load_rope({"head_dim": 64, name: 512, "rope_scaling": {"type": "dynamic", "factor": 2.0}})
        assert rotary.max_seq_len == 512
    only_original = {"head_dim": 64, "rope_scaling": {"type": "dynamic", "factor": 2.0, **L0}}
    assert load_rope(only_original).max_seq_len == 1024
    with rejects(ValueError, "max_position_embeddings", "`rope_type`", "'dynamic'"):
        load_rope({"head_dim": 64, "rope_scaling": {"type": "dynamic", "factor": 2.0}})


def test_layers_with_and_without_rope_by_index():
    for one in (
        {"no_rope_layers": [1, 1, 0]},
        {"layer_rope_theta": [1e6, 0, 1e6]},
        {"no_rope_layer_interval": 4},
        {"use_rope": True, "use_mem_rope": True},
    ):
        assert load_rope({**SMALL, "rope_theta": 1e6, **one}) == half(64, 1e6)


@pytest.mark.parametrize(
    ("config", "head_dim"),
    [
        ({"hidden_size": 4544, "num_attention_heads": 71}, 64),
        ({"n_embd": 96, "n_head": 4}, 24),
        ({"d_model": 96, "n_heads": 2}, 48),
        ({"hidden_size": 288, "decoder_num_attention_heads": 8}, 36),
        ({"kv_channels": 80, "hidden_size": 64, "num_heads": 2}, 80),
        ({"head_dim": 80, "attention_head_dim": 80, "hidden_size": 64, "num_heads": 2}, 80),
        ({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}, 128),  # a default of the class
        ({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16, "head_dim": None}, 64),
        ({"model_type": "zamba2", "attention_head_dim": 160, "kv_channels": 80}, 160),
        ({"model_type": "jetmoe", "kv_channels": 24, "hidden_size": 96, "num_attention_heads": 2}, 24),
    ],
)
def test_the_width_of_a_head(config, head_dim):
    assert load_rope(config) == half(head_dim, 10000)


def test_one_base_for_each_layer_type_beside_flat_parameters():
    rope = {"rope_theta": 2e6, "partial_rotary_factor": 0.5, "rope_type": "linear", "factor": 8.0}
    config = {**SMALL, "rope_local_base_freq": 500.0, "rope_parameters": rope}
    full = half(64, 2e6, rotary_dim=32, scaling=Linear(factor=8))
    assert load_rope(config, layer_type="full_attention") == full
    assert load_rope(config, layer_type="sliding_attention") == half(64, 500, rotary_dim=32)


def test_a_head_may_be_wider_in_some_layers():
    layers = {name: {"rope_theta": 10000.0} for name in ("full_attention", "sliding_attention")}
    types = ["sliding_attention", "full_attention"]
    config = {
        "head_dim": 64,
        "layer_types": types,
        "rope_parameters": layers,
        "per_layer_config": {"01": {"head_dim": 96}},
    }
    assert [load_rope(config, layer_type=name).head_dim for name in types] == [64, 96]
    named = {"head_dim": 64, "swa_head_dim": 80, "global_head_dim": 96, "rope_parameters": layers}
    assert [load_rope(named, layer_type=name).head_dim for name in types] == [80, 96]


def test_per_layer_truncate_is_honoured():  # transformers 5.23 reads it from the outer dict, where it is not
    rope = {"full_attention": {**YARN, "rope_theta": 150000.0, "truncate": False}}
    scaling = load_rope({**SMALL, "rope_parameters": rope}, layer_type="full_attention").scaling
    assert scaling == YaRN(factor=4, **L0, truncate=False)


@pytest.mark.parametrize(
    "config",
    [
        {"alibi": True},
        {"use_alibi": True, "rope_theta": 10000.0},
        {"rotary": False},
        {"use_rope": False},
        {"position_embedding_type": "nope", "rope_theta": 10000.0},
        {"position_embedding_type": "absolute"},
        {"use_mem_rope": False},
        {"partial_rotary_factor": 0.0},
        {"rotary_emb_fraction": 0.0},
        {"use_rotary_pos_emb": False},
        {"attn_config": {"alibi": True}},
        {"mla_use_nope": True, "model_type": "kimi_linear", "rope_theta": 10000.0},
        {"model_type": "nemotron_h", "rope_theta": 10000},
        {"model_type": "esm", "position_embedding_type": "absolute", "rope_parameters": {"rope_theta": 10000.0}},
        {"model_type": "granitemoehybrid", "position_embedding_type": None, "rope_theta": 10000},
        {"model_type": "llama", "rope_parameters": {"full_attention": None}},
    ],
)
def test_models_without_rope(config):
    assert load_rope(SMALL | config) is None


@pytest.mark.parametrize(
    ("rope", "factor"),
    [
        ({"rope_type": "deepseek_yarn", "mscale": 0.707, "mscale_all_dim": 0.707}, 1),
        ({"rope_type": "deepseek_yarn"}, 0.1 * math.log(4) + 1),
        ({"rope_type": "deepseek_yarn", "mscale": 0.5}, 0.05 * math.log(4) + 1),
        (
            {"rope_type": "deepseek_yarn", "mscale": 2, "mscale_all_dim": 1},
            (0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1),
        ),
        ({"rope_type": "deepseek_yarn", "mscale": 0, "mscale_all_dim": 1}, 1 / (0.1 * math.log(4) + 1)),
        ({"rope_type": "telechat3-yarn"}, 0.07 * math.log(4) + 1),
        ({"rope_type": "telechat3-yarn", "attention_factor": 1.25}, 1.25),
        ({"rope_type": "yarn", "attn_factor": 0.5}, 0.5 * (0.1 * math.log(4) + 1)),
        ({"rope_type": "yarn", "mscale": 2.0, "mscale_all_dim": 1.0, "attention_factor": 1.5}, 1.5),
    ],
)
def test_attention_factors_of_the_types_of_yarn(rope, factor):
    rotary = load_rope(SMALL | {"rope_parameters": YARN | rope})
    assert rotary.attention_factor == pytest.approx(factor, rel=1e-15)
    np.testing.assert_array_equal(rotary.frequencies(), half(64, 10000, scaling=YaRN(factor=4, **L0)).frequencies())


def test_numbers_far_out_by_the_definition():
    """`dynamic` with `alpha`, in part, at a position that float32 angles do not reach."""
    rope = {"rope_type": "dynamic", "alpha": 1000.0, "partial_rotary_factor": 0.334, "rope_theta": 10000.0}
    rotary = load_rope({"head_dim": 192, "rope_parameters": rope})
    position = 2**21 + 1
    cos, sin = rotary.cos_sin([position])
    with mpmath.workdps(60):
        base = mpmath.mpf(10000) * mpmath.mpf(1000) ** (mpmath.mpf(64) / 62)
        angles = [position / base ** (mpmath.mpf(2 * i) / 64) for i in range(32)]
        np.testing.assert_array_equal(cos[0], np.float32([float(mpmath.cos(angle)) for angle in angles]))
        np.testing.assert_array_equal(sin[0], np.float32([float(mpmath.sin(angle)) for angle in angles]))


WARNED = {
    "factor": ({"rope_scaling": {**YARN, "factor": 8.0}}, "`factor` 8.0 .* `max_position_embeddings` 4096 .* 1024"),
    "longrope": ({"rope_scaling": {**LONG, "factor": 8.0}}, "`factor` 8.0 .* `max_position_embeddings` 4096"),
    "two original lengths": (
        {"rope_scaling": LONG, "original_max_position_embeddings": 2048},
        "`original_max_position_embeddings` is 1024 .* 2048 .*used",
    ),
    "dynamic": (
        {"rope_scaling": {"type": "dynamic", "factor": 2.0, **L0}},
        "'dynamic' starts from `max_position_embeddings` 4096, .* not `original_max_position_embeddings` 1024",
    ),
    "mscale": ({"rope_scaling": {**YARN, "mscale": 0.7}}, "`mscale` has no effect alone"),
    "llama 4": ({"rope_scaling": {**YARN, "llama_4_scaling_beta": 0.1}}, "`llama_4_scaling_beta` is not a rotation"),
    "two lengths": (
        {"rope_scaling": {"type": "default", "max_position_embeddings": 1024}},
        "`max_position_embeddings` is 1024 .* 4096 .*used",
    ),
}


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("gpt2", ("rope_theta", "`model_type`", "'gpt2'")),
        ("gpt_oss", ("rope_parameters", "`model_type`", "'gpt_oss'")),
    ],
)
def test_a_config_that_says_nothing_of_a_rotation(name, names):
    with rejects(ValueError, *names):
        load_rope({"model_type": name, "hidden_size": 768, "num_attention_heads": 12})


@pytest.mark.parametrize(("config", "message"), WARNED.values(), ids=WARNED)
def test_a_warning_names_both_keys_and_which_is_used(config, message):
    with pytest.warns(UserWarning, match=message) as warned:
        rotary = load_rope(SMALL | config)
    assert len(warned) == 1
    assert rotary.base == 10000


def test_the_value_named_in_a_warning_is_used():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scalings = {name: load_rope(SMALL | config).scaling for name, (config, _) in WARNED.items()}
    assert scalings == {
        "factor": YaRN(factor=8, **L0),
        "longrope": LongRoPE(**LISTS, **L0, factor=8),
        "two original lengths": LongRoPE(**LISTS, original_max_position_embeddings=2048, factor=2),
        "dynamic": DynamicNTK(factor=2, original_max_position_embeddings=4096),
        "mscale": YaRN(factor=4, **L0, mscale=0.7),
        "llama 4": YaRN(factor=4, **L0),
        "two lengths": None,
    }


REFUSED = [
    ({"rope_scaling": {"type": "ntk", "factor": 2.0}}, "`rope_type` 'ntk' cannot be loaded: .*`NTK`"),
    ({"rope_scaling": {"type": "xdrope", "alpha": 2.0}}, "`xdrope_section` is missing: `rope_type` 'xdrope' needs it"),
    ({"rope_scaling": {"type": "xdrope", "xdrope_section": [8] * 4}}, "`alpha` is missing"),
    ({"rope_scaling": {**XDROPE, "xdrope_section": [32]}}, r"`xdrope_section` must be 2 to 64 numbers, got \[32\]"),
    ({"rope_scaling": {**XDROPE, "mrope_section": [8] * 3}}, "`mrope_section` must add up to the 32 pairs"),
    ({"rope_scaling": {**XDROPE, "mrope_section": [16] * 2, "xdrope_section": [8] * 4}}, "`rope_parameters.mrope_sect"),
    ({"rope_scaling": {"type": "video_rope", "mrope_section": [8, 11, 13]}}, "must be equal for height"),
    ({"rope_scaling": {"type": "mrope", "mrope_section": [-1, 16, 17]}}, "`mrope_section` .*at least 0, got -1"),
    ({"rope_scaling": {"type": "openpangu"}}, "`mrope_section` is missing: `rope_type` 'openpangu' needs it"),
    ({"rope_scaling": {"type": "openpangu", "mrope_section": [0, 16, 16]}}, "`mrope_section` .*at least 1, got 0"),
    ({"model_type": "openpangu_vl", "rope_scaling": {"mrope_section": [32], "mrope_interleaved": True}},
     "`mrope_section` must be 2 to 3 numbers"),
    ({"rope_parameters": {"rope_type": "axial"}}, "`rope_type` 'axial' cannot be loaded"),
    ({"rope_parameters": {"rope_type": "fope"}}, "`rope_type` must be one of 'default', 'linear', .*, got 'fope'"),
    ({"rope_scaling": {**FOPE, **YARN}}, "`fope_.*` is not a key of `rope_type` 'yarn', .* default"),
    ({"rope_scaling": {"fope_sep_head": True}}, "`fope_init_factor` is missing: FoPE needs it"),
    ({"rope_scaling": {**FOPE, "fope_init_factor": -1}}, "`fope_init_factor` must be a finite number of at least 0"),
    ({"rope_scaling": {**FOPE, "num_inv_freq": 0}}, "`num_inv_freq` must be .*at least 1, got 0"),
    ({"rope_scaling": {**FOPE, "mrope_section": [8, 12, 12]}}, "`mrope_section` must be left out beside `fope_init_fa"),
    ({"rope_scaling": FOPE, "partial_rotary_factor": 0.5}, "`partial_rotary_factor` must be 1 beside `fope_in"),
    ({"rope_scaling": FOPE, "max_position_embeddings": 6}, "`max_position_embeddings` must be .*at least 7, got 6"),
    ({"rope_scaling": {**FOPE, "fope_sep_head": True, "num_inv_freq": 9}}, "`num_key_value_heads` is missing"),
    ({"rope_parameters": {"rope_type": ["yarn"]}}, r"`rope_type` must be one of .*, got \['yarn'\]"),
    ({"rope_scaling": {"type": "linear", "rope_type": "yarn"}}, "`rope_type` is 'yarn', but `type` is 'linear'"),
    ({"rope_scaling": {"type": "linear"}}, "`factor` is missing: `rope_type` 'linear' needs factor"),
    ({"rope_scaling": {"type": "dynamic"}}, "`factor` is missing"),
    ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "`original_max_position_embeddings` is missing"),
    ({"rope_scaling": {"type": "su", **LISTS}}, "`original_max_position_embeddings` is missing"),
    ({"rope_scaling": {"type": "su", **L0, "short_factor": [1.0] * 32}}, "`long_factor` is missing"),
    ({"rope_scaling": {**LLAMA3, "type": "llama3", "low_freq_factor": None}}, "`low_freq_factor` is missing"),
    ({"rope_scaling": {**LONG, "short_factor": [1.0]}}, "`short_factor` must have 32 numbers"),
    ({"rope_scaling": {**YARN, "factor": 0.5}}, "`factor` must be a finite number of at least 1, got 0.5"),
    ({"rope_scaling": {**YARN, "factor": math.nan}}, "`factor` must be a finite number"),
    ({"rope_scaling": {**YARN, "factor": None}, "max_position_embeddings": 512}, "`factor` is missing, and"),
    ({"rope_scaling": {**YARN, "beta_fast": 1, "beta_slow": 2}}, "`beta_fast` must be at least `beta_slow` 2, got 1"),
    ({"rope_scaling": {**YARN, "extrapolation_factor": 2}}, "`extrapolation_factor` must be 1, got 2"),
    ({"rope_scaling": {**YARN, "attn_factor": 2, "attention_factor": 1.5}}, "`attn_factor` must be left out beside"),
    ({"rope_scaling": {**YARN, "attn_factor": -2}}, "`attn_factor` must be a finite number greater than 0, got -2"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0, "low_freq_factor": 1.0}},
     "`low_freq_factor` is not a key of `rope_type` 'linear', got 1.0: it belongs to llama3"),
    ({"rope_scaling": {"factor": 2.0}}, "`factor` is not a key of `rope_type` 'default', got 2.0"),
    ({"rope_scaling": {"type": "dynamic", "alpha": 9.0, "factor": 2.0}}, "`factor` is not a key of .* with alpha'"),
    ({"rope_scaling": {**YARN, "beta": 1}}, "`beta` is not a key of `rope_type` 'yarn', got 1: .*beta_fast"),
    ({"rope_theta": 1e6, "rope_parameters": {"rope_theta": 1e5}},
     "`rope_parameters.rope_theta` is 100000.0, but `rope_theta` is 1000000.0"),
    ({"rope_theta": 1e6, "rotary_emb_base": 10000}, "`rope_theta` is 1000000.0, but `rotary_emb_base` is 10000"),
    ({"rope_ratio": 0}, "`rope_ratio` must be a finite number greater than 0, got 0"),
    ({"rope_ratio": 2, "rope_theta": 1e4}, "`rope_theta` is 10000.0, but `rope_ratio` is 20000"),
    ({"rope_theta": 1}, "`rope_theta` must be a finite number greater than 1, got 1"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "linear", "factor": 4.0}},
     "`factor` is 4.0, but `rope_scaling.factor` is 2.0"),
    ({"partial_rotary_factor": 0.5, "rotary_pct": 0.25}, "`partial_rotary_factor` is 0.5, but `rotary_pct` is 0.25"),
    ({"partial_rotary_factor": 0.5, "rotary_dim": 16}, "`partial_rotary_factor` 0.5 of 64 channels is not 16"),
    ({"partial_rotary_factor": 0.3}, "`partial_rotary_factor` must .*even number of at most 64 channels, got 19"),
    ({"partial_rotary_factor": 1.5}, "`partial_rotary_factor` must be at most 1, got 1.5"),
    ({"rotary_dim": 66}, "`rotary_dim` must .*even number of at most 64 channels, got 66"),
    ({"head_dim": 7}, "`head_dim` must be even, got 7"),
    ({"head_dim": None}, "`head_dim` is missing, and so is `hidden_size` or `num_attention_heads`"),
    ({"qk_rope_head_dim": 32, "rotary_dim": 16}, "`qk_rope_head_dim` is 32, but `rotary_dim` is 16"),
    ({"rope_parameters": {"mrope_section": [8, 8, 8]}}, r"`mrope_section` must add up to the 32 pairs .*\(8, 8, 8\)"),
    ({"rope_parameters": {"mrope_section": [8] * 4}}, r"`mrope_section` must be three numbers, .* got \[8, 8, 8, 8\]"),
    ({"rope_parameters": {"mrope_interleaved": True}}, "`mrope_section` is missing"),
    ({"rope_parameters": {"a": {"rope_theta": 1e5}, "rope_theta": 1e6, "b": {}}},
     "`rope_theta` must be .*each of 'a', 'b'.* got 1000000.0"),
    ({"mrope_section": [8, 12, 12]}, r"`mrope_section` is unknown, got \[8, 12, 12\]"),
    ({"rotary_scaling": 2.0}, "`rotary_scaling` is unknown, got 2.0"),
    ({"rope_3d": True}, "`rope_3d` is unknown, got True"),
    ({"use_dynamic_ntk": True}, "`use_dynamic_ntk` .*not supported, got True"),
    ({"layer_rope_theta": [10000.0, 0, 1e6]}, "`layer_rope_theta` must be `rope_theta` 10000 or 0 in every layer, got"),
    ({"text_config": {"rope_theta": 1e5, **SMALL}, "rope_theta": 1e6}, "`rope_theta` is .*`text_config.rope_theta`"),
    ({"attn_config": {"rope_theta": 1e5}, "rope_theta": 1e6},
     "`rope_theta` is 1000000.0, but `attn_config.rope_theta`"),
    ({"position": {"part": {"rope_theta": 1e5}}}, "`position.part.rope_theta` .*got 100000.0"),
    ({"rope_parameters": {"rope_type": False}}, "`rope_type` must be one of .*, got False"),
    ({"rope_parameters": {"rope_type": ""}}, "`rope_type` must be one of .*, got ''"),
    ({"rope_parameters": {"rope_type": []}}, r"`rope_type` must be one of .*, got \[\]"),
    ({"rope_parameters": {"mrope_section": []}}, r"`mrope_section` must be three numbers, .* got \[\]"),
    ({"rope_scaling": {"type": "mrope"}}, "`mrope_section` is missing: `rope_type` 'mrope' needs it"),
    ({"model_type": "qwen3_vl", "head_dim": 128, "rope_parameters": {"mrope_interleaved": False}},
     "`mrope_interleaved` must be True or left out, .*got False"),
    ({"ropetheta": 1e6}, "`ropetheta` is unknown, got 1000000.0"),
    ({"rope-theta": 1e6}, "`rope-theta` is unknown, got 1000000.0"),
    ({"RoPE_theta": 1e6}, "`RoPE_theta` is unknown, got 1000000.0"),
    ({"ropescaling": {"factor": 2.0}}, "`ropescaling` is unknown, got {'factor': 2.0}"),
    ({"theta": 1e6}, "`theta` is unknown, got 1000000.0"),
    ({"position_encoding_2d": True}, "`position_encoding_2d` .*not supported, got True"),
    ({"rope_scaling": {"type": "custom", "alpha": 1.0}},
     "`rope_type` 'custom' means that the code of the model .* 'hunyuan_image_3_moe' alone, got ''"),
    ({"model_type": "hunyuan_image_3_moe", "attention_head_dim": 64, "rope_type": "3d"}, "`rope_type` is unknown"),
    ({"dual_chunk_attention_config": {"chunk_size": 8}}, "`dual_chunk_attention_config.local_size` is missing"),
    ({"dual_chunk_attention_config": {"chunk_size": 8, "local_size": 8}},
     "`dual_chunk_attention_config`: `local_size` must be below `chunk_size` 8, got 8"),
    ({"dual_chunk_attention_config": {"chunk_size": 8, "chunk": 1}}, "has the unknown key 'chunk' with 1"),
    ({"dual_chunk_attention_config": {"chunk_size": 0, "local_size": 1}},
     "`dual_chunk_attention_config.chunk_size` must be at least 1, got 0"),
    ({"dual_chunk_attention_config": CHUNKS, "rope_scaling": {"type": "linear", "factor": 2.0}},
     "`dual_chunk_attention_config` must be left out beside .*Linear"),
    ({"model_type": "gemma3", "local_rope_theta": 1e4}, "`local_rope_theta` is the base of no layer type"),
    ({"rope_local_base_freq": 5.0, "rope_parameters": {"full_attention": {"rope_theta": 1e4}}},
     "`rope_local_base_freq` is the base of no layer type"),
    ({"head_dim": 10**400}, "`head_dim` must be less than 2147483648, got 1000"),
    ({"max_position_embeddings": 10**400}, "`max_position_embeddings` must be less than 2147483648, got 1000"),
    ({"rope_theta": 10**5000}, "`config` must have shorter numbers"),
    ({"head_dim": None, "n_embd": 100, "n_head": 3}, "`n_embd` 100 is not a multiple of `n_head` 3: add `head_dim`"),
    ({"model_type": "zamba2", "head_dim": None, "kv_channels": 80}, "`attention_head_dim` is missing"),
    ({"rope_scaling_layers": [0, 2], "num_hidden_layers": 3}, r"`rope_scaling_layers` is unknown, got \[0, 2\]"),
    ({"layer_types": ["full_attention", "sliding_attention"], "swa_head_dim": 32},
     "`layer_type` must be one of 'full_attention', 'sliding_attention', got None"),
    ({"rope_parameters": {1: {}, "a": {"rope_theta": 1e5}}}, "`layer_type` must be one of 1, 'a', got None"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), REFUSED, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_refused_by_name(config, message):
    with pytest.raises(ValueError, match=message):
        load_rope(SMALL | config)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"rope_scaling": "linear"}, ("rope_scaling", "'linear'")),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, ("factor", "'2'")),
        (
            {"rope_scaling": {**YARN, "original_max_position_embeddings": 1024.5}},
            ("original_max_position_embeddings", "1024.5"),
        ),
        ({"rope_theta": "10000"}, ("rope_theta", "'10000'")),
        ({"partial_rotary_factor": "half"}, ("partial_rotary_factor", "'half'")),
        ({"rotary_dim": 16.5}, ("rotary_dim", "16.5")),
        ({"head_dim": "64"}, ("head_dim", "'64'")),
        ({"head_dim": None, "hidden_size": "64", "n_head": 2}, ("hidden_size", "'64'")),
        ({"head_dim": None, "hidden_size": 64, "n_head": 2.5}, ("n_head", "2.5")),
        ({"rope_parameters": {"mrope_section": ["8", 12, 12]}}, ("mrope_section", "'8'")),
        ({"rope_parameters": {"full_attention": {}, "sliding": 3}}, ("sliding", "3")),
        ({"global_rope_theta": "x"}, ("global_rope_theta", "'x'")),
        ({"rope_local_base_freq": "x"}, ("rope_local_base_freq", "'x'")),
        ({"rotary_pct": "x"}, ("rotary_pct", "'x'")),
        ({"attn_rotary_emb": 1.5}, ("attn_rotary_emb", "1.5")),
        ({"global_head_dim": "x", "layer_types": ["full_attention", "sliding_attention"]}, ("global_head_dim", "'x'")),
        ({"n_positions": "x"}, ("n_positions", "'x'")),
        ({"qk_nope_head_dim": "8", "qk_rope_head_dim": 64}, ("qk_nope_head_dim", "'8'")),
        ({"head_dim": {}, "qk_rope_head_dim": 64}, ("head_dim", "{}")),
        ({"qk_rope_head_dim": ""}, ("qk_rope_head_dim", "''")),
        ({"layer_types": True}, ("layer_types", "True")),
        ({"layer_types": ["a", 1]}, ("layer_types", "['a', 1]")),
        ({"layer_rope_theta": 5}, ("layer_rope_theta", "5")),
        (
            {"layer_types": ["full_attention"], "per_layer_config": [1]},
            ("per_layer_config", "[1]"),
        ),
        ({"layer_types": ["full_attention"], "per_layer_config": {"a": {}}}, ("per_layer_config", "'a'")),
        ({"model_type": 5}, ("model_type", "5")),
        ({"text_config": "qwen2"}, ("text_config", "'qwen2'")),
        ({"rope_interleave": "false"}, ("rope_interleave", "'false'")),
        ({"use_rope": "False"}, ("use_rope", "'False'")),
        ({"use_alibi": "no"}, ("use_alibi", "'no'")),
        ({"rope_parameters": {"mrope_interleaved": "no"}}, ("mrope_interleaved", "'no'")),
    ],
)
def test_refused_by_type(config, names):
    with rejects(TypeError, *names):
        load_rope(SMALL | config)


EXPORTED = [
    half(64, 10000),
    half(192, 5e6, rotary_dim=64),
    half(98, 10000, rotary_dim=94),
    half(64, 1e6, scaling=Linear(factor=2)),
    half(64, 1e6, scaling=NTKAlpha(alpha=1000)),
    half(64, 1e6, scaling=DynamicNTK(factor=2, original_max_position_embeddings=4096)),
    half(64, 1e6, rotary_dim=32, scaling=Llama3(**LLAMA3)),
    half(64, 1e6, scaling=YaRN(factor=2.3, **L0, beta_fast=16, beta_slow=16, truncate=False)),
    half(64, 1e6, scaling=YaRN(factor=4, **L0, mscale=0.7, mscale_all_dim=1)),
    half(64, 1e6, scaling=YaRN(factor=4, **L0, attention_factor=1.5)),
    half(64, 1e6, scaling=LongRoPE(**LISTS, **L0, factor=4)),
    half(64, 1e6, scaling=LongRoPE(**LISTS, **L0, attention_factor=1.25)),
    half(64, 1e6, scaling=LongRoPE(**LISTS, **L0, short_mscale=1.25, long_mscale=1.5)),
    half(64, 1e6, placement="spread", scaling=Proportional(partial_rotary_factor=0.25, factor=8)),
    Rotary(head_dim=64, layout="interleaved_to_half"),
    MultimodalRotary(head_dim=64, layout="half", sections=(8, 12, 12)),
    MultimodalRotary(head_dim=256, layout="half", rotary_dim=64, sections=(11, 11, 10), arrangement="interleaved"),
    FoPE(head_dim=64, layout="half", base=5e6, length=2048),
    FoPE(head_dim=64, layout="half", num_terms=16, num_heads=4, std=math.sqrt(2 / (16 * 20))),
    DualChunk(rotary=half(64, 1e7, max_len=32768), chunk_size=6144, local_size=512),
]


@pytest.mark.parametrize("rotary", EXPORTED, ids=repr)
def test_to_config_and_back(rotary):
    layout = getattr(rotary, "rotary", rotary).layout
    assert load_rope(json.loads(json.dumps(to_config(rotary))), layout=layout) == rotary


@pytest.mark.parametrize("std", [0.02, 0.3, 1.7])
@pytest.mark.parametrize("num_heads", [None, 3])
def test_the_spread_of_matrices_is_exported_to_the_last_rounding(std, num_heads):
    fope = FoPE(head_dim=14, layout="half", num_terms=5, num_heads=num_heads, std=std)
    assert load_rope(to_config(fope), layout="half").std == pytest.approx(std, rel=3e-16)


@pytest.mark.parametrize(
    ("config", "max_len"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"n_positions": 1024, "model_type": "gptj", "n_embd": 64, "n_head": 2}, 1024),
        ({"max_position_embeddings": -1}, None),
        ({}, None),
        ({"max_position_embeddings": 16384, "rope_scaling": {**YARN, "factor": 16.0}}, 16384),
        ({"rope_scaling": YARN}, None),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, 4096),
        ({"max_position_embeddings": 9, "text_config": SMALL}, 4096),
    ],
)
def test_a_config_says_how_long_sequences_are(config, max_len):
    rotary = load_rope({"model_type": "llama", "head_dim": 64, **config})
    assert rotary.max_len == max_len
    again = to_config(rotary)
    assert again.get("max_position_embeddings") == (max_len or rotary.longest)
    assert load_rope(again, layout=rotary.layout).max_len == (max_len or rotary.longest)


def test_a_share_gives_its_width_back_whatever_the_division_rounds_to():
    for head_dim in range(2, 514):
        for rotary_dim in range(2, head_dim, 2 * (1 + head_dim // 40)):
            share = to_config(half(head_dim, 10000, rotary_dim=rotary_dim))["rope_parameters"]["partial_rotary_factor"]
            assert int(head_dim * share) == rotary_dim


def test_to_config_as_transformers_spells_it():
    yarn = half(128, 1e6, rotary_dim=64, scaling=YaRN(factor=4, original_max_position_embeddings=32768))
    assert to_config(yarn) == {
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "partial_rotary_factor": 0.5,
            "factor": 4,
            "original_max_position_embeddings": 32768,
            "beta_fast": 32,
            "beta_slow": 1,
            "truncate": True,
        },
    }
    dynamic = half(64, 1e4, scaling=DynamicNTK(factor=2, original_max_position_embeddings=4096))
    assert to_config(dynamic) == {
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"direction": "inverse"}, "`direction` must be 'forward' .*got 'inverse'"),
        ({"precision": "float32"}, "`precision` must be 'exact' .*got 'float32'"),
        ({"placement": "trail", "rotary_dim": 32}, "`placement` must be 'lead' .*got 'trail'"),
        ({"scaling": Proportional()}, "`placement` must be 'spread' .*got 'lead'"),
        ({"frequencies": [1.0] * 32}, "`frequencies` must be left out, .*got 32"),
        ({"scaling": NTK(factor=2)}, "`scaling` must be None or one of .* got NTK"),
        ({"scaling": AttentionFactor(attention_factor=2)}, "`scaling` must be None or one of .* got AttentionFactor"),
        ({"scaling": LongRoPE(**LISTS, **L0, factor=4, seq_len=2000)}, "`seq_len` of `scaling` must be None"),
    ],
)
def test_fields_that_a_config_cannot_express(fields, message):
    with pytest.raises(ValueError, match=message):
        to_config(Rotary(head_dim=64, layout="half", **fields))


def test_to_config_takes_the_sections_of_configs():
    ernie = MultimodalRotary(head_dim=64, layout="interleaved", sections=(11, 11, 10), arrangement="ernie")
    with rejects(ValueError, "arrangement", "'ernie'"):
        to_config(ernie)
    two = MultimodalRotary(head_dim=64, layout="half", sections=(16, 16))
    with rejects(ValueError, "sections", "(16, 16)"):
        to_config(two)
    with rejects(TypeError, "rotary", "dict"):
        to_config({})


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        (FoPE(head_dim=8, layout="half", length=99, floor_sine=0), ("floor_sine", "0")),
        (FoPE(head_dim=8, layout="half", length=99, direction="inverse"), ("direction", "'inverse'")),
        (DualChunk(rotary=half(64, 1e6, scaling=Linear(factor=2)), chunk_size=9, local_size=2), ("rotary", "Linear")),
        (DualChunk(rotary=XPos(head_dim=8, layout="half"), chunk_size=9, local_size=2), ("rotary", "XPos")),
    ],
)
def test_fope_and_chunks_that_a_config_cannot_express(encoding, names):
    with rejects(ValueError, *names):
        to_config(encoding)
