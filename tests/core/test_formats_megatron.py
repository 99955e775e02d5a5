"""Megatron-LM's arguments: as a namespace, a dict, words, a text, a script, a file of JSON."""

import argparse
import json

import pytest

from posenc_core import MultimodalRotary, Rotary
from posenc_core.huggingface import load_rope
from posenc_core.scaling import Linear, Llama3, YaRN

from ..errors import is_one_sentence, rejects

LLAMA3 = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
LINEAR = "rotary_seq_len_interpolation_factor"
ROPE = "--position-embedding-type rope --kv-channels 64 "
YARN = "--position-embedding-type yarn --kv-channels 64 --rotary-scaling-factor 4 "
LATENT = "--multi-latent-attention --qk-pos-emb-head-dim 64 "
MROPE = "--position-embedding-type mrope --kv-channels 128 --mrope-section 16 24 24 "


def half(**fields):
    return Rotary(**{"head_dim": 64, "layout": "half"} | fields)


def latent(**fields):
    return Rotary(head_dim=64, layout="interleaved_to_half", **fields)


L0 = {"original_max_position_embeddings": 4096}
# fmt: off
ANSWERS = {
    "rope": (ROPE, half()),
    "the older name": ("--use-rotary-position-embeddings --hidden-size 4096 --num-attention-heads 64", half()),
    "a base": (ROPE + "--rotary-base 500000", half(base=500000)),
    "with an equals sign": (ROPE + "--rotary-base=500000", half(base=500000)),
    "adjacent": (ROPE + "--rotary-interleaved", Rotary(head_dim=64, layout="interleaved")),
    "a part": (ROPE + "--rotary-percent 0.25", half(rotary_dim=16)),
    "linear": (ROPE + "--rotary-seq-len-interpolation-factor 8", half(scaling=Linear(factor=8))),
    "Llama 3": (ROPE + "--use-rope-scaling", half(scaling=LLAMA3)),
    "Llama 3.2": (ROPE + "--use-rope-scaling --rope-scaling-factor 32", half(scaling=Llama3(
        factor=32, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192))),
    "a factor that is not used": (ROPE + "--rope-scaling-factor 32", half()),
    "some layers without": (ROPE + "--no-rope-freq 4", half()),
    "a pattern of layers": (ROPE + "--no-rope-freq ([0]*3+[1]*1)*2", half()),
    "no layer with": (ROPE + "--no-rope-freq 1", None),
    "a pattern without": (ROPE + "--no-rope-freq [1]*4+[1,1]", None),
    "YaRN": (YARN, half(scaling=YaRN(factor=4, **L0))),
    "YaRN of gpt-oss": (
        YARN + "--yarn-original-max-position-embeddings 8192 --yarn-beta-fast 16 --yarn-beta-slow 2 "
        "--rotary-base 150000 --no-yarn-correction-range-round-to-int",
        half(base=150000, scaling=YaRN(factor=4, original_max_position_embeddings=8192, beta_fast=16, beta_slow=2,
                                       truncate=False))),
    "YaRN without growth": (YARN + "--mscale 1 --mscale-all-dim 1", half(scaling=YaRN(
        factor=4, mscale=1, mscale_all_dim=1, **L0))),
    "latent, YaRN of factor 1": (LATENT, latent(scaling=YaRN(factor=1, **L0))),
    "latent, YaRN": (LATENT + "--rotary-scaling-factor 40 --mscale-all-dim 1.0", latent(scaling=YaRN(
        factor=40, mscale=1, mscale_all_dim=1, **L0))),
    "latent, rope": (LATENT + "--rope-type rope --rotary-base 50000", latent(base=50000)),
    "latent, a part": (LATENT + "--rope-type rope --rotary-percent 0.5", latent(rotary_dim=32)),  # without a warning
    "three axes": (MROPE, MultimodalRotary(head_dim=128, layout="half", sections=(16, 24, 24))),
    "a learned table": ("--position-embedding-type learned_absolute --kv-channels 64 --rotary-base 5", None),
    "nothing": ("--position-embedding-type none --rotary-percent 1.0", None),
    "other options": ("pretrain_gpt.py --bf16 --lr 1e-4 " + ROPE + "--no-rope-fusion --seq-length 4096", half()),
}
# fmt: on


@pytest.mark.parametrize("name", ANSWERS)
def test_a_command_line_is_answered(name):
    text, expected = ANSWERS[name]
    assert load_rope(text) == expected
    assert load_rope(text.split()) == expected
    assert load_rope(tuple(text.split())) == expected


def arguments(**given):
    defaults = {
        "position_embedding_type": "rope", "use_rotary_position_embeddings": False, "rotary_base": 10000,
        "rotary_percent": 1.0, "rotary_interleaved": False, "rotary_seq_len_interpolation_factor": None,
        "use_rope_scaling": False, "rope_scaling_factor": 8.0, "no_rope_freq": None, "multi_latent_attention": False,
        "kv_channels": 64, "hidden_size": 4096, "num_attention_heads": 64, "rope_type": None, "mrope_section": None,
        "qk_pos_emb_head_dim": 64, "rotary_scaling_factor": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0,
        "yarn_original_max_position_embeddings": None, "yarn_beta_fast": None, "yarn_beta_slow": None,
        "yarn_correction_range_round_to_int": None, "apply_rope_fusion": True, "max_position_embeddings": 4096,
    }  # fmt: skip
    return defaults | given


FROM_ARGUMENTS = {
    "all defaults": ({}, half()),
    "Llama 3": ({"use_rope_scaling": True}, half(scaling=LLAMA3)),
    "layers": ({"no_rope_freq": [0, 0, 0, 1]}, half()),
    "no layer": ({"no_rope_freq": [1, 1]}, None),
    "YaRN": ({"position_embedding_type": "yarn", "rotary_scaling_factor": 4.0}, half(scaling=YaRN(factor=4, **L0))),
    "latent": ({"multi_latent_attention": True, "rope_type": "rope"}, latent()),
}


@pytest.mark.parametrize("name", FROM_ARGUMENTS)
def test_all_arguments_of_a_run_are_answered(name, tmp_path):
    given, expected = FROM_ARGUMENTS[name]
    given = arguments(**given)
    assert load_rope(argparse.Namespace(**given)) == expected
    assert load_rope(given) == expected
    assert load_rope({f"--{key.replace('_', '-')}": value for key, value in given.items()}) == expected
    file = tmp_path / "args.json"
    file.write_text(json.dumps(given))
    assert load_rope(file) == expected


# fmt: off
REFUSED = {
    "no type": ({"position_embedding_type": None}, "position_embedding_type"),
    "an unknown type": ({"position_embedding_type": "alibi"}, "position_embedding_type"),
    "the default of the class": (
        {"multi_latent_attention": True, "rotary_scaling_factor": None}, "rotary_scaling_factor"),
    "two scalings": ({"use_rope_scaling": True, LINEAR: 8}, LINEAR),
    "linear with YaRN": ({"position_embedding_type": "yarn", LINEAR: 8}, LINEAR),
    "a part with YaRN": ({"position_embedding_type": "yarn", "rotary_percent": 0.5}, "rotary_percent"),
    "adjacent with YaRN": ({"position_embedding_type": "yarn", "rotary_interleaved": True}, "rotary_interleaved"),
    "adjacent, latent": ({"multi_latent_attention": True, "rotary_interleaved": True}, "rotary_interleaved"),
    "a scaling that is not read": (
        {"multi_latent_attention": True, "rope_type": "rope", "use_rope_scaling": True}, "use_rope_scaling"),
    "Llama 3 with axes": (
        {"position_embedding_type": "mrope", "mrope_section": [8, 12, 12], "use_rope_scaling": True},
        "use_rope_scaling"),
    "no sections": ({"position_embedding_type": "mrope"}, "mrope_section"),
    "two sections": ({"position_embedding_type": "mrope", "mrope_section": [16, 16]}, "mrope_section"),
    "YaRN by the other name": ({"rope_type": "yarn"}, "rope_type"),
    "no width": ({"kv_channels": None, "hidden_size": None}, "hidden_size"),
    "heads that do not divide": ({"kv_channels": None, "num_attention_heads": 63}, "num_attention_heads"),
    "a width that is text": ({"kv_channels": "64"}, "kv_channels"),
    "a base that is text": ({"rotary_base": "10000"}, "rotary_base"),
    "a base that is a variable": ({"rotary_base": "$BASE"}, "rotary_base"),
    "a base that is not a number": ({"rotary_base": float("nan")}, "rotary_base"),
    "a base of thousands of digits": ({"rotary_base": 10**5000}, "rotary_base"),
    "a flag that is text": ({"use_rope_scaling": "yes"}, "use_rope_scaling"),
    "layers of 2": ({"no_rope_freq": [0, 2]}, "no_rope_freq"),
    "a pattern with 2": ({"no_rope_freq": "[0,2]*4"}, "no_rope_freq"),
    "no pattern": ({"no_rope_freq": "most"}, "no_rope_freq"),
    "layers in a dict": ({"no_rope_freq": {}}, "no_rope_freq"),
    "an unknown option": ({"rope_theta_scaling": 3}, "rope_theta_scaling"),
    "lists in lists": ({"mrope_section": [[]], "position_embedding_type": "mrope"}, "mrope_section"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_is_named(name):
    given, argument = REFUSED[name]
    with rejects((TypeError, ValueError), argument) as raised:
        load_rope(arguments(**given))
    assert len(str(raised.value)) <= 300


def cyclic():
    words = ["--rotary-base"]
    words.append(words)
    return words


@pytest.mark.parametrize(
    "config",
    [
        ROPE + "--rotary-base",
        ROPE + "--rotary-base 'unclosed",
        ROPE + "--rotary-base $BASE",
        ROPE + "--rotary-interleaved=true",
        ROPE + "--rotary-base " + "9" * 5000,
        ROPE + "--rotary-base 1e999",
        ["--rotary-base", 10000],
        ["--rotary-base", "x" * 10**6],
        cyclic(),
        [],
        argparse.Namespace(),
        argparse.Namespace(rotary_base=cyclic(), position_embedding_type="rope"),
    ],
    ids=range(12),
)
def test_bad_command_lines_are_refused_in_a_short_sentence(config):
    with pytest.raises((TypeError, ValueError)) as raised:
        load_rope(config)
    assert is_one_sentence(str(raised.value))
    assert len(str(raised.value)) <= 300
