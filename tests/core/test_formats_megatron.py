"""Megatron-LM's arguments: as a namespace, a dict, words, a text, a script, a file of JSON."""

import argparse
import json

import pytest

from posenc_core import Rotary
from posenc_core.huggingface import load_rope

from ..errors import is_one_sentence, rejects
from .load_cases import load_cases

CASES = load_cases("megatron")
ROPE = "--position-embedding-type rope --kv-channels 64 "


def half(**fields):
    return Rotary(**{"head_dim": 64, "layout": "half"} | fields)


ANSWERS = CASES["answers"]


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


@pytest.mark.parametrize("name", CASES["from_arguments"])
def test_all_arguments_of_a_run_are_answered(name, tmp_path):
    given, expected = CASES["from_arguments"][name]
    given = arguments(**given)
    assert load_rope(argparse.Namespace(**given)) == expected
    assert load_rope(given) == expected
    assert load_rope({f"--{key.replace('_', '-')}": value for key, value in given.items()}) == expected
    file = tmp_path / "args.json"
    file.write_text(json.dumps(given))
    assert load_rope(file) == expected


REFUSED = CASES["refused"] | {"a base of thousands of digits": ({"rotary_base": 10**5000}, "rotary_base")}


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
