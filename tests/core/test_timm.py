"""Configs of vision transformers of timm: what is known by name, what is refused."""

import numpy as np
import pytest

from posenc_core import AxialRotary, MixedRotary, MultimodalRotary, normalized_grid
from posenc_core.analysis import compare_rope
from posenc_core.analysis.explain import explain
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.timm import timm_positions

from ..errors import rejects

EVA = {"architecture": "eva02_base_patch14_224.mim_in22k", "num_classes": 1000, "pretrained_cfg": {"rope": "not read"}}
OWN = {"use_rot_pos_emb": True, "embed_dim": 768, "num_heads": 12}


def own(**arguments):
    return {"architecture": "of_ones_own", "model_args": OWN | arguments}


def test_names_say_the_arguments():
    assert load_rope(EVA) == AxialRotary(head_dim=64, layout="interleaved", axes_dims=(32, 32))
    assert layer_types(EVA) == ()
    dino = {"architecture": "vit_7b_patch16_dinov3.lvd1689m"}
    assert load_rope(dino) == AxialRotary(head_dim=128, layout="half", axes_dims=(64, 64), base=100.0, unit="turn")
    np.testing.assert_array_equal(timm_positions(dino, height=2, width=3), normalized_grid(2, 3))


def test_learned_frequencies():
    mixed = {"architecture": "vit_large_patch16_rope_mixed_ape_224.naver_in1k"}
    assert load_rope(mixed) == MixedRotary(head_dim=64, layout="interleaved", num_heads=16)
    assert load_rope(own(rope_type="mixed", rope_temperature=10)).num_heads == 12
    np.testing.assert_array_equal(timm_positions(mixed, height=1, width=3), [[0, 1, 2], [0, 0, 0]])
    with rejects(ValueError, "config", "one axis"):
        explain(mixed)
    with rejects(ValueError, "a", "MixedRotary"):
        compare_rope(mixed, mixed)


def test_transformers_wraps_them():
    wrapped = EVA | {"model_type": "timm_wrapper", "model_args": None}
    assert load_rope(wrapped) == load_rope(EVA)


def test_arguments_override_the_name():
    changed = EVA | {"model_args": {"rope_temperature": 100.0, "embed_dim": 1536, "num_heads": 16}}
    assert load_rope(changed) == AxialRotary(head_dim=96, layout="interleaved", axes_dims=(48, 48), base=100.0)
    rotary = load_rope(own(rope_type="mrope", rope_mrope_section=[8, 12, 12]))
    assert isinstance(rotary, MultimodalRotary)
    assert rotary.sections == (11, 11, 10)


def test_positions_are_scaled_to_the_training():
    positions = timm_positions(EVA, height=32, width=8)
    np.testing.assert_array_equal(np.unique(positions[0]), np.arange(32) / 2)
    np.testing.assert_array_equal(np.unique(positions[1]), np.arange(8) * 2)
    np.testing.assert_array_equal(
        timm_positions(own(rope_grid_indexing="xy"), height=2, width=2), [[0, 1, 0, 1], [0, 0, 1, 1]]
    )


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"architecture": "resnet50"}, ("architecture", "resnet50")),
        (own(rope_type="mixed", rope_rotate_half=True), ("rope_rotate_half", "mixed")),
        (EVA | {"model_args": {"rope_type": "mixed"}}, ("num_heads", "mixed")),
        (own(rope_type="spiral"), ("rope_type",)),
        (own(rope_temperature=1.0), ("rope_temperature",)),
        (own(rope_grid_indexing="yx"), ("rope_grid_indexing",)),
        (own(rope_type="mrope", rope_grid_indexing="xy"), ("rope_grid_indexing",)),
        (own(rope_type="mrope", rope_mrope_section=[1, 2]), ("rope_mrope_section",)),
        (own(rope_scale=2.0), ("rope_scale", "is not an argument")),
        (own(embed_dim=770), ("embed_dim",)),
        (own(embed_dim=120), ("embed_dim", "multiple of 4")),
        (own(ref_feat_shape=[1, 2, 3]), ("ref_feat_shape",)),
        (own(ref_feat_shape=16, rope_ref_feat_shape=14), ("rope_ref_feat_shape",)),
        (EVA | {"model_args": {"embed_dim": 384}}, ("num_heads",)),
        ({"architecture": "of_ones_own", "model_args": {"use_rot_pos_emb": True}}, ("num_heads",)),
    ],
    ids=str,
)
def test_refused(config, named):
    with rejects(ValueError, *named):
        load_rope(config)


@pytest.mark.parametrize(
    "config",
    [
        EVA | {"model_args": [1]},
        own(use_rot_pos_emb="yes"),
        own(rope_rotate_half=1),
        own(rope_temperature="hot"),
        own(rope_type=["cat"]),
        own(embed_dim="wide"),
        own(ref_feat_shape="16"),
        own(rope_type="mrope", rope_mrope_section=[8, "12", 12]),
    ],
    ids=str,
)
def test_wrong_types(config):
    with rejects((TypeError, ValueError), None):
        load_rope(config)


def test_models_without_rope():
    for config in (own(use_rot_pos_emb=False), {"architecture": "eva02_enormous_patch14_clip_224"}):
        assert load_rope(config) is None
        with rejects(ValueError, "config", "rotates nothing"):
            timm_positions(config, height=2, width=2)


def test_an_old_axial_port_of_dinov3_differs():
    """Timm's NaFlex models made the first of these where the second was asked for (pytorch-image-models#2692)."""
    axial = {"architecture": "naflexvit_base", "model_args": {"rope_type": "axial", "rope_temperature": 100.0}}
    dino = {"architecture": "vit_base_patch16_dinov3"}
    (layers,) = compare_rope(axial, dino).layers
    assert [cause.key for cause in layers.causes] == ["layout", "unit"]


def test_naflexvit_base_has_12_heads():
    arguments = {"model_args": {"rope_type": "mixed"}}
    assert load_rope({"architecture": "naflexvit_base_patch16"} | arguments).num_heads == 12
    with rejects(ValueError, "num_heads"):
        load_rope({"architecture": "naflexvit_so150m2_patch16"} | arguments)
