"""Default configs of transformers, diffusers and timm, recorded by `tests/peers/recording.py`."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from posenc_core.encodings import Encoding
from posenc_core.huggingface import layer_types, load_position, load_rope, vision_positions
from posenc_core.huggingface.config import TEXTS
from posenc_core.huggingface.diffusers import diffusers_positions, find_rule
from posenc_core.huggingface.facts.models import MODELS as FACTS
from posenc_core.huggingface.facts.towers import TOWERS as TOWER_FACTS
from posenc_core.huggingface.timm import timm_positions

FOLDER = Path(__file__).with_name("published")
MODELS, TOWERS, DIFFUSERS, TIMM, PUBLISHED = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("transformers", "towers", "diffusers", "timm", "models")
)
TURNING = {name: one for name, one in TIMM.items() if one.get("use_rot_pos_emb") and one.get("rope_type") != "mixed"}
WITHOUT_DEFAULT = {  # keys that the library takes as absent where a config lacks them, and not as the class's default
    "attn_temperature_tuning", "head_dim", "layer_types", "log_scaling_n_floor", "max_position_embeddings",
    "n_positions", "no_rope_layers", "num_hidden_layers", "qk_rope_head_dim", "use_mem_rope",
}  # fmt: skip
ONE_BASE = {"dots3_note_text", "lfm3", "ultrabert"}  # the default of a layer without one, unlike that of the class

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of encodings that are not all of a model


def read(config):
    """Return the encodings of a config, or the error."""
    try:
        return load_position(config)
    except (TypeError, ValueError) as error:
        return error


def is_readable(config):
    """Return whether a config has a RoPE that can be read."""
    try:
        return load_rope(config) is not None
    except (TypeError, ValueError):
        return False


def lines(found):
    """Return what `read` finds in lines, without the notes."""
    if isinstance(found, Exception):
        return [f"{type(found).__name__}: {found}"]
    return [line for line in str(found).splitlines() if not line.lstrip().startswith("note:")]


def less(config):
    """Yield the config without each of its keys, and without the bases and shares of `rope_parameters`."""
    for key, value in config.items():
        unread = key == "rotary_dim" and config["model_type"] == "minimax_m3_vl_text"  # by transformers
        if key not in WITHOUT_DEFAULT and not isinstance(value, dict | str) and not unread:
            yield key, {name: other for name, other in config.items() if name != key}
    rope = config.get("rope_parameters", {})
    for key in {"rope_theta", "partial_rotary_factor"} & rope.keys():
        yield key, config | {"rope_parameters": {name: value for name, value in rope.items() if name != key}}
    for layer in rope:
        if layer.endswith("_attention") and config["model_type"] not in ONE_BASE:
            inner = {name: value for name, value in rope[layer].items() if name != "rope_theta"}
            yield f"{layer}.rope_theta", config | {"rope_parameters": rope | {layer: inner}}


@pytest.mark.parametrize("name", MODELS)
def test_the_default_config_of_each_model_type(name):
    found = read(MODELS[name]["config"])
    assert lines(found) == MODELS[name]["answer"]
    for key, config in less(MODELS[name]["config"]) if not isinstance(found, Exception) else ():
        rest = read(config)
        needed = rf"\b{key}(\.\d)?` is missing|`(head_dim|num_layers)` is missing, and so is"
        assert rest == found or re.search(needed, str(rest)), key


CORPUS = (
    {name: one["config"] for name, one in MODELS.items()}
    | {name: {"_class_name": name} | config for name, config in DIFFUSERS.items()}
    | {name: {"architecture": name} | config for name, config in TIMM.items()}
)
UNLIKE = {  # with the reason
    "clvp": "the whole says nothing of its encoder, for which `load_rope` takes it",
    "esm": "a key of its other encoding is missing",
}


def rotary_of(position):
    """Return the RoPE of the text model by layer type; nothing without one."""
    parts = [part for name, part in position.parts if f"{name}_config" in TEXTS]
    return dict(position.rotary) or (rotary_of(parts[0]) if parts else {})


def ropes_of(config):
    """Return what `load_rope` says for each layer type, or the error."""
    try:
        return {name: load_rope(config, layer_type=name) for name in layer_types(config) or (None,)}
    except (TypeError, ValueError) as error:
        return error


@pytest.mark.parametrize("name", CORPUS)
def test_two_doors_have_one_answer(name):
    position, ropes = read(CORPUS[name]), ropes_of(CORPUS[name])
    if isinstance(position, Exception):
        assert isinstance(ropes, Exception) or name in UNLIKE
    elif isinstance(ropes, Exception) or not any(ropes.values()):
        assert not any(rotary_of(position).values())
    else:
        assert rotary_of(position) == ropes or name in UNLIKE


@pytest.mark.parametrize("name", TOWERS)
def test_positions_of_the_patches_of_each_tower(name):
    found = vision_positions({"model_type": name}, [(4, 20)], part=None, **TOWERS[name]["options"])
    np.testing.assert_array_equal(found, TOWERS[name]["positions"])


@pytest.mark.parametrize("name", TOWERS)
def test_numbers_that_a_tower_lacks_are_those_of_its_default_config(name):
    completed = TOWER_FACTS[name].fill_in({})
    assert {key: completed[key] for key in TOWERS[name]["defaults"]} == TOWERS[name]["defaults"]


@pytest.mark.parametrize("name", DIFFUSERS)
def test_numbers_that_a_config_of_diffusers_lacks_are_those_of_its_class(name):
    _, values = find_rule({"_class_name": name})
    defaults, given = json.loads(json.dumps(values)), DIFFUSERS[name]["fields"]
    config = {key: value for key, value in DIFFUSERS[name]["config"].items() if key not in given}
    recorded = {key: value for key, value in config.items() if key in defaults and value is not None}  # None: computed
    assert recorded == {key: defaults[key] for key in recorded}


@pytest.mark.parametrize("name", TOWERS)
def test_a_tower_is_that_of_its_default_config_where_a_config_lacks_all(name):
    bare, whole = {"model_type": name}, MODELS[name]["config"]
    for options in ({}, {"layer_type": "full_attention"}, {"layer_type": "window_attention"}):
        assert np.array_equal(*(rows_of(config, TOWERS[name]["options"] | options) for config in (bare, whole)))
    assert load_rope(bare) == load_rope(whole)
    of_image = TOWERS[name]["options"] | {"grid_thw": None}
    assert np.array_equal(*(rows_of(config | {"image_size": 336}, of_image) for config in (bare, whole)))
    for key in set(whole) - {"model_type", "rope_parameters"}:
        less_one = {other: value for other, value in whole.items() if other != key}
        assert np.array_equal(rows_of(less_one, TOWERS[name]["options"]), rows_of(whole, TOWERS[name]["options"])), key


def rows_of(config, options):
    """Return the positions of the patches of one grid, or the error."""
    try:
        return vision_positions(config, **{"grid_thw": [(4, 20)], "part": None} | options)
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_keys_that_published_models_have(name):
    """Written from the models' code and documentation: positions and sizes, beside what is loaded of them."""
    wanted = PUBLISHED[name]
    config, found = wanted["config"], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = [repr(load_rope(config, layer_type=one)) for one in layer_types(config) or (None,)]
        except ValueError as error:
            words, verdict = [str(error)], "refuses"
        else:
            words = list(dict.fromkeys(str(one.message) for one in caught))
            verdict = "warns" if words else "loads"
    assert (verdict, words, found) == (wanted["verdict"], wanted["words"], wanted["answer"])


SIZES = ({}, {"hidden_size": 512, "num_attention_heads": 4}, {"head_dim": 128})


@pytest.mark.parametrize("key", ["rope_theta", "partial_rotary_factor"])
def test_base_and_share_are_those_of_the_default_config_where_a_config_lacks_them(key):
    count = 0
    for name, one in MODELS.items():
        rope = one["config"].get("rope_parameters", {})
        flat = {other: value for other, value in one["config"].items() if not isinstance(value, dict)}
        configs = [sizes | flat | {"rope_parameters": rope} for sizes in SIZES]
        whole, found = next(((config, load_rope(config)) for config in configs if is_readable(config)), (None, None))
        if key in rope and whole is not None:
            less_one = {other: value for other, value in whole.items() if other != key}
            inner = {other: value for other, value in rope.items() if other != key}
            assert load_rope(less_one | {"rope_parameters": inner}) == found, name
            count += 1
    assert count > (150 if key == "rope_theta" else 20)


def test_a_width_of_heads_is_that_of_the_default_config_where_a_config_lacks_it():
    count = 0
    for name, config in ((name, one["config"]) for name, one in MODELS.items()):
        facts = FACTS.get(name) or FACTS.get(name.removesuffix("_text"))
        found = read(config)
        if (
            facts is not None
            and facts.head_dim is not None
            and "head_dim" in config
            and not isinstance(found, Exception)
        ):
            assert read({key: value for key, value in config.items() if key != "head_dim"}) == found, name
            count += 1
    assert count > 40


@pytest.mark.parametrize(
    ("name", "layer_type", "base", "channels"),
    [
        ("chatglm", None, 10000, 64),
        ("mimo_v2", "sliding_attention", 10000, 64),
        ("llama4_text", "chunked_attention", 500000, 128),
        ("kimi_k2", None, 10000, 64),
        ("fuyu", None, 25000, 64),
    ],
)
def test_models_without_a_default_config(name, layer_type, base, channels):
    """Sources: the code beside the weights of ChatGLM2, Fuyu, MiMo-V2 and Kimi K2; Meta's of Llama 4."""
    sizes = {"hidden_size": 512, "num_attention_heads": 4} | ({"qk_rope_head_dim": 64} if name == "kimi_k2" else {})
    found = load_rope({"model_type": name} | sizes, layer_type=layer_type)
    assert (found.base, found.rotary_channels) == (base, channels)


@pytest.mark.parametrize(("layer_type", "base"), [("main", 10000), ("compress", 160000)])
def test_the_bases_of_deepseek_v4_where_its_config_lacks_them(layer_type, base):
    assert load_rope({"model_type": "deepseek_v4"}, layer_type=layer_type).base == base


@pytest.mark.parametrize("name", DIFFUSERS)
def test_each_class_of_diffusers_and_what_its_config_leaves_out(name):
    case = DIFFUSERS[name]
    for config in (case["config"], {"_class_name": name} | case["fields"]):
        assert load_rope(config) == Encoding.from_dict(case["encoding"])
        if case["positions"] is None:
            continue
        found = diffusers_positions(config, height=4, width=6, text=case["text"])
        np.testing.assert_allclose(found, case["positions"], rtol=1e-15)


@pytest.mark.parametrize("name", TURNING)
def test_an_architecture_of_timm_has_the_arguments_of_its_function(name):
    named, given = {"architecture": name}, {"architecture": "eva_of_ones_own", "model_args": TIMM[name]}
    assert load_rope(named) == load_rope(given)
    np.testing.assert_array_equal(*(timm_positions(config, height=4, width=6) for config in (named, given)))


MIXED = {name: one for name, one in TIMM.items() if one.get("rope_type") == "mixed"}


@pytest.mark.parametrize("name", MIXED)
def test_a_name_says_the_heads_of_learned_frequencies(name):
    given = {"architecture": "eva_of_ones_own", "model_args": MIXED[name]}
    assert load_rope({"architecture": name}) == load_rope(given)
    assert load_rope(given).num_heads == MIXED[name]["num_heads"]


def test_the_tower_of_intern_s1_pro_is_that_of_qwen3_vl():
    """The code beside its weights (2026); it is not in transformers."""
    assert TOWER_FACTS["interns1_pro_vision"] == TOWER_FACTS["qwen3_vl_vision"]
