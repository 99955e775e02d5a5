"""Values of configs just inside and just outside of their limits, and what a key that is left out stands for."""

from argparse import Namespace
from contextlib import nullcontext

import numpy as np
import pytest

from posenc_core import Rotary, YaRN
from posenc_core.formats import values
from posenc_core.formats.megatron import _value
from posenc_core.huggingface import config as keys
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.config import SPELLED, find_text
from posenc_core.huggingface.sizes import read_grids, read_size

from ..errors import rejects

LIMIT = 2**31
LARGEST = np.nextafter(1e308, 0)


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, 0, -1, 10**300, 0.5])
def test_finite_numbers(value):
    assert values.number({"x": value}, "x") == value
    assert values.numbers({"x": [value, 1]}, "x") == [value, 1]


@pytest.mark.parametrize("value", [1e308, -1e308, np.inf, np.nan, -np.inf, 10**309])
def test_numbers_that_are_none_or_too_large(value):
    with rejects(ValueError, "x", "finite"):
        values.number({"x": value}, "x")
    with rejects(ValueError, "x", "finite"):
        values.numbers({"x": [1, value]}, "x")


@pytest.mark.parametrize(("value", "minimum"), [(1, 1), (0, 0), (2, 2), (LIMIT - 1, 1)])
def test_integers_within_their_limits(value, minimum):
    assert values.integer({"x": value}, "x", minimum=minimum) == value
    assert read_size({"x": value}, "x", minimum=minimum) == value
    keys.check_size("x", value, minimum=minimum)
    with rejects(ValueError, "x", minimum - 1):
        values.integer({"x": minimum - 1}, "x", minimum=minimum)
    with rejects(ValueError, "x", minimum - 1):
        read_size({"x": minimum - 1}, "x", minimum=minimum)


@pytest.mark.parametrize("read", [values.integer, read_size, lambda config, key: keys.check_size(key, config[key])])
def test_integers_are_from_1_to_below_the_limit(read):
    for value in (LIMIT, LIMIT + 1, 0):
        with rejects(ValueError, "x", value):
            read({"x": value}, "x")
    read({"x": 1}, "x")


@pytest.mark.parametrize("length", [1, 3])
def test_lists_have_their_length(length):
    assert values.numbers({"x": [2] * length}, "x", length=length) == [2] * length
    for other in (length - 1, length + 1):
        with rejects(ValueError, "x", f"{length} numbers"):
            values.numbers({"x": [2] * other}, "x", length=length)
    with rejects(TypeError, "x"):
        values.numbers({"x": [None] * length}, "x", length=length)


@pytest.mark.parametrize("whole", [1, 2, 7, 64, 96, 128, 1000])
def test_a_share_rounds_down_to_its_part(whole):
    for part in range(whole + 1):
        share = values.find_share(part, whole)
        assert int(whole * share) == part
        assert abs(share - part / whole) < 1e-15


def test_what_is_refused_has_another_value_than_the_neutral_one():
    for neutral in (0, 1, "rope", False):
        values.refuse({"x": neutral}, {"x": neutral}, "is wrong")
    values.refuse({"x": None}, {"x": 3, "y": 1}, "is wrong")
    for value, neutral in ((1, 0), (0, 1), ([1], 1), ("a", "b")):
        with rejects(ValueError, "x", "is wrong"):
            values.refuse({"x": value}, {"x": neutral}, "is wrong")


def test_grids_have_two_or_three_sizes_and_fewer_patches_than_the_limit():
    assert read_grids("x", [2, 3]) == [(1, 2, 3)]
    assert read_grids("x", [[4, 2, 3], [1, 1, 5]]) == [(4, 2, 3), (1, 1, 5)]
    assert read_grids("x", []) == []
    assert read_grids("x", [[1, 2, LIMIT // 2 - 1], [1, 1, 1]]) == [(1, 2, LIMIT // 2 - 1), (1, 1, 1)]
    for grids in ([[1, 2, LIMIT // 2 - 1], [1, 1, 2]], [0, 3], [[3]], [[1, 1, 1, 1]], [[[1, 2, 3]]]):
        with rejects(ValueError, "x"):
            read_grids("x", grids)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-3", -3), ("+4", 4), ("1.5", 1.5), ("1e4", 1e4), ("2.5E-3", 2.5e-3), ("1.2.3", "1.2.3"),
        ("x1", "x1"), ("٣", "٣"), ("1" * 60, int("1" * 60)), ("1" * 61, "1" * 61), ("", ""), ("e5", "e5"),
    ],
)  # fmt: skip
def test_words_that_are_numbers(text, value):
    found = _value(text)
    assert (type(found), found) == (type(value), value)


SIZES = {"hidden_size": 64, "num_attention_heads": 4}


def test_yarn_of_megatron_without_any_of_its_keys():
    found = load_rope(Namespace(**SIZES, position_embedding_type="yarn"))
    expected = YaRN(factor=1, original_max_position_embeddings=4096)
    assert (found.head_dim, found.base, found.scaling) == (16, 10000, expected)


@pytest.mark.parametrize(
    ("layers", "has_rope"),
    [
        (None, True), (0, True), (1, False), (2, True), (4, True), ([1, 1], False), ([0, 1], True), ([0, 0], True),
        ([], True), ("[1]*4", False), ("([0]*3+[1]*1)*2", True), ("[1, 1]", False), ("[1,0]", True),
    ],
)  # fmt: skip
def test_layers_without_rope_in_megatron(layers, has_rope):
    config = {**SIZES, "position_embedding_type": "rope", "no_rope_freq": layers}
    assert isinstance(load_rope(config), Rotary) == has_rope


@pytest.mark.parametrize(
    ("layers", "error"), [([2], ValueError), ("[2]", ValueError), (1.5, TypeError), ([-1], ValueError)]
)
def test_layers_that_are_neither_0_nor_1(layers, error):
    with rejects(error, "no_rope_freq"):
        load_rope({**SIZES, "position_embedding_type": "rope", "no_rope_freq": layers})


@pytest.mark.parametrize(("share", "channels"), [(1, 16), (2, 16), (0.5, 8), (0.75, 12)])
def test_the_share_of_megatron(share, channels):
    found = load_rope({**SIZES, "position_embedding_type": "rope", "rotary_percent": share})
    assert found.rotary_channels == channels


@pytest.mark.parametrize("key", keys.SHARES)
def test_a_share_is_from_0_to_1(key):
    for share in (0, 0.5, 1):
        keys.check_values({key: share})
    for share in (-0.1, 1.01, 2):
        with rejects(ValueError, key, share):
            keys.check_values({key: share})


@pytest.mark.parametrize("key", [*keys.BASES, *keys.LOCAL_BASES])
def test_a_base_is_above_1(key):
    keys.check_values({key: 1.01})
    for base in (1, 0.5, 0):
        with rejects(ValueError, key, base):
            keys.check_values({key: base})


@pytest.mark.parametrize("key", [*keys.WIDTHS, "head_dim", "qk_rope_head_dim", "qk_nope_head_dim"])
def test_a_width_is_not_negative(key):
    for width in (0, 1, LIMIT - 1):
        keys.check_values({key: width})
    for width in (-1, LIMIT):
        with rejects(ValueError, key, width):
            keys.check_values({key: width})


LLAMA = {"model_type": "llama", "head_dim": 8}


@pytest.mark.parametrize("key", ["short_factor", "long_factor"])
def test_longrope_of_the_widest_head(key):
    def config(count):
        lists = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, key: [1.0] * count}
        rope = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 16, **lists}
        return {**LLAMA, "rope_parameters": rope}

    with rejects(ValueError, key, "must have 4 numbers"):
        load_rope(config(2**15))
    with rejects(ValueError, key, "a number for each pair", 2**15 + 1):
        load_rope(config(2**15 + 1))


def test_a_model_has_up_to_100_types_of_layers():
    config = {**LLAMA, "layer_types": [f"type_{index % 100}" for index in range(300)]}
    assert load_rope(config) == Rotary(head_dim=8, layout="half")
    with rejects(ValueError, "layer_types", 101):
        load_rope(config | {"layer_types": [*config["layer_types"], "another"]})


@pytest.mark.parametrize("index", ["0", "000000000", "999999999", 7])
def test_the_index_of_a_layer_has_up_to_9_digits(index):
    config = {**LLAMA, "per_layer_config": {index: {"head_dim": 8}}}
    assert load_rope(config).head_dim == 8
    for wrong in ("1234567890", "-1", "x", "1.5"):
        with rejects(TypeError, "per_layer_config", wrong):
            load_rope({**LLAMA, "per_layer_config": {wrong: {"head_dim": 8}}})


GROWN = 1 + np.log(4.0) / 10
YARN = {"factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("rope", "factor"),
    [
        ({"rope_type": "yarn"}, GROWN),
        ({"rope_type": "yarn", "attn_factor": 1}, GROWN),
        ({"rope_type": "yarn", "attn_factor": 1.5}, 1.5 * GROWN),
        ({"rope_type": "yarn", "attn_factor": 2}, 2 * GROWN),
        ({"rope_type": "yarn", "attention_factor": 0.5}, 0.5),
        ({"rope_type": "yarn", "mscale": 2, "mscale_all_dim": 1}, (1 + 0.2 * np.log(4)) / GROWN),
        ({"rope_type": "yarn", "mscale": 0, "mscale_all_dim": 2}, GROWN),
        ({"rope_type": "yarn", "mscale": 2, "mscale_all_dim": 0}, GROWN),
        ({"rope_type": "deepseek_yarn"}, GROWN),
        ({"rope_type": "deepseek_yarn", "mscale": 2}, 1 + 0.2 * np.log(4)),
        ({"rope_type": "deepseek_yarn", "mscale": 0}, 1),
        ({"rope_type": "deepseek_yarn", "mscale_all_dim": 2}, GROWN / (1 + 0.2 * np.log(4))),
        ({"rope_type": "deepseek_yarn", "attention_factor": 3}, 3),
        ({"rope_type": "telechat3-yarn"}, 1 + 0.07 * np.log(4)),
        ({"rope_type": "telechat3-yarn", "attention_factor": 3}, 3),
    ],
    ids=str,
)
def test_the_attention_factor_of_each_type_of_yarn(rope, factor):
    found = load_rope({**LLAMA, "rope_parameters": YARN | rope}).scaling
    assert float(found.exact_attention_factor()) == pytest.approx(factor, rel=1e-15)
    with_length = YARN | rope | {"factor": None, "max_position_embeddings": 8192}
    assert load_rope({**LLAMA, "rope_parameters": with_length}).scaling == found


@pytest.mark.parametrize(("longest", "factor"), [(2048, 1), (3072, 1.5), (2047, None), (None, None), (1, None)])
def test_the_factor_that_follows_from_two_lengths(longest, factor):
    rope = {"rope_type": "yarn", "original_max_position_embeddings": 2048, "max_position_embeddings": longest}
    if factor is None:
        with rejects(ValueError, "max_position_embeddings" if longest == 1 else "factor"):
            load_rope({**LLAMA, "rope_parameters": rope})
    else:
        assert load_rope({**LLAMA, "rope_parameters": rope}).scaling.factor == factor


def test_a_config_may_be_as_deep_as_its_limit():
    def nested(depth):
        inner = {}
        for _ in range(depth - 2):
            inner = {"x": inner}
        return {**LLAMA, "other": inner}

    accepted = []
    for depth in range(40, 60):
        try:
            accepted.append((load_rope(nested(depth)), depth)[1])
        except ValueError:
            break
    assert accepted[-1] == 50


def test_a_length_of_minus_1_is_no_limit():
    assert load_rope(LLAMA | {"max_position_embeddings": -1}).max_len is None
    with rejects(ValueError, "max_position_embeddings", -2):
        load_rope(LLAMA | {"max_position_embeddings": -2})


GEMMA = {"model_type": "gemma3_text", "head_dim": 8, "rope_local_base_freq": 1e4, "sliding_window": 4}


def test_a_parameter_that_is_none_is_no_layer_type():
    rope = {"rope_type": "linear", "factor": 8.0}
    plain, more = (GEMMA | {"rope_scaling": one} for one in (rope, rope | {"attention_factor": None}))
    assert layer_types(more) == layer_types(plain) == ("full_attention", "sliding_attention")
    assert load_rope(more, layer_type="full_attention") == load_rope(plain, layer_type="full_attention")


@pytest.mark.parametrize("key", SPELLED)
def test_a_key_with_a_letter_too_many_or_too_few_is_told_from_one_that_is_unknown(key):
    for wrong in (f"{key}x", f"x{key}", key[1:], key[:-1]):
        with rejects(ValueError, wrong, f"`{key}`") if wrong not in SPELLED else nullcontext():
            find_text({wrong: 1})
    for other in (f"{key}xyz", f"xyz{key}"):
        assert find_text({other: 1}) == {other: 1}


@pytest.mark.parametrize("separate", [True, False])
def test_the_initial_matrices_of_fope_are_those_of_glorot_and_bengio(separate):
    """The fans of a tensor of shape (outputs, inputs, ...) are its first two sizes times the product of the others."""
    rope = {"rope_type": "default", "fope_init_factor": 0.5, "fope_sep_head": separate, "num_inv_freq": 3}
    sizes = {"head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 10000.0}
    found = load_rope({"model_type": "interns1_pro_text", **sizes, "rope_scaling": rope})
    for shape in {one.shape for one in found.parameters().values()}:
        fans = (shape[0] + shape[1]) * np.prod(shape[2:])
        assert found.std == pytest.approx(0.5 * np.sqrt(2 / fans), rel=1e-15)
