"""`params.json` of Mistral and of Meta."""

import json

import pytest

from posenc_core import Rotary
from posenc_core.huggingface import load_rope
from posenc_core.scaling import Llama3, YaRN

from ..errors import rejects


def adjacent(**fields):
    return Rotary(**{"head_dim": 128, "layout": "interleaved"} | fields)


SIZES = {"dim": 4096, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05}
YARN = {"original_max_position_embeddings": 16384, "factor": 16, "apply_scale": False, "beta": 32, "alpha": 1}
SCALED = YaRN(factor=16, original_max_position_embeddings=16384)
LLAMA3 = {"low_freq_factor": 1, "original_max_position_embeddings": 8192}
ANSWERS = {
    "Llama 2": ({**SIZES, "multiple_of": 256, "vocab_size": -1}, adjacent()),
    "Llama 3": ({**SIZES, "rope_theta": 500000.0, "multiple_of": 1024, "n_kv_heads": 8}, adjacent(base=500000)),
    "Llama 4 Scout": (
        {**SIZES, "rope_theta": 500000.0, "use_scaled_rope": True, "rope_scaling_factor": 16.0, "moe_args": {},
         "rope_high_freq_factor": 1.0, "nope_layer_interval": 4, "vision_args": {"dim": 1408, "rope_theta": 10000}},
        adjacent(base=500000, scaling=Llama3(factor=16, high_freq_factor=1, **LLAMA3)),
    ),
    "Mistral 7B v0.3": ({**SIZES, "head_dim": 128, "hidden_dim": 14336, "rope_theta": 1000000.0}, adjacent(base=1e6)),
    "Mistral Small 3.1": (
        {**SIZES, "dim": 5120, "head_dim": 128, "rope_theta": 1000000000.0, "vision_encoder": {
            "hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 10000.0}}, adjacent(base=1e9),
    ),
    "Ministral 3": (
        {**SIZES, "dim": 3072, "head_dim": 128, "rope_theta": 1000000.0, "yarn": YARN, "model_type": "transformer"},
        adjacent(base=1e6, scaling=YaRN(factor=16, original_max_position_embeddings=16384, attention_factor=1)),
    ),
    "Devstral 2": (
        {**SIZES, "head_dim": 128, "rope_theta": 1000000.0, "yarn": YARN | {"apply_scale": True, "beta": 4}},
        adjacent(base=1e6, scaling=YaRN(factor=16, original_max_position_embeddings=16384, beta_fast=4)),
    ),
    "latent attention": (
        {**SIZES, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "kv_lora_rank": 512, "rope_theta": 10000.0,
         "yarn": YARN | {"apply_scale": True}}, adjacent(head_dim=64, scaling=SCALED),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_published_files_are_answered(name, tmp_path):
    params, expected = ANSWERS[name]
    assert load_rope(params) == expected
    (tmp_path / "params.json").write_text(json.dumps(params))
    assert load_rope(tmp_path) == load_rope(tmp_path / "params.json") == expected


ASSUMED = {
    "Mistral 7B v0.1": ({**SIZES, "head_dim": 128, "sliding_window": 4096}, "rope_theta", adjacent()),
    "Mixtral": ({**SIZES, "head_dim": 128, "moe": {"num_experts": 8}}, "rope_theta", adjacent(base=1e6)),
    "Llama 3.2": (
        {**SIZES, "rope_theta": 500000.0, "use_scaled_rope": True}, "rope_scaling_factor",
        adjacent(base=500000, scaling=Llama3(factor=8, high_freq_factor=4, **LLAMA3))),
    "a scale of queries": (
        {**SIZES, "rope_theta": 1e6, "yarn": YARN | {"apply_scale": True},
         "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 16384}}, "llama_4_scaling_beta",
        adjacent(base=1e6, scaling=SCALED)),
}  # fmt: skip


@pytest.mark.parametrize("name", ASSUMED)
def test_what_is_assumed_or_left_out_is_warned_of(name):
    params, key, expected = ASSUMED[name]
    with pytest.warns(UserWarning, match=f"`{key}`"):
        assert load_rope(params) == expected


REFUSED = {
    "no width": ({"dim": 4096, "n_heads": None, "rope_theta": 1e6}, "head_dim"),
    "a width that is text": ({**SIZES, "head_dim": "128", "rope_theta": 1e6}, "head_dim"),
    "a base that is text": ({**SIZES, "rope_theta": "1e6"}, "rope_theta"),
    "a base that is not a number": ({**SIZES, "rope_theta": float("nan")}, "rope_theta"),
    "a base of thousands of digits": ({**SIZES, "rope_theta": 10**5000}, "rope_theta"),
    "YaRN that is not a dict": ({**SIZES, "rope_theta": 1e6, "yarn": 16}, "yarn"),
    "YaRN without a key": (
        {**SIZES, "rope_theta": 1e6, "yarn": {key: YARN[key] for key in YARN.keys() - {"apply_scale"}}},
        "yarn.apply_scale"),
    "an unknown key": ({**SIZES, "rope_theta": 1e6, "yarn": YARN | {"gamma": 2}}, "yarn.gamma"),
    "a length that is text": (
        {**SIZES, "rope_theta": 1e6, "yarn": YARN | {"original_max_position_embeddings": "16384"}},
        "original_max_position_embeddings"),
    "two scalings": ({**SIZES, "rope_theta": 1e6, "yarn": YARN, "use_scaled_rope": True}, "yarn"),
    "two lengths": (
        {**SIZES, "rope_theta": 1e6, "yarn": YARN,
         "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 8192}},
        "llama_4_scaling.original_max_position_embeddings"),
    "a scale of queries below 0": (
        {**SIZES, "rope_theta": 1e6, "yarn": YARN,
         "llama_4_scaling": {"beta": -0.5, "original_max_position_embeddings": 16384}}, "beta"),
    "another key of RoPE": ({**SIZES, "rope_theta": 1e6, "rope_fraction": 0.5}, "rope_fraction"),
    "a flag that is a number": ({**SIZES, "rope_theta": 1e6, "use_scaled_rope": 1}, "use_scaled_rope"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_is_named(name):
    params, argument = REFUSED[name]
    with rejects((TypeError, ValueError), argument) as raised:
        load_rope(params)
    assert len(str(raised.value)) <= 300


def test_deep_and_cyclic_dicts_are_refused():
    cyclic = {**SIZES, "rope_theta": 1e6}
    cyclic["part"] = cyclic
    deep = {}
    for _ in range(10**5):
        deep = {"part": deep}
    for part in (cyclic, deep):
        with rejects(ValueError, "config"):
            load_rope({**SIZES, "rope_theta": 1e6, "part": part})


def test_configs_of_hugging_face_with_the_same_keys_stay_theirs():
    for theirs in ({"model_type": "llama"}, {"architectures": ["LlamaForCausalLM"], "rope_theta": 1e4}):
        assert load_rope({**theirs, "dim": 4096, "n_heads": 32, "head_dim": 128}).layout == "half"
