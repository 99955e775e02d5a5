"""Configs for the code beside the weights of some models, whose keys transformers spells otherwise."""

import numpy as np
import pytest

from posenc_core import DynamicNTK, Llama3, Rotary
from posenc_core.huggingface import load_layers, load_position, load_rope

from ..errors import rejects

LAYERS = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]
SCALING = {
    "rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131072, "low_freq_factor": 1.0,
    "high_freq_factor": 32.0,
}  # fmt: skip
STEP = {
    "model_type": "step3p5", "head_dim": 128, "num_hidden_layers": 3, "layer_types": LAYERS, "rope_scaling": SCALING,
    "rope_theta": [5e6, 1e4, 1e4, 5e6], "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5], "use_rope_layers": [],
    "yarn_only_types": ["full_attention"],
}  # fmt: skip
FULL = Rotary(
    head_dim=128,
    layout="half",
    base=5e6,
    rotary_dim=64,
    scaling=Llama3(factor=2.0, low_freq_factor=1.0, high_freq_factor=32.0, original_max_position_embeddings=131072),
)
SLIDING = Rotary(head_dim=128, layout="half", base=1e4)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (FULL, SLIDING, SLIDING)),
        ({"yarn_only_types": None}, (FULL, SLIDING, SLIDING)),
        ({"use_rope_layers": [True, False, True]}, (FULL, None, SLIDING)),
        (
            {"rope_theta": 1e4, "rope_scaling": None, "yarn_only_types": []},
            (Rotary(head_dim=128, layout="half", rotary_dim=64), SLIDING, SLIDING),
        ),
    ],
)
def test_lists_by_layer_of_step(changed, expected):
    assert load_layers(STEP | changed) == expected
    nested = {
        "model_type": "step3p7",
        "text_config": {key: one for key, one in (STEP | changed).items() if key != "model_type"},
    }
    assert load_layers(nested) == expected


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"rope_theta": [5e6, 1e4, 2e4, 5e6]}, "rope_theta"),
        ({"partial_rotary_factors": [0.5, 1.0]}, "partial_rotary_factors"),
    ],
)
def test_lists_that_contradict_each_other(changed, named):
    with rejects(ValueError, named, (STEP | changed)[named]):
        load_rope(STEP | changed, layer_type="full_attention")


def test_dynamic_scaling_of_nomic():
    sizes = {"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_positions": 8192, "rotary_emb_base": 1000}
    rotary = load_rope(sizes | {"rotary_scaling_factor": 2, "max_trained_positions": 2048})
    assert rotary.scaling == DynamicNTK(factor=2, original_max_position_embeddings=2048)
    assert load_rope(sizes | {"rotary_scaling_factor": None, "max_trained_positions": 2048}).scaling is None


def test_ntk_scaling_of_gte():
    config = {"model_type": "new", "hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 160000}
    found = load_rope(config | {"rope_scaling": {"type": "ntk", "factor": 2.0}}).frequencies()
    np.testing.assert_allclose(found, 320000 ** (-np.arange(0, 64, 2) / 64) / 2 ** (2 / 64), rtol=1e-14)
    with rejects(ValueError, "rope_type", "ntk"):
        load_rope(config | {"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}})


@pytest.mark.filterwarnings("ignore:`layout` 'half' is that of the weights as transformers loads them:UserWarning")
def test_the_tower_of_kimi_as_its_authors_spell_it():
    text = {"model_type": "kimi_k2", "hidden_size": 512, "num_attention_heads": 4, "qk_rope_head_dim": 64}
    sizes = {"vt_hidden_size": 576, "vt_num_attention_heads": 8, "patch_size": 14}
    config = {
        "model_type": "kimi_k25",
        "text_config": text,
        "vision_config": sizes | {"init_pos_emb_height": 32, "init_pos_emb_width": 16},
    }
    ((_, patches), _), rotary = dict(load_position(config).parts)["vision"].additive, load_rope(config, part="vision")
    assert (patches.dim, patches.length, rotary.head_dim) == (576, 512, 72)


@pytest.mark.parametrize(("kind", "rotates"), [("absolute", False), ("rotary", True)])
def test_xlm_roberta_rotates_by_the_code_of_jina(kind, rotates):
    sizes = {"model_type": "xlm-roberta", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 34}
    found = load_position(sizes | {"pad_token_id": 1, "rotary_emb_base": 2e4, "position_embedding_type": kind})
    assert (bool(found.rotary), bool(found.additive)) == (rotates, not rotates)
