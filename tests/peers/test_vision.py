"""Small random vision towers of transformers beside `load_rope` and `vision_positions` for their configs."""

import contextlib
import importlib

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING
from transformers.models.vjepa2 import modeling_vjepa2

from posenc_core import rotate
from posenc_core.huggingface import load_rope, vision_positions
from posenc_core.huggingface.facts.towers import TOWERS as KNOWN
from posenc_core.huggingface.facts.towers import WITHOUT_ROPE

from .rounding import UNIT, angle_slack, pair_slack, rotated
from .towers import ELSEWHERE, TOWERS, small, watch

SIZES = ((16, 3), (24, 2), (40, 5))  # of a head, and how many
CASES = [(tower, grids, *sizes) for tower in TOWERS for grids, sizes in zip(tower.grids, SIZES, strict=False)]

pytestmark = pytest.mark.filterwarnings("ignore:the class token rotates by learned angles:UserWarning")  # MLCD


@pytest.mark.parametrize(("tower", "grids", "head_dim", "heads"), CASES, ids=str)
def test_queries_and_keys_are_rotated_alike(tower, grids, head_dim, heads, monkeypatch):
    config = small(tower, head_dim, heads)
    encoding = load_rope(config)
    options = {key: value[: len(grids)] if key == "merge_sizes" else value for key, value in tower.options.items()}
    positions = vision_positions(config, grids, **options)
    for seen in watch(tower, config, grids, monkeypatch):
        before, after = (one[..., tower.left_out :, :] for one in seen)
        ours = rotated(before, encoding.cos_sin(positions), encoding, rotate)
        angles = angle_slack(encoding, positions) + coordinate_slack(encoding, positions)
        assert np.all(np.abs(ours - after) <= pair_slack(before, encoding, angles))


def coordinate_slack(encoding, positions):
    """Return how far each angle may be off where a peer computes positions that are not integers: by four roundings."""
    if positions.dtype.kind == "i":
        return 0
    return 4 * UNIT * np.abs(encoding.frequencies()) * np.abs(positions).max()


def test_every_known_tower_is_watched():
    assert {tower.model_type for tower in TOWERS} | ELSEWHERE == set(KNOWN)


@pytest.fixture(scope="module")
def configs():
    """The default configs of all models that have one without arguments."""
    made = []
    for config_class in CONFIG_MAPPING.values():
        with contextlib.suppress(Exception):
            made.append(config_class())
    return made


def test_every_tower_with_axes_is_known(configs):
    """A new release may have more: then this fails, and their code has to be read."""
    axial = {config.model_type for config in configs if _rope_type(config) == "axial"}
    assert axial <= set(KNOWN)
    assert len(axial) >= 33


def _rope_type(config):
    return (config.to_dict().get("rope_parameters") or {}).get("rope_type")


def test_towers_are_found_in_whole_configs(configs):
    found = set()
    for config in configs:
        tower = getattr(config, "vision_config", None)
        tower = getattr(tower, "backbone_config", tower)
        if getattr(tower, "model_type", None) in KNOWN:
            assert load_rope(config, part="vision") == load_rope(tower)
            found.add(tower.model_type)
    assert len(found) >= 29


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in ELSEWHERE])
def test_what_a_config_leaves_out_is_as_the_class_has_it(name):
    whole = CONFIG_MAPPING[name]()
    assert load_rope({"model_type": name}) == load_rope(whole)
    options = {"merge_sizes": [2]} if name == "video_llama_3_vision" else {}
    options |= {"layer_type": "full_attention"} if name == "sam3_vit_model" else {}
    positions = vision_positions({"model_type": name}, [(4, 64)], part=None, **options)
    np.testing.assert_array_equal(positions, vision_positions(whole, [(4, 64)], part=None, **options))


def test_v_jepa_2_does_not_rotate():
    """The norms of its pairs change: its tables are those of halves, its pairs are adjacent."""
    x = torch.ones(1, 1, 4, 8)
    turned = modeling_vjepa2.rotate_queries_or_keys(x, torch.arange(4))
    norms = torch.linalg.vector_norm(turned.unflatten(-1, (4, 2)), dim=-1)
    assert (norms - 2**0.5).abs().max() > 0.1
    with pytest.raises(ValueError, match="is not a rotation"):
        load_rope(CONFIG_MAPPING["vjepa2"]())


@pytest.mark.parametrize("name", sorted(WITHOUT_ROPE))
def test_towers_without_rotation_have_no_rotary_module(name):
    config = CONFIG_MAPPING[name]
    module = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    vision = [member for member in vars(module) if "Rotary" in member and "Text" not in member]
    assert not vision
