"""Every key of every format with every bad value: an answer, or one short sentence."""

import warnings

import numpy as np
import pytest

from posenc_core import Rotary
from posenc_core.huggingface import load_rope

from ..errors import is_one_sentence, rejects
from .load_cases import load_cases
from .test_formats_gguf import half, load


def cyclic():
    part = {}
    part["part"] = part
    return part


def deep():
    part = []
    for _ in range(10**5):
        part = [part]
    return part


BAD = {
    "None": None, "True": True, "-1": -1, "0": 0, "a half": 0.5, "2**31": 2**31, "2**63": 2**63, "NaN": float("nan"),
    "infinity": float("inf"), "1e308": 1e308, "thousands of digits": 10**5000, "text": "text", "a number as text": "64",
    "no text": "", "long text": "x" * 10**6, "lines": "a\nb", "bytes": b"64", "an object": object(), "a complex": 1j,
    "a list": [1.0], "a long list": [1] * 10**5, "a dict": {"x": 1}, "a cycle": cyclic(), "deep": deep(),
    "an array": np.ones(3), "an array of one": np.float32(2.0), "an array of text": np.array(["a"]),
}  # fmt: skip
CASES = load_cases("formats")
FORMATS = CASES["formats"]
L0 = "original_max_position_embeddings"
YARN = {"original_max_position_embeddings": 4096, "factor": 16, "apply_scale": False, "beta": 32, "alpha": 1}


def answer(config):
    """Return the encoding of a config; one short sentence is its refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load_rope(config)
    except (TypeError, ValueError) as error:
        refusal = str(error)
    assert is_one_sentence(refusal), refusal
    assert len(refusal) <= 300, refusal
    return None


@pytest.mark.parametrize("name", FORMATS)
def test_the_configs_are_answered(name):
    assert isinstance(answer(FORMATS[name]), Rotary)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", FORMATS)
def test_a_bad_value_of_any_key_is_answered_or_refused(name, value):
    for key in FORMATS[name]:
        answer({**FORMATS[name], key: BAD[value]})


@pytest.mark.parametrize("value", BAD)
def test_a_bad_value_inside_of_yarn_is_answered_or_refused(value):
    for key in YARN:
        answer({"dim": 4096, "n_heads": 32, "rope_theta": 1e6, "yarn": {**YARN, key: BAD[value]}})
        answer(
            {"dim": 4096, "n_heads": 32, "rope_theta": 1e6, "llama_4_scaling": {"beta": BAD[value], key: BAD[value]}}
        )


@pytest.mark.parametrize("name", FORMATS)
def test_a_key_may_be_missing_or_no_text(name):
    for key in FORMATS[name]:
        answer({other: FORMATS[name][other] for other in FORMATS[name] if other != key})
    for key in (None, 7, ("rotary_base",), "x" * 10**6):
        answer({**FORMATS[name], key: 1})


LEAST = CASES["least"]  # for each key, the least number that is tried and accepted, and one that is too small


def full_key(config, key):
    """Return a key as the config has it, with the architecture of a GGUF file before it."""
    return f"{config['general.architecture']}.{key}" if "general.architecture" in config else key


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in LEAST.items() for key in keys])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_least_number_of_a_key_is_accepted_and_none_below_it(name, key):
    config, (least, less) = FORMATS[name], LEAST[name][key]
    assert isinstance(load_rope(config | {full_key(config, key): least}), Rotary)
    with pytest.raises(ValueError, match=f"^`{key}` must be "):
        load_rope(config | {full_key(config, key): less})


DEFAULTS = CASES["defaults"]


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_key_that_is_left_out_has_its_default(name):
    whole = {full_key(FORMATS[name], key): default for key, default in DEFAULTS[name].items()}
    for key, default in whole.items():
        lacking = {other: value for other, value in FORMATS[name].items() if other != key}
        assert answer(lacking | {key: default}) == answer(lacking) is not None, key
    lacking = {other: value for other, value in FORMATS[name].items() if other not in whole}
    assert answer(lacking | whole) == answer(lacking) is not None


@pytest.mark.parametrize("name", ["megatron", "megatron, axes"])
def test_a_factor_of_1_scales_nothing(name):
    key = "rotary_seq_len_interpolation_factor"
    config = FORMATS[name] | {"use_rope_scaling": False}
    assert answer(config | {key: 1}).scaling is None
    assert answer(config | {key: 2}).scaling is not None


def test_the_usual_bounds_of_yarn_in_a_file_are_no_news():
    """llama.cpp does not read them for this architecture, which is said if they are other than the usual ones."""
    config = {key: value for key, value in FORMATS["gguf"].items() if "attn_factor" not in key}
    config = {key.replace("mistral3", "llama"): value for key, value in config.items()}
    config |= {"general.architecture": "llama", "llama.rope.dimension_count": 64}
    config["llama.rope.scaling.yarn_log_multiplier"] = 0.0
    usual = {"llama.rope.scaling.yarn_beta_fast": 32.0, "llama.rope.scaling.yarn_beta_slow": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_rope(config | usual)
    for key in usual:
        with pytest.warns(UserWarning, match="is used: llama.cpp does not read it"):
            load_rope(config | usual | {key: 3.0})


NEUTRAL = {"rope.scaling.attn_factor": 1.0, "rope.scaling.yarn_ext_factor": 0.0, "rope.scaling.yarn_attn_factor": 1.0}
OF_YARN = {"rope.scaling.yarn_ext_factor": 1.0, "rope.scaling.yarn_attn_factor": 1.0}


@pytest.mark.parametrize("value", [0.0, 1.0, 2.0])
@pytest.mark.parametrize(
    ("keys", "name", "neutral"),
    [
        ({"rope.scaling.type": kind, "rope.scaling.factor": 4.0} | more, name, neutral)
        for kind, more, all_neutral in (
            ("linear", {}, NEUTRAL), ("none", {}, NEUTRAL), ("yarn", {"context_length": 4096}, OF_YARN)
        )
        for name, neutral in all_neutral.items()
    ],
)  # fmt: skip
def test_keys_of_another_scaling_have_their_neutral_value_alone(keys, name, neutral, value):
    if value == neutral:
        assert load("qwen2", keys | {name: value}) == load("qwen2", keys)
    else:
        with rejects(ValueError, name, value):
            load("qwen2", keys | {name: value})


def test_layers_may_have_no_heads_and_not_fewer():
    keys = {"attention.key_length": None, "embedding_length": 512}
    assert load("openelm", keys | {"attention.head_count": [8, 8]}) == half()
    with rejects(ValueError, "attention.head_count", -1.0):
        load("openelm", keys | {"attention.head_count": [8, -1]})
    with rejects(ValueError, "attention.key_length", "missing"):
        load("openelm", keys | {"attention.head_count": [8, 0]})


def test_divisors_beside_the_least_original_length():
    divisors = {"rope_freqs.weight": [1.0 + pair for pair in range(32)]}
    found = load("llama", divisors | {"rope.scaling.original_context_length": 2})
    assert found.scaling.original_max_position_embeddings == 2
    with rejects(ValueError, "rope.scaling.original_context_length", 1):
        load("llama", divisors | {"rope.scaling.original_context_length": 1})


ROPE = {"position_embedding_type": "rope", "kv_channels": 64}
SCALED = {"position_embedding_type": "yarn", "kv_channels": 64, "rotary_scaling_factor": 4.0}
LLAMA3 = {"dim": 4096, "n_heads": 32, "rope_theta": 1e4, "use_scaled_rope": True, "rope_scaling_factor": 8.0}
PARAMS = {"dim": 4096, "n_heads": 32, "rope_theta": 1e6}
LINEAR = "rotary_seq_len_interpolation_factor"
BOUNDS = [  # a config, a key, and the number that is out of range beside one that is in range
    (ROPE, "rotary_base", 1, 1.01),
    (ROPE, LINEAR, 0.5, 1),
    (FORMATS["megatron, axes"], LINEAR, 0.5, 1),
    (ROPE, "rotary_percent", 0, 0.5),
    (ROPE | {"use_rope_scaling": True}, "rope_scaling_factor", 0.75, 1),
    (SCALED, "rotary_scaling_factor", 0.75, 1),
    (SCALED, "yarn_original_max_position_embeddings", 1, 2),
    (SCALED, "yarn_beta_fast", 0, 1.5),
    (SCALED, "yarn_beta_slow", 0, 0.5),
    (SCALED, "mscale", -0.5, 0),
    (SCALED, "mscale_all_dim", -0.5, 0),
    (FORMATS["megatron, axes"], "mrope_section", [-1, 33, 32], [0, 32, 32]),
    *(
        (FORMATS["gguf"], f"mistral3.{key}", wrong, right)
        for key, wrong, right in (
            ("rope.freq_base", 1, 1.01), ("rope.scaling.factor", -0.5, 1), ("rope.scaling.attn_factor", 0, 0.5),
            ("rope.scaling.yarn_beta_fast", 0, 2.5), ("rope.scaling.yarn_beta_slow", 0, 0.5),
            ("rope.scaling.yarn_log_multiplier", -0.5, 0), ("rope.scaling.original_context_length", 1, 2),
            ("rope.scaling.alpha", -0.5, 0), ("attention.key_length", 0, 32), ("rope.dimension_count", 0, 2),
        )
    ),
    (FORMATS["gguf, two bases"] | {"gemma4.rope.freq_base": 1.01}, "gemma4.rope.freq_base_swa", 1, 1.01),
    (FORMATS["gguf, two bases"], "gemma4.attention.sliding_window", -1, 1),
    (FORMATS["gguf, three axes"], "qwen2vl.rope.dimension_sections", [-1, 21, 12], [0, 20, 12]),
    (FORMATS["gguf, three axes"], "qwen2vl.rope.scale_linear", -0.5, 0),
    (FORMATS["gguf, three axes"], "qwen2vl.attention.head_count", [-1, 8], [8, 8]),
    (FORMATS["gguf, tensors"], "rope_freqs.weight", [1.0, 0.0], [1.0, 0.5]),
    (FORMATS["gguf, two tensors"], "rope_factors_short.weight", [1.0, 0.0], [1.0, 0.5]),
    (FORMATS["gguf, two tensors"], "rope_factors_long.weight", [1.0, 0.0], [1.0, 0.5]),
    (FORMATS["gguf, two tensors"], "phi3.rope.scaling.attn_factor", 0, 0.5),
    (PARAMS, "rope_theta", 1, 1.01),
    (LLAMA3, "rope_scaling_factor", 0.75, 1),
    (LLAMA3, "rope_high_freq_factor", 0.75, 1),
    *((PARAMS | {"yarn": YARN}, f"yarn.{key}", 0, 1.5) for key in ("factor", "beta")),
    (PARAMS | {"yarn": YARN}, "yarn.alpha", 0, 0.5),
    (PARAMS | {"yarn": YARN}, f"yarn.{L0}", 1, 2),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("config", "key", "wrong", "right"), BOUNDS, ids=lambda one: one if type(one) is str else "")
def test_a_number_is_refused_by_the_name_of_its_key_only_out_of_its_range(config, key, wrong, right):
    *outer, name = key.split(".") if key.startswith("yarn.") else [key]
    architecture = f"{config.get('general.architecture')}."
    with rejects(ValueError, name.removeprefix(architecture)):
        load_rope(changed(config, outer, name, wrong))
    assert isinstance(load_rope(changed(config, outer, name, right)), Rotary)


def changed(config, outer, name, value):
    """Return the config with one value changed, in a dict inside if `outer` has its key."""
    return config | ({outer[0]: config[outer[0]] | {name: value}} if outer else {name: value})
