"""Tensors are converted, copied or rejected by their names and shapes."""

import re

import pytest

from posenc_backends.cli.relayout.projections import check_partners, order_of, projections

from ..errors import rejects
from .load_cases import load_cases

LLAMA = {
    "model_type": "llama", "hidden_size": 3, "head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rope_theta": 10000.0,
}  # fmt: skip


def test_usual_names_are_known():
    found = projections(LLAMA, source="interleaved", target="half")
    shapes = {"q_proj.weight": (32, 3), "k_proj.weight": (16, 3), "q_proj.bias": (32,), "q_norm.weight": (8,)}
    for prefix in ("model.layers.3.self_attn", "transformer.h.0.attn", "language_model.model.layers.11.self_attn"):
        for name, shape in shapes.items():
            assert order_of(f"{prefix}.{name}", "BF16", shape, found) is not None
    copied = (
        "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.bias", "model.norm.weight",
        "model.layers.0.self_attn.q_proj.lora_A.default.weight", "model.layers.0.self_attn.sinks",
        "tok_embeddings.weight",
        "model.layers.0.mlp.experts.3.down_proj.weight", "model.layers.0.mlp.experts.gate_up_proj_blocks",
        "model.layers.0.block_sparse_moe.gate.weight", "layers.0.attention.wv.weight", "layers.0.attention_norm.weight",
        "vision_tower.encoder.layers.0.self_attn.q_proj.weight", "visual.blocks.0.attn.qkv.weight", "lm_head.weight",
        "model.layers.0.mlp.gate.e_score_correction_bias", "backbone.layers.0.mixer.in_proj.weight",
    )  # fmt: skip
    for name in copied:
        assert order_of(name, "BF16", (32, 8), found) is None
    assert order_of("model.layers.0.self_attn.q_proj.input_scale", "F32", (1,), found) is None


@pytest.mark.parametrize(("name", "shape", "dtype", "message"), load_cases("tensors")["unsupported"])
def test_unsupported_tensors_are_named(name, shape, dtype, message):
    full = f"model.layers.1.{name}"
    with pytest.raises(ValueError, match=re.escape(f"`{full}` {message}")):
        order_of(full, dtype, tuple(shape), projections(LLAMA, source="interleaved", target="half"))


def test_without_a_hidden_size_any_width_but_0_is_allowed():
    config = {key: value for key, value in LLAMA.items() if key != "hidden_size"}
    known = projections(config, source="interleaved", target="half")
    assert order_of("layers.0.attn.q_proj.weight", "F32", (32, 5), known) is not None
    with rejects(ValueError, "layers.0.attn.q_proj.weight", "(32, 0)"):
        order_of("layers.0.attn.q_proj.weight", "F32", (32, 0), known)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("q_b_proj", (60, 6)), ("q_proj", (60, 5)), ("kv_a_proj_with_mqa", (14, 5)), ("kv_a_proj_with_mqa", (10, 12))],
)
def test_latents_have_shapes_of_their_own(name, shape):
    config = LLAMA | {
        "model_type": "deepseek_v3", "hidden_size": 12, "num_attention_heads": 6, "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 6, "kv_lora_rank": 10, "q_lora_rank": 5,
    }  # fmt: skip
    known = projections(config, source="interleaved", target="half")
    with pytest.raises(ValueError, match=re.escape(f"by the config, got {shape}.")):
        order_of(f"model.layers.0.self_attn.{name}.weight", "F32", shape, known)


@pytest.mark.parametrize(
    "name",
    [
        "vpm.encoder.layers.0.self_attn", "apm.layers.0.self_attn", "vit.blocks.0.attn", "resampler.attn",
        "model.vision_embed_tokens.img_processor.vision_model.encoder.layers.0.self_attn",
    ],
)  # fmt: skip
def test_towers_are_copied(name):
    known = projections(LLAMA, source="interleaved", target="half")
    assert order_of(f"{name}.q_proj.weight", "F32", (32, 3), known) is None


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("talker.model.layers.0.self_attn", "talker"),
        ("depth_decoder.model.layers.0.self_attn", "depth_decoder"),
        ("model.sam_model.blocks.0.attn", "sam_model"),
        ("protein_encoder.layer.0.attention", "protein_encoder"),
        ("encoder.layers.0.self_attn", "encoder"),
        ("model.text_models.0.self_attn", "text_models"),
    ],
)
def test_other_towers_are_refused(name, part):
    known = projections(LLAMA, source="interleaved", target="half")
    message = f"`{name}.k_proj.weight` is part of `{part}`, which the config of the text model may not describe"
    with pytest.raises(ValueError, match=re.escape(message)):
        order_of(f"{name}.k_proj.weight", "F32", (16, 3), known)


@pytest.mark.parametrize(
    ("names", "shared", "lacks"),
    [
        (["0.attn.q_proj.weight", "1.attn.k_proj.weight"], False, "`1.attn` lacks queries"),
        (["0.attn.q_proj.weight", "0.attn.k_proj.bias"], False, "`0.attn` lacks keys"),
        (["0.attn.q_proj.base_layer.weight"], True, "`0.attn` lacks keys"),
        (["0.attn.q_b_proj.weight"], False, "`0.attn` lacks keys"),
        (["0.attn.kv_a_proj_with_mqa.weight"], True, "`0.attn` lacks queries"),
        (["0.attn.q_proj.weight", "0.attn.k_proj.weight", "1.attn.q_proj.weight"], False, "`1.attn` lacks keys"),
        (["0.attn.q_proj.weight", "0.attn.k_proj.weight", "1.attn.q_proj.weight"], True, None),
        (["0.attn.q_b_proj.weight", "0.attn.kv_a_proj_with_mqa.weight"], False, None),
        (["0.attn.qkv_proj.weight"], False, None),
        (["x.0.attn.q_proj.lora_B.weight", "x.0.attn.q_proj.lora_B.default.weight"], False, None),
        (["attn.wq.weight", "attn.wk.weight", "attn.q_norm.weight"], False, None),
    ],
)
def test_queries_need_keys(names, shared, lacks):
    if lacks is None:
        check_partners(names, shared=shared)
    else:
        with pytest.raises(ValueError, match=re.escape(lacks)):
            check_partners(names, shared=shared)
