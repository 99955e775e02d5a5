"""Configs that cannot be one: endless, huge, of other types, or objects that fail; each is refused in one sentence."""

import warnings

import numpy as np
import pytest

from posenc_core.analysis import compare_rope
from posenc_core.huggingface import layer_types, load_position, load_rope

from ..errors import is_one_sentence, rejects

CONFIG = {"model_type": "llama", "head_dim": 128, "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 1e4}
LISTS = {"rope_type": "longrope", "original_max_position_embeddings": 4096, "factor": 2.0}
READERS = {
    "load_rope": load_rope,
    "layer_types": layer_types,
    "load_position": load_position,
    "compare_rope": lambda config: compare_rope(config, CONFIG),
    "a part": lambda config: load_rope(config, part="vision"),
}


def cyclic(key):
    config = dict(CONFIG)
    config[key] = config
    return config


def deep(key):
    config = dict(CONFIG)
    for _ in range(10**5):
        config = {key: config}
    return config


def doubled():
    """Return a config of fifty dicts that has 2**50 places."""
    part = {}
    for _ in range(49):
        part = {"a": part, "b": part}
    return CONFIG | {"text_config": part}


class Raises:
    def to_dict(self):
        raise OSError("disk\non fire" * 1000)


class Recurses:
    def to_dict(self):
        return self.to_dict()


class ReturnsItself:
    def to_dict(self):
        return self


class WithoutWords:
    def __repr__(self):
        raise OSError("no words")

    __hash__ = object.__hash__


class Unreadable(dict):
    def items(self):
        raise OSError("no items")


REFUSED = {
    "a cycle of texts": cyclic("text_config"), "a cycle": cyclic("other"), "a cycle of RoPE": cyclic("rope_parameters"),
    "deep texts": deep("text_config"), "deep": CONFIG | {"other": deep("part")}, "doubled": doubled(),
    "to_dict raises": Raises(), "to_dict recurses": Recurses(), "to_dict of a class": Raises,
    "to_dict returns itself": ReturnsItself(), "no repr": CONFIG | {"rope_theta": WithoutWords()},
    "no repr of a key": CONFIG | {WithoutWords(): 1}, "unreadable": Unreadable(CONFIG),
    "unreadable inside": CONFIG | {"text_config": Unreadable(CONFIG)}, "a number as key": CONFIG | {10**5000: 1},
    "a path": "x" * 10**5, "a long path": "x/" * 2000, "a path of two lines": "a\nb",
}  # fmt: skip
HOSTILE = {
    "many keys": CONFIG | {f"k{i}": i for i in range(10**4)},
    "many parameters": CONFIG | {"rope_scaling": {f"k{i}": i for i in range(10**4)}},
    "many layers": CONFIG | {"rope_parameters": {f"k{i}": {"rope_theta": 2.0 + i} for i in range(10**4)}},
    "many types": CONFIG | {"layer_types": [f"k{i}" for i in range(10**4)]},
    "keys that are not text": {**CONFIG, 1: 2, None: 3, ("a",): 4, b"rope": 5, 2.5: 6},
    "parameters that are not text": CONFIG | {"rope_scaling": {1: 2, None: 3, ("a",): 4}},
    "types that are not text": CONFIG | {"rope_scaling": {1: {"rope_theta": 5.0}}},
    "a long key": CONFIG | {"rope_" + "x" * 10**6: 1},
    "a key of two lines": CONFIG | {"rope_\nother": 1},
    "a long type": CONFIG | {"model_type": "x" * 10**6},
    "long divisors": CONFIG | {"rope_scaling": LISTS | {"short_factor": [1.0] * 10**5, "long_factor": [1.0] * 10**5}},
    "huge sections": CONFIG | {"rope_scaling": {"type": "mrope", "mrope_section": [10**400, 2, 3]}},
    "all of 10**12 layers": CONFIG | {"num_hidden_layers": 10**12, "rope_scaling_layers": [0, 1]},
    "an index of many digits": CONFIG
    | {"layer_types": ["full_attention"], "per_layer_config": {"9" * 5000: {"head_dim": 3}}},
    "arrays": CONFIG | {"layer_rope_theta": [np.ones(3)]},
    "an array": CONFIG | {"rope_theta": np.ones(3)},
    "an array of parameters": CONFIG | {"rope_scaling": np.ones(3)},
}


def refusal(reader, config):
    """Return the error of a reader, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[reader](config)
        except (TypeError, ValueError, FileNotFoundError) as error:
            return str(error)


def is_short(message):
    return len(message) <= 300 and is_one_sentence(message)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_config_is_refused(name, reader):
    message = refusal(reader, REFUSED[name])
    assert is_short(message), message


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hardly_a_config_is_read_or_refused(name, reader):
    message = refusal(reader, HOSTILE[name])
    assert message is None or is_short(message), message


NUMBERS = [
    *("head_dim", "hidden_size", "num_attention_heads", "rope_theta", "partial_rotary_factor", "rotary_dim"),
    *("max_position_embeddings", "original_max_position_embeddings", "qk_rope_head_dim", "num_hidden_layers"),
    *("sliding_window", "rope_ratio", "rotary_pct", "rope_local_base_freq", "global_head_dim"),
]
WITHIN = [
    *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "attn_factor"),
    *("mscale", "mscale_all_dim", "rope_theta", "extrapolation_factor", "partial_rotary_factor", "truncate"),
]


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**4000, 10**100_000], ids=["400", "-400", "4000", "100000"])
@pytest.mark.parametrize("key", [(key,) for key in NUMBERS] + [("rope_scaling", key) for key in WITHIN], ids=".".join)
def test_huge_numbers(key, number):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    config = CONFIG | {"max_position_embeddings": 8192, "rope_scaling": yarn}
    config |= {key[0]: number} if len(key) == 1 else {key[0]: yarn | {key[1]: number}}
    message = refusal("load_rope", config)
    assert message is None or is_short(message), message


def test_a_key_that_is_one_letter_off_is_named_with_the_right_one():
    for wrong, right in {"hed_dim": "head_dim", "rope_scalling": "rope_scaling", "model_tpye": "model_type"}.items():
        with rejects(ValueError, wrong, f"`{right}`"):
            load_rope({"head_dim": 64, "rope_theta": 1e4, wrong: 1})
    with rejects(ValueError, "partial_rotry_factor", "`partial_rotary_factor`"):
        load_rope({"text_config": {"head_dim": 64, "rope_theta": 1e4}, "partial_rotry_factor": 0.5})
    with rejects(ValueError, "facto", "`factor`"):
        load_rope({"head_dim": 64, "rope_scaling": {"type": "yarn", "facto": 2, "original_max_position_embeddings": 8}})


def test_many_keys():
    config = CONFIG | {f"k{i}": i for i in range(10**5)}
    assert load_rope(config) == load_rope(CONFIG)
    with rejects(ValueError, "rope_thet"):
        load_rope(config | {"rope_thet": 1})


def test_parameters_within_parameters():
    with rejects(ValueError, "rope_scaling.rope_scaling"):
        load_rope(CONFIG | {"rope_scaling": {"rope_scaling": {"type": "linear", "factor": 2.0}}})


def test_a_dynamic_factor_of_any_size_keeps_the_frequencies_of_short_sequences():
    config = CONFIG | {"max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 1e300}}
    assert list(load_rope(config).frequencies()) == list(load_rope(CONFIG).frequencies())
