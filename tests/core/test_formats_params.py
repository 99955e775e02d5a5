"""`params.json` of Mistral and of Meta."""

import json

import pytest

from posenc_core.huggingface import load_rope

from ..errors import rejects
from .load_cases import load_cases

CASES = load_cases("params")
SIZES = {"dim": 4096, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05}


@pytest.mark.parametrize("name", CASES["answers"])
def test_published_files_are_answered(name, tmp_path):
    params, expected = CASES["answers"][name]
    assert load_rope(params) == expected
    (tmp_path / "params.json").write_text(json.dumps(params))
    assert load_rope(tmp_path) == load_rope(tmp_path / "params.json") == expected


@pytest.mark.parametrize("name", CASES["assumed"])
def test_what_is_assumed_or_left_out_is_warned_of(name):
    params, key, expected = CASES["assumed"][name]
    with pytest.warns(UserWarning, match=f"`{key}`"):
        assert load_rope(params) == expected


REFUSED = CASES["refused"] | {"a base of thousands of digits": ({**SIZES, "rope_theta": 10**5000}, "rope_theta")}


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
