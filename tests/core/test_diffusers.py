"""Configs of transformers of diffusers: what is refused, what has no RoPE, and positions by hand."""

import json

import numpy as np
import pytest

from posenc_core import AxialRotary, MixedRotary, MultimodalRotary, Rotary
from posenc_core.analysis import compare_rope
from posenc_core.analysis.explain import explain
from posenc_core.huggingface import load_rope
from posenc_core.huggingface.diffusers import diffusers_positions

from ..errors import rejects

FLUX = {
    "_class_name": "FluxTransformer2DModel",
    "_diffusers_version": "0.42.1",
    "patch_size": 1,
    "guidance_embeds": True,
}


def test_a_file_and_a_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FLUX | {"axes_dims_rope": [64, 32, 32]}))
    expected = AxialRotary(head_dim=128, layout="interleaved", axes_dims=(64, 32, 32))
    assert load_rope(tmp_path) == load_rope(tmp_path / "config.json") == expected


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"_class_name": "FluxPipeline"}, ("_class_name", "not of a pipeline")),
        ({"_class_name": "ErnieImageTransformer2DModel"}, ("_class_name", "not a rotation")),
        ({"_class_name": "LTX2VideoTransformer3DModel", "rope_type": "split"}, ("rope_type", "split")),
        (
            {"_class_name": "LTXVideoTransformer3DModel", "num_attention_heads": 1, "attention_head_dim": 8},
            ("num_attention_heads", 8),
        ),
        ({"_class_name": "Ideogram4Transformer2DModel", "mrope_section": [24, 20]}, ("mrope_section",)),
        ({"_class_name": "MochiTransformer3DModel"}, ("_class_name", "learned")),
        (FLUX | {"rope_theta": 500}, ("rope_theta", "is not a key")),
        (FLUX | {"rotary_dim": 64}, ("rotary_dim", "is not a key")),
        (FLUX | {"axes_dims_rope": [16, 56, 58]}, ("axes_dims_rope",)),
        (FLUX | {"axes_dims_rope": [15, 57, 56]}, ("axes_dims_rope",)),
        (FLUX | {"attention_head_dim": 64}, ("axes_dims_rope",)),
        (FLUX | {"attention_head_dim": 0}, ("attention_head_dim",)),
        ({"_class_name": "WanTransformer3DModel", "attention_head_dim": 127}, ("attention_head_dim", "(43, 42, 42)")),
        ({"_class_name": "Flux2Transformer2DModel", "rope_theta": 1}, ("rope_theta",)),
        ({"_class_name": "CosmosTransformer3DModel", "rope_scale": [1, 2]}, ("rope_scale",)),
        ({"_class_name": "CosmosTransformer3DModel", "rope_scale": [1, 2, 0]}, ("rope_scale",)),
        ({"_class_name": "CosmosTransformer3DModel", "attention_head_dim": 6}, ("attention_head_dim", 6)),
        ({"_class_name": "HunyuanImageTransformer2DModel", "patch_size": [1, 1, 1]}, ("rope_axes_dim", "3 numbers")),
        (FLUX | {"axes_dims_rope": [64, 64]}, ("axes_dims_rope", "3 numbers")),
    ],
    ids=str,
)
def test_refused(config, named):
    with rejects(ValueError, *named):
        load_rope(config)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (FLUX | {"axes_dims_rope": 128}, ("axes_dims_rope",)),
        (FLUX | {"axes_dims_rope": ["16", 56, 56]}, ("axes_dims_rope",)),
        (FLUX | {"attention_head_dim": "128"}, ("attention_head_dim",)),
        ({"_class_name": "Flux2Transformer2DModel", "rope_theta": "x"}, ("rope_theta",)),
        ({"_class_name": "Lumina2Transformer2DModel", "hidden_size": "x"}, ("hidden_size",)),
        ({"_class_name": "ZImageTransformer2DModel", "n_heads": 0}, ("n_heads",)),
        ({"_class_name": "JoyImageEditTransformer3DModel", "rope_type": 1}, ("rope_type",)),
        ({"_class_name": "OmniGenTransformer2DModel"}, ("rope_scaling", "a dict")),
        ({"_class_name": "MyTransformer", "axes_dims_rope": "128"}, ("axes_dims_rope",)),
        ({"_class_name": "MyTransformer", "axes_dims_rope": [64, 64], "rope_theta": "x"}, ("rope_theta",)),
    ],
    ids=str,
)
def test_wrong_types(config, named):
    with rejects((TypeError, ValueError), *named):
        load_rope(config)


@pytest.mark.parametrize("name", ["SD3Transformer2DModel", "PixArtTransformer2DModel", "UNet2DConditionModel"])
def test_classes_without_rope(name):
    assert load_rope({"_class_name": name, "pos_embed_max_size": 96}) is None


def test_cog_video_of_two_billion_parameters_has_sinusoidal_positions():
    assert load_rope({"_class_name": "CogVideoXTransformer3DModel", "use_rotary_positional_embeddings": False}) is None


def test_layers_are_alike_and_know_their_layout():
    for options in ({"layer_type": "full_attention"}, {"layout": "half"}):
        with rejects(ValueError, next(iter(options)), "must be left out"):
            load_rope(FLUX, **options)
    with rejects(ValueError, "config", "one axis"):
        explain(FLUX)


def test_positions():
    np.testing.assert_array_equal(
        diffusers_positions(FLUX, height=2, width=2, text=2), [[0] * 6, [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1]]
    )
    lumina = {"_class_name": "Lumina2Transformer2DModel"}
    np.testing.assert_array_equal(
        diffusers_positions(lumina, height=1, width=2, text=2), [[0, 1, 2, 2], [0, 0, 0, 0], [0, 0, 0, 1]]
    )
    cog = {"_class_name": "CogView4Transformer2DModel", "attention_head_dim": 128}
    np.testing.assert_array_equal(diffusers_positions(cog, height=1, width=3), [[0, 0, 0], [0, 85, 170]])


@pytest.mark.parametrize(
    ("name", "planes"),
    [
        ("FluxTransformer2DModel", {0: [1]}),
        ("BriaFiboTransformer2DModel", {0: [1, 2]}),
        ("Flux2Transformer2DModel", {0: [10, 20]}),
        ("Flux3Transformer2DModel", {3: [-1, -2]}),
        ("JoyImageEditPlusTransformer3DModel", {0: [3, 4]}),
    ],
)
def test_reference_images_stand_behind_the_image(name, planes):
    ((axis, wanted),) = planes.items()
    tokens = {"height": 2, "width": 3, "text": 4, "frames": 3 if "3D" in name else 1}
    sizes = [(1, 2), (2, 2)][: len(wanted)]
    found = diffusers_positions({"_class_name": name}, **tokens, images=sizes)
    alone = diffusers_positions({"_class_name": name}, **tokens)
    np.testing.assert_array_equal(found[:, : alone.shape[1]], alone)
    parts = np.split(found[:, alone.shape[1] :], np.cumsum([rows * columns for rows, columns in sizes])[:-1], axis=1)
    for part, plane, (rows, columns) in zip(parts, wanted, sizes, strict=True):
        single = diffusers_positions({"_class_name": name}, height=rows, width=columns)
        np.testing.assert_array_equal(
            part - single, np.full_like(part, plane) * (np.arange(len(part)) == axis)[:, None]
        )


def test_text_of_qwen_starts_beyond_the_largest_image():
    qwen = {"_class_name": "QwenImageTransformer2DModel"}
    found = diffusers_positions(qwen, height=2, width=4, text=1, images=[(2, 8)])
    assert found[:, 0].tolist() == [4, 4, 4]
    assert found[:, -16].tolist() == [1, -1, -4]


def test_mochi_is_refused_for_a_width_that_no_encoding_has():
    with rejects(ValueError, "head_dim", "multiple of 6", 128):
        MixedRotary(head_dim=128, layout="interleaved", num_heads=24, num_axes=3)


def test_keys_of_an_unknown_class():
    with pytest.warns(UserWarning, match="`_class_name` 'MyTransformer2DModel' is unknown.*`axes_dims`"):
        found = load_rope({"_class_name": "MyTransformer2DModel", "axes_dims": [16, 24, 24], "rope_theta": 500})
    assert found == AxialRotary(head_dim=64, layout="interleaved", axes_dims=(16, 24, 24), base=500)
    with rejects(ValueError, "_class_name", "is not known"):  # lengths, and not channels
        load_rope({"_class_name": "MyTransformer2DModel", "axes_dims": [256, 256], "attention_head_dim": 40})


def test_tokens_in_a_row_and_the_width_of_all_heads():
    assert load_rope({"_class_name": "StableAudioDiTModel"}) == Rotary(head_dim=64, layout="half", rotary_dim=32)
    ltx = load_rope({"_class_name": "LTXVideoTransformer3DModel", "num_attention_heads": 2, "attention_head_dim": 10})
    wanted = {"head_dim": 20, "layout": "interleaved", "rotary_dim": 18, "placement": "trail"}
    rising = np.repeat(np.pi / 2 * 10000 ** np.array([0, 0.5, 1]), 3)
    assert ltx == MultimodalRotary(**wanted, arrangement=(0, 1, 2) * 3, frequencies=rising)


@pytest.mark.parametrize(
    ("config", "tokens", "named"),
    [
        (FLUX, {"height": 0}, ("height",)),
        (FLUX, {"text": -1}, ("text",)),
        (FLUX, {"fps": 24}, ("fps",)),
        ({"_class_name": "WanTransformer3DModel"}, {"text": 1}, ("text", 1)),
        ({"_class_name": "WanTransformer3DModel"}, {"height": 1025}, ("rope_max_seq_len",)),
        ({"_class_name": "HunyuanDiT2DModel"}, {"frames": 2}, ("frames",)),
        ({"_class_name": "QwenImageTransformer2DModel", "use_layer3d_rope": True}, {}, ("use_layer3d_rope",)),
        ({"_class_name": "SD3Transformer2DModel"}, {}, ("config", "rotates nothing")),
        ({"_class_name": "CosmosTransformer3DModel"}, {"fps": 0}, ("fps",)),
        ({"_class_name": "AceStepTransformer1DModel"}, {}, ("config", "in a row")),
        ({"_class_name": "Cosmos3OmniTransformer"}, {}, ("config", "from its pipeline")),
        (FLUX, {"images": [(2, 2), (2, 2)]}, ("images", "at most 1", 2)),
        (FLUX, {"images": [(2, 2, 2)]}, ("images", (2, 2, 2))),
        (FLUX, {"images": [(2, 0)]}, ("images", 0)),
        ({"_class_name": "WanTransformer3DModel"}, {"images": [(2, 2)]}, ("images", "at most 0", 1)),
        ({"_class_name": "QwenImageTransformer2DModel"}, {"images": [(2**16, 2**16)]}, ("images", "2**31")),
    ],
    ids=str,
)
def test_wrong_tokens(config, tokens, named):
    with rejects(ValueError, *named):
        diffusers_positions(config, **{"height": 2, "width": 2} | tokens)


def test_the_config_of_a_model_without_its_class_is_refused():
    """It is a dict of a class of its own; only the file of the model has the name of its class."""
    live = type("FrozenDict", (dict,), {"__module__": "diffusers.configuration_utils"})
    fields = {key: value for key, value in FLUX.items() if key != "_class_name"}
    with rejects(ValueError, "config", "_class_name", "type(model).__name__, **model.config"):
        load_rope(live(fields))
    assert load_rope(live(FLUX)) == load_rope({"_class_name": "FluxTransformer2DModel", **live(fields)})


def test_two_of_them_are_compared():
    assert compare_rope(FLUX, {"_class_name": "ChromaTransformer2DModel"}).same
    (layers,) = compare_rope(FLUX, {"_class_name": "BriaTransformer2DModel", "rope_theta": 500}).layers
    assert [(cause.key, cause.a, cause.b, cause.b_from) for cause in layers.causes] == [
        ("rope_theta", 10000, 500, "rope_theta")
    ]
    (layers,) = compare_rope(FLUX, FLUX | {"axes_dims_rope": [32, 48, 48]}).layers
    assert [cause.key for cause in layers.causes] == ["axes_dims"]
    (layers,) = compare_rope(FLUX, {"model_type": "llama", "head_dim": 128}).layers
    assert not layers.same
    assert "axes" in [one.name for one in layers.properties]


def test_an_axis_of_cosmos_has_4_channels_or_more():
    config = {"_class_name": "CosmosTransformer3DModel", "attention_head_dim": 12}
    assert load_rope(config).axes_dims == (4, 4, 4)
    with rejects(ValueError, "attention_head_dim", 10):
        load_rope(config | {"attention_head_dim": 10})
