"""The numbers between a config and its positions or sections, beside the plainest counts of them."""

from itertools import product

import numpy as np
import pytest

from posenc_core.huggingface import multimodal
from posenc_core.huggingface.facts.models import MODELS
from posenc_core.huggingface.parameters import complete_parameters
from posenc_core.huggingface.sections import fill_interleaved, spread
from posenc_core.huggingface.timm import timm_positions

from ..errors import rejects

OMNI = MODELS["qwen2_5_omni"].prompt


@pytest.mark.parametrize(
    "sections", [*product(range(1, 6), range(1, 6), range(4)), (3, 5), (1, 1), (8, 2), (7, 0)], ids=str
)
def test_axes_that_are_spread(sections):
    """Each axis has its pairs; three axes end with one of time; no axis follows itself while others are left."""
    axes = spread(sections)
    assert [axes.count(axis) for axis in range(len(sections))] == list(sections)
    timed = len(sections) == 3
    inner = axes[:-1] if timed else axes
    assert not timed or axes[-1] == 0
    for index in range(1, len(inner)):
        assert inner[index] != inner[index - 1] or set(inner[index:]) == {inner[index]}
    if len({*sections}) == 1 and not timed:
        assert axes == tuple(range(len(sections))) * sections[0]


@pytest.mark.parametrize("pairs", [1, 2, 3, 8, 16, 32])
def test_sections_of_timm(pairs):
    for time, height, width in product((0, 1, 4, 8), (0, 2, 5, 12), (0, 1, 3, 12)):
        wanted = [
            sum(pair % 3 == axis and pair < 3 * given for pair in range(pairs))
            for axis, given in ((1, height), (2, width))
        ]
        assert fill_interleaved("rope_mrope_section", (time, height, width), pairs) == (pairs - sum(wanted), *wanted)


@pytest.mark.parametrize("given", [(1, 2), (1, 2, 3, 4), (1, -1, 2), 3], ids=str)
def test_other_sections_of_timm(given):
    with rejects(ValueError, "rope_mrope_section"):
        fill_interleaved("rope_mrope_section", given, 8)


@pytest.mark.parametrize("kind", ["cat", "dinov3", "mrope", "mixed"])
@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_positions_of_timm(kind, indexing):
    config = {
        "architecture": "of_ones_own", "use_rot_pos_emb": True, "rope_type": kind, "embed_dim": 48, "num_heads": 3,
        **({"rope_grid_offset": 0.25} if kind in ("cat", "dinov3") else {}),
        **({"ref_feat_shape": (6, 10)} if kind == "cat" else {}),
        "rope_grid_indexing": "ij" if kind == "mrope" else indexing,
    }  # fmt: skip
    found = timm_positions(config, height=3, width=4)
    for token, (row, column) in enumerate(product(range(3), range(4))):
        place = {
            "cat": ((row + 0.25) * 6 / 3, (column + 0.25) * 10 / 4),
            "dinov3": (2 * (row + 0.5 + 0.25) / 3 - 1, 2 * (column + 0.5 + 0.25) / 4 - 1),
            "mixed": (row, column),
            "mrope": (0, row, column),
        }[kind]
        place = place[::-1] if indexing == "xy" and kind != "mrope" else place
        np.testing.assert_allclose(found[:, token], place, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("config", "positions"),
    [({}, 50), ({"seconds_per_chunk": 0.1}, 2), ({"seconds_per_chunk": 0.01}, 1), ({"seconds_per_chunk": 4}, 100)],
)
def test_chunks_of_videos_with_audio(config, positions):
    config = {"position_id_per_seconds": 25} | config
    assert multimodal._chunk(config, OMNI) == positions
    assert multimodal._chunk(config, OMNI._replace(audio=None)) == 1
    with rejects(ValueError, "seconds_per_chunk"):
        multimodal._chunk(config | {"seconds_per_chunk": 0}, OMNI)


def test_hunyuan_has_an_axis_for_each_section_and_four_without():
    assert multimodal._num_axes({"model_type": "hunyuan_vl"}) == 4
    for sections in ((4, 4, 4), (2,) * 5):
        config = {"model_type": "hunyuan_vl", "rope_scaling": {"xdrope_section": list(sections)}}
        assert multimodal._num_axes(config) == len(sections)


def test_grids_are_merged_whole():
    assert multimodal._merge_grid("x", (4, 6, 9), 2, 3) == (2, 2, 3)
    for grid in ((3, 6, 9), (4, 5, 9), (4, 6, 8)):
        with rejects(ValueError, "x", "(2, 3, 3)"):
            multimodal._merge_grid("x", grid, 2, 3)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 0.1, 1 / 3, 2.7])
@pytest.mark.parametrize("rate", [1, 2, 25])
def test_times_of_frames_are_those_of_float32(seconds, rate):
    single = np.float32
    for frame, (first, later) in enumerate(
        zip(
            multimodal._times(OMNI, 5, rate, seconds),
            multimodal._times(MODELS["qwen2_5_vl"].prompt, 5, rate, seconds),
            strict=True,
        )
    ):
        assert first == int(single(single(frame) * single(seconds)) * single(rate))
        assert later == int(single(frame) * single(seconds * rate))


@pytest.mark.parametrize("kind", ["image", "video"])
def test_tokens_have_numbers_from_0(kind):
    for key in (f"{kind}_token_id", f"{kind}_token_index", f"{kind}_patch_token"):
        assert multimodal._token({key: 0}, kind) == 0
        with rejects(ValueError, key, -1):
            multimodal._token({key: -1}, kind)
    with rejects(ValueError, f"{kind}_token_id", "missing"):
        multimodal._token({}, kind)


@pytest.mark.parametrize(
    ("size", "heads", "width"), [(768, 12, 32), (2048, 16, 64), (1024, 16, 32), (2112, 16, 66), (4096, 16, 128)]
)
def test_clvp_rotates_half_of_a_head_and_at_least_32_channels(size, heads, width):
    config = {
        "model_type": "clvp_encoder",
        "use_rotary_embedding": True,
        "projection_dim": size,
        "num_attention_heads": heads,
    }
    given = {"rope_theta": 10000.0}
    assert complete_parameters(given, config, by_layer_type=False, layer_type=None)["rotary_dim"] == width


def test_the_ratio_of_chatglm_multiplies_its_base():
    for ratio, base in ((1, 10000), (0.5, 5000), (50, 500000)):
        found = complete_parameters(
            {}, {"model_type": "chatglm", "rope_ratio": ratio}, by_layer_type=False, layer_type=None
        )
        assert found["rope_theta"] == base
    with rejects(ValueError, "rope_ratio"):
        complete_parameters({}, {"model_type": "chatglm", "rope_ratio": 0}, by_layer_type=False, layer_type=None)
