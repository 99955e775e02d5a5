"""Default configs of transformers, diffusers and timm, recorded by `tests/peers/recording.py`."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_core.encodings import Encoding
from posenc_core.huggingface import load_position, load_rope, vision_positions
from posenc_core.huggingface.diffusers import diffusers_positions

FOLDER = Path(__file__).with_name("published")
MODELS, TOWERS, DIFFUSERS, TIMM = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("transformers", "towers", "diffusers", "timm")
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
        assert rest == found or isinstance(rest, Exception), key


@pytest.mark.parametrize("name", TOWERS)
def test_positions_of_the_patches_of_each_tower(name):
    found = vision_positions({"model_type": name}, [(4, 20)], part=None, **TOWERS[name]["options"])
    np.testing.assert_array_equal(found, TOWERS[name]["positions"])


@pytest.mark.parametrize("name", DIFFUSERS)
def test_each_class_of_diffusers_and_what_its_config_leaves_out(name):
    case = DIFFUSERS[name]
    needed = {key: value for key, value in case["config"].items() if key == "_class_name" or value is True}
    for config in (case["config"], needed):
        assert load_rope(config) == Encoding.from_dict(case["encoding"])
        found = diffusers_positions(config, height=4, width=6, text=case["text"])
        np.testing.assert_allclose(found, case["positions"], rtol=1e-15)


@pytest.mark.parametrize("name", TURNING)
def test_an_architecture_of_timm_has_the_arguments_of_its_function(name):
    named, given = {"architecture": name}, {"architecture": "eva_of_ones_own", "model_args": TIMM[name]}
    assert load_rope(named) == load_rope(given)
