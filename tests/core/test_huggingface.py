"""Configs as published, less what has nothing to do with positions; numbers from `tests/golden/rope_models.json`."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

from posenc_core import DualChunk, FoPE, MultimodalRotary, Rotary, XPos
from posenc_core.huggingface import layer_types, load_rope, to_config
from posenc_core.scaling import NTK, AttentionFactor, DynamicNTK, Linear, LongRoPE, Proportional, YaRN

from ..errors import rejects
from .load_cases import load_cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "rope_models.json").read_text(encoding="utf-8"))
CASES = load_cases("huggingface")
SMALL = {"head_dim": 64, "max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LISTS = {"short_factor": [1.0 + i / 64 for i in range(32)], "long_factor": [1.0 + i for i in range(32)]}
L0 = {"original_max_position_embeddings": 1024}


def half(head_dim, base, **fields):
    return Rotary(head_dim=head_dim, layout="half", base=base, **fields)


@pytest.mark.parametrize(("config", "layer_type", "rotary"), CASES["published"].values(), ids=CASES["published"])
def test_published_configs(config, layer_type, rotary):
    assert load_rope(config, layer_type=layer_type) == rotary


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_published_numbers(case):
    rotary = load_rope(case["config"], layout=case["layout"]).at(case["seq_len"])
    np.testing.assert_array_equal(rotary.frequencies(), np.float64(case["frequencies"]))
    assert rotary.attention_factor == case["attention_factor"]
    tables = np.stack(rotary.cos_sin(np.array(case["positions"])), axis=-1)
    np.testing.assert_array_equal(tables[:, case["columns"]], np.float32(case["cos_sin"]))
    assert load_rope(to_config(rotary.at(1)), layout=case["layout"]).at(case["seq_len"]) == rotary


@pytest.mark.parametrize(("old", "new", "fields"), CASES["spellings"].values(), ids=CASES["spellings"])
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
        {"use_rope": True, "use_mem_rope": True},
    ):
        assert load_rope({**SMALL, "rope_theta": 1e6, **one}) == half(64, 1e6)


@pytest.mark.parametrize(("config", "head_dim"), CASES["head_dims"])
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


@pytest.mark.parametrize("config", CASES["without_rope"])
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


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("my_gpt", ("rope_theta", "`model_type`", "'my_gpt'")),
        ("gpt_oss", ("rope_parameters", "`model_type`", "'gpt_oss'")),
    ],
)
def test_a_config_that_says_nothing_of_a_rotation(name, names):
    with rejects(ValueError, *names):
        load_rope({"model_type": name, "hidden_size": 768, "num_attention_heads": 12})


@pytest.mark.parametrize("name", ["gpt2", "t5", "mamba", "whisper", "xlm-roberta"])
def test_models_with_other_encodings_do_not_rotate(name):
    assert load_rope({"model_type": name, "hidden_size": 768, "num_attention_heads": 12}) is None


@pytest.mark.parametrize(("config", "message", "scaling"), CASES["warned"].values(), ids=CASES["warned"])
def test_a_warning_names_both_keys_and_which_is_used(config, message, scaling):
    with pytest.warns(UserWarning, match=message) as warned:
        rotary = load_rope(SMALL | config)
    assert len(warned) == 1
    assert (rotary.base, rotary.scaling) == (10000, scaling)


BEYOND_JSON = [
    ({"head_dim": 10**400}, "`head_dim` must be less than 2147483648, got 1000"),
    ({"max_position_embeddings": 10**400}, "`max_position_embeddings` must be less than 2147483648, got 1000"),
    ({"rope_theta": 10**5000}, "`config` must have shorter numbers"),
    ({"rope_parameters": {1: {}, "a": {"rope_theta": 1e5}}}, "`layer_type` must be one of 1, 'a', got None"),
]


@pytest.mark.parametrize(
    ("config", "message"), [*CASES["refused"], *BEYOND_JSON], ids=lambda one: one[:40] if isinstance(one, str) else ""
)
def test_refused_by_name(config, message):
    with pytest.raises(ValueError, match=message):
        load_rope(SMALL | config)


@pytest.mark.parametrize(("config", "names"), CASES["refused types"])
def test_refused_by_type(config, names):
    with rejects(TypeError, *names):
        load_rope(SMALL | config)


@pytest.mark.parametrize("rotary", CASES["exported"], ids=repr)
def test_to_config_and_back(rotary):
    layout = getattr(rotary, "rotary", rotary).layout
    for version in (None, 4, 5):
        config = json.loads(json.dumps(to_config(rotary, transformers=version)))
        assert load_rope(config, layout=layout) == rotary


@pytest.mark.parametrize("std", [0.02, 0.3, 1.7])
@pytest.mark.parametrize("num_heads", [None, 3])
def test_the_spread_of_matrices_is_exported_to_the_last_rounding(std, num_heads):
    fope = FoPE(head_dim=14, layout="half", num_terms=5, num_heads=num_heads, std=std)
    assert load_rope(to_config(fope), layout="half").std == pytest.approx(std, rel=3e-16)


@pytest.mark.parametrize(("config", "max_len"), CASES["max_len"])
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
    older = {
        "rope_type": "yarn",
        "factor": 4,
        "original_max_position_embeddings": 32768,
        "beta_fast": 32,
        "beta_slow": 1,
    }
    assert to_config(yarn, transformers=4) == {
        "head_dim": 128,
        "max_position_embeddings": 131072,
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.5,
        "rope_scaling": older | {"truncate": True},
    }
    assert to_config(yarn, transformers=5) == {
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
        "rope_theta": 1e4,
        "rope_scaling": {"rope_type": "dynamic", "factor": 2},
    }
    with rejects(ValueError, "transformers", 3):
        to_config(dynamic, transformers=3)


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
