"""Configs of vision towers: encodings and positions; numbers of `tests/golden/vision_models.json` and written out."""

import json
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest

from posenc_core import AxialRotary, Rotary, rotate
from posenc_core.encodings import Encoding
from posenc_core.huggingface import load_rope, vision_positions
from posenc_core.huggingface.facts.towers import TOWERS

from ..errors import rejects
from .load_cases import load_cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "vision_models.json").read_text(encoding="utf-8"))
CASES = load_cases("vision")
HEADS = {"hidden_size": 64, "num_attention_heads": 4}
SQUARE = {"patch_size": 14, "spatial_merge_size": 2}
QWEN = {"model_type": "qwen2_5_vl_vision", **HEADS, **SQUARE, "window_size": 112}
# fmt: off
KEYS = {  # all that some tower reads
    "hidden_size": 64, "embed_dim": 64, "num_attention_heads": 4, "patch_size": 4, "image_size": 16, "head_dim": 16,
    "spatial_merge_size": 2, "window_size": 16, "num_register_tokens": 1, "pos_emb_height": 4,
    "memory_attention_hidden_size": 128, "memory_attention_num_attention_heads": 4,
    "memory_attention_downsample_rate": 2, "memory_attention_rope_feat_sizes": [6, 4],
}
# fmt: on
LOADED = pytest.mark.filterwarnings("ignore:`layout` 'half' is that of the weights as transformers loads them")


@LOADED
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_towers_have_their_golden_numbers(case):
    encoding = load_rope(case["config"])
    assert encoding == Encoding.from_dict(case["encoding"])
    np.testing.assert_allclose(encoding.frequencies(), case["frequencies"], rtol=2**-52, atol=0)
    positions = vision_positions(case["config"], case["grid_thw"])
    np.testing.assert_array_equal(positions, case["positions"])
    cos, sin = (table[:, case["columns"]] for table in encoding.cos_sin(positions))
    expected = np.array(case["cos_sin"])
    assert np.all(np.abs(cos - expected[..., 0]) <= np.spacing(np.abs(expected[..., 0]).astype(np.float32)))
    assert np.all(np.abs(sin - expected[..., 1]) <= np.spacing(np.abs(expected[..., 1]).astype(np.float32)))


def test_a_patch_is_rotated_by_its_column_and_its_row():
    """Llama 4, from 1 and the column first: the pairs (0, 1), (2, 3) … have the angles column × 10000 ** (-2i / 8)."""
    config = {"model_type": "llama4_vision_model", **HEADS, "patch_size": 14}
    encoding, positions = load_rope(config), vision_positions(config, [(3, 5)])
    x = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    ours = rotate(x, *encoding.cos_sin(positions), layout=encoding.layout)
    for row, column in product(range(3), range(5)):
        token = 5 * row + column
        for pair in range(8):
            angle = [column + 1, row + 1][pair // 4] * mpmath.mpf(10000) ** (-mpmath.mpf(2 * (pair % 4)) / 8)
            a, b = map(float, x[token, 2 * pair : 2 * pair + 2])
            turned = [a * mpmath.cos(angle) - b * mpmath.sin(angle), a * mpmath.sin(angle) + b * mpmath.cos(angle)]
            np.testing.assert_allclose(ours[token, 2 * pair : 2 * pair + 2], [float(t) for t in turned], atol=5e-7)
    np.testing.assert_array_equal(ours[15], x[15])  # the class token


def test_the_memory_of_a_video_model_has_its_own_grid():
    config = {"model_type": "sam2_video", **KEYS}
    np.testing.assert_array_equal(vision_positions(config), [np.tile(np.arange(6), 4), np.repeat(np.arange(4), 6)])


def test_images_follow_each_other_in_blocks_and_windows():
    """A window has 4 × 4 blocks; 10 columns of blocks are 4 + 4 + 2."""
    grids = [(1, 4, 20), (2, 2, 4)]
    first = [
        (row, column)
        for window in (range(0, 8, 2), range(8, 16, 2), range(16, 20, 2))
        for top in (0, 2)
        for left in window
        for row in (top, top + 1)
        for column in (left, left + 1)
    ]
    second = [(row, column) for left in (0, 2) for row in (0, 1) for column in (left, left + 1)]
    np.testing.assert_array_equal(vision_positions(QWEN, grids), np.transpose([*first, *second, *second]))


def test_each_image_has_its_own_class_token_where_the_model_packs_them():
    config = {"model_type": "inkling2_vision", **HEADS, **SQUARE}
    block = [(1, 1), (2, 1), (1, 2), (2, 2)]
    expected = [(0, 0), *block, (0, 0), *block, *((column + 2, row) for column, row in block)]
    np.testing.assert_array_equal(vision_positions(config, [(1, 1, 1), (1, 1, 2)]), np.transpose(expected))


def test_layers_of_sam_3():
    """36 patches of 24 in a window: those of full attention are at 2/3 of their number."""
    config = {"model_type": "sam3_vit_model", **HEADS, "patch_size": 14, "image_size": 504, "window_size": 24}
    full = vision_positions(config, layer_type="full_attention")
    np.testing.assert_array_equal(full[0, :36], np.arange(36) * (24 / 36))
    np.testing.assert_array_equal(full[1, ::36], np.arange(36) * (24 / 36))
    windowed = vision_positions(config, layer_type="window_attention")
    np.testing.assert_array_equal(windowed, [np.tile(np.arange(24), 24), np.repeat(np.arange(24), 24)])
    with rejects(ValueError, "layer_type", "None"):
        vision_positions(config)


def test_the_size_of_blocks_may_differ():
    config = {"model_type": "video_llama_3_vision", **HEADS, "patch_size": 14}
    positions = vision_positions(config, [(1, 2, 4), (1, 2, 2)], merge_sizes=[2, 1])
    np.testing.assert_array_equal(positions[1], [0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1])
    for sizes in (None, [2], 2):
        with rejects(ValueError, "merge_sizes"):
            vision_positions(config, [(1, 2, 4), (1, 2, 2)], merge_sizes=sizes)


@LOADED
@pytest.mark.filterwarnings("ignore:the class token rotates by learned angles:UserWarning")
@pytest.mark.parametrize("name", TOWERS)
def test_every_tower_rotates_whole_pairs_at_positions_of_its_axes(name):
    config = {"model_type": name, **KEYS}
    encoding = load_rope(config)
    options = {"merge_sizes": [2]} if name == "video_llama_3_vision" else {}
    options |= {"layer_type": "full_attention"} if name == "sam3_vit_model" else {}
    positions = vision_positions(config, **options)
    assert len(positions) == encoding.num_axes
    assert positions.shape[1] >= 16
    norms = np.hypot(*encoding.cos_sin(positions))
    np.testing.assert_allclose(norms, 1, atol=2**-23)
    assert load_rope({"model_type": "whole", "vision_config": config}, part="vision") == encoding


def test_the_class_token_of_mlcd_is_warned_of():
    with pytest.warns(UserWarning, match="class_pos_emb"):
        load_rope({"model_type": "mlcd_vision_model", **HEADS, "patch_size": 14})


def axial(head_dim, channels, axes=2, **fields):
    return AxialRotary(head_dim=head_dim, axes_dims=(channels,) * axes, **{"layout": "half"} | fields)


@pytest.mark.parametrize(
    ("config", "expected"), CASES["published"], ids=["Qwen2-VL", "Qwen2-VL, shortened", "Pixtral", "Llama 4"]
)
def test_published_configs(config, expected):
    assert load_rope(config, part="vision") == expected


AXIAL = AxialRotary(head_dim=16, layout="half", axes_dims=(8, 8))


@pytest.mark.parametrize(("config", "part"), CASES["parts"])
def test_parts_are_found(config, part):
    assert load_rope(config, part=part) == AXIAL
    if part is not None:
        np.testing.assert_array_equal(vision_positions(config, [(2, 4)], part=part), vision_positions(QWEN, [(2, 4)]))


def test_other_parts():
    config = {
        "text_config": {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5},
        "audio_config": {"model_type": "qwen2", "head_dim": 32, "rope_theta": 1e4},
        "vision_config": {"model_type": "siglip_vision_model", **HEADS},
    }
    assert load_rope(config) == Rotary(head_dim=64, layout="half", base=5e5)
    assert load_rope(config, part="audio") == Rotary(head_dim=32, layout="half")
    assert load_rope(config, part="vision") is None
    assert load_rope({"model_type": "qwen2", **config}, part="text").base == 5e5
    short = {"model_type": "qwen2_vl", "text_config": {"head_dim": 128}, "vision_config": {}}
    assert load_rope(short, part="text_config") == load_rope(short)
    assert load_rope({"vlm_config": short}, part="vlm") == load_rope(short)
    with rejects(ValueError, "config", "'siglip_vision_model'"):
        vision_positions(config, [(2, 2)])


@pytest.mark.parametrize(
    ("config", "part", "kind", "names"),
    [
        ({"vision_config": {"model_type": "made_up", **HEADS}}, "vision", ValueError, ("part", "'made_up'")),
        ({"vision_config": {"model_type": "vjepa2", **HEADS}}, "vision", ValueError, ("model_type", "'vjepa2'")),
        ({"model_type": "vjepa2", **HEADS}, None, ValueError, ("model_type", "'vjepa2'")),
        ({"model_type": "llama", "head_dim": 64}, "vision", ValueError, ("part", "'vision'")),
        ({"text_config": {"head_dim": 64}}, "audio", ValueError, ("part", "'audio'", "'text_config'")),
        ({"vision_config": QWEN}, 3, TypeError, ("part", "3")),
        ({"model_type": "qwen2_vl", **HEADS}, "vision", ValueError, ("part", "'vision'")),  # no patches: the whole
        (
            {"a": {"vision_config": QWEN}, "b": {"vision_config": {**QWEN, "hidden_size": 128}}},
            "vision",
            ValueError,
            ("part", "'a.vision_config'", "'b.vision_config'"),
        ),
    ],
)
def test_other_parts_are_refused(config, part, kind, names):
    with rejects(kind, *names):
        load_rope(config, part=part)


@pytest.mark.parametrize(
    ("change", "kind", "names"),
    [
        ({"hidden_size": 64.0}, TypeError, ("hidden_size", "64.0")),
        ({"hidden_size": 65}, ValueError, ("hidden_size", "65")),
        ({"hidden_size": 72}, ValueError, ("head_dim", "18")),
        ({"num_attention_heads": 0}, ValueError, ("num_attention_heads", "0")),
        ({"num_heads": 8}, ValueError, ("num_attention_heads", "4", "8")),
        ({"head_dim": 32}, ValueError, ("head_dim", "32")),
        ({"rope_theta": 1}, ValueError, ("rope_theta", "1")),
        ({"rope_theta": 5.0, "rope_parameters": {"rope_theta": 6.0}}, ValueError, ("rope_theta", "5.0", "6.0")),
        ({"rope_parameters": {"rope_type": "yarn"}}, ValueError, ("rope_type", "'yarn'")),
        ({"rope_parameters": {"rope_type": ["axial"]}}, ValueError, ("rope_type", "['axial']")),
        ({"rope_parameters": {"factor": 2.0}}, ValueError, ("factor", "2.0")),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, ValueError, ("partial_rotary_factor", "0.5")),
        ({"rope_parameters": 3}, TypeError, ("rope_parameters", "3")),
        ({"partial_rotary_factor": 0.5}, ValueError, ("partial_rotary_factor", "0.5")),
        ({"rope_shift": 2}, ValueError, ("rope_shift", "2")),
    ],
)
def test_other_keys_are_refused(change, kind, names):
    with rejects(kind, *names):
        load_rope(QWEN | change)


def test_another_layout_and_layer_type():
    assert load_rope(QWEN, layout="interleaved").layout == "interleaved"
    assert load_rope(QWEN, layer_type="full_attention") == AXIAL
    with rejects(ValueError, "layer_type", "'sliding'"):
        load_rope(QWEN, layer_type="sliding")


@pytest.mark.parametrize(
    ("config", "grids", "kind", "names"),
    [
        (QWEN, [(1, 3, 4)], ValueError, ("merge", "2")),
        (QWEN, [(0, 2, 4)], ValueError, ("grid_thw", "0")),
        (QWEN, [(1, 2, 4, 4)], ValueError, ("grid_thw",)),
        (QWEN, [], ValueError, ("grid_thw",)),
        (QWEN, [(1.0, 2.0, 4.0)], TypeError, ("grid_thw", "float64")),
        (QWEN, "ab", TypeError, ("grid_thw",)),
        (QWEN, [(2, 2), (1, 2, 2)], ValueError, ("grid_thw",)),
        (QWEN, [(2**20, 2**20, 2)], ValueError, ("grid_thw", "1048576")),
        (QWEN, None, ValueError, ("image_size",)),
        (QWEN | {"spatial_merge_size": 0}, [(2, 2)], ValueError, ("spatial_merge_size", "0")),
        (QWEN | {"window_size": 3}, [(2, 2)], ValueError, ("window_size", "3")),
        ({"model_type": "pixtral", **HEADS}, [(3, 2, 2)], ValueError, ("grid_thw", "3")),
    ],
)
def test_other_grids_are_refused(config, grids, kind, names):
    with rejects(kind, *names):
        vision_positions(config, grids)


def test_cyclic_and_deep_configs_are_refused():
    cyclic = {"model_type": "llama"}
    cyclic["a_config"] = cyclic
    with rejects(ValueError, "config"):
        load_rope(cyclic, part="vision")


def test_a_share_of_one_changes_no_angle_and_other_keys_of_one_are_unknown():
    assert load_rope({**QWEN, "partial_rotary_factor": 1.0}) == load_rope(QWEN)
    with rejects(ValueError, "rope_share", "1"):
        load_rope({**QWEN, "rope_share": 1})


IMAGES_ALONE = {
    "dinov3_vit", "edgetam_video", "eomt_dinov3", "gemma4_vision", "llama4_vision_model", "mlcd_vision_model",
    "pixtral", "sam2_video", "sam3_tracker_video", "sam3_vit_model", "sapiens2", "step3p5_vision",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TOWERS))
def test_towers_of_images_alone_take_no_second_frame(name):
    def count(frames):
        return vision_positions({"model_type": name}, [(frames, 32, 32)], part=None, **options).shape[1]

    options = {"merge_sizes": [2]} if TOWERS[name].merge == "merge_sizes" else {}
    options |= {"layer_type": "full_attention"} if TOWERS[name].scaled else {}
    if name in IMAGES_ALONE:
        assert count(1) >= 32 * 32
        with rejects(ValueError, "grid_thw", 2):
            count(2)
    else:
        assert count(2) - count(1) >= 32 * 32


def test_one_video_among_images_is_refused():
    for grids in ([(1, 2, 2), (2, 2, 2)], [(2, 2, 2), (1, 2, 2)]):
        with rejects(ValueError, "grid_thw", "one frame"):
            vision_positions({"model_type": "pixtral"}, grids, part=None)


@pytest.mark.parametrize("share", [1, 1.0, None, 0.5, 0])
def test_the_share_among_the_parameters_of_a_tower_is_1(share):
    tower = {"model_type": "qwen2_vl_vision"}
    given = tower | {"rope_parameters": {"partial_rotary_factor": share}}
    if share in (1, None):
        assert load_rope(given) == load_rope(tower)
    else:
        with rejects(ValueError, "partial_rotary_factor", share):
            load_rope(given)
