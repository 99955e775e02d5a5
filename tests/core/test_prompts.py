"""Positions of prompts with images and videos from the configs of models, written out."""

import math

import numpy as np
import pytest

from posenc_core.huggingface import multimodal_positions

from ..errors import rejects

SQUARE = {"patch_size": 14, "spatial_merge_size": 2}
ONE_VIDEO = {"video_grid_thw": [(1, 2, 2)]}
VIDEO = {"vision_config": SQUARE | {"tokens_per_second": 2}, "image_token_id": 91, "video_token_id": 92}


def test_prompts_of_several_rows_with_padding():
    """Two words, a video of two frames of 1 × 2, a word; and three words, an image of 2 × 1."""
    ids = [[0, 5, 5, 92, 92, 92, 92, 5], [5, 5, 5, 91, 91, 0, 0, 0]]
    found = multimodal_positions(
        {"model_type": "qwen2_5_vl", **VIDEO},
        ids,
        image_grid_thw=[(1, 4, 2)],
        video_grid_thw=[(2, 2, 4)],
        second_per_grid_ts=[1.5],
        attention_mask=np.array(ids) != 0,
    )
    first = [[0, 0, 1, 2, 2, 5, 5, 4], [0, 0, 1, 2, 2, 2, 2, 4], [0, 0, 1, 2, 3, 2, 3, 4]]
    second = [[0, 1, 2, 3, 3, 0, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0], [0, 1, 2, 3, 3, 0, 0, 0]]
    np.testing.assert_array_equal(found.positions, np.stack([first, second], axis=1))
    np.testing.assert_array_equal(found.delta, [5 + 1 - 8, 4 + 1 - 8])


def test_images_need_no_rate_of_videos():
    config = {"model_type": "qwen2_5_vl", **VIDEO, "vision_config": SQUARE}
    found = multimodal_positions(config, [5, 91, 91, 5], image_grid_thw=[(1, 2, 4)])
    np.testing.assert_array_equal(found.positions, [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]])


def test_a_token_of_images_may_be_0():
    config = {"model_type": "qwen2_vl", **VIDEO, "image_token_id": 0}
    found = multimodal_positions(config, [5, 0, 0, 5], image_grid_thw=[(1, 2, 4)])
    np.testing.assert_array_equal(found.positions[2], [0, 1, 2, 3])


def test_after_the_largest_position_as_in_transformers_4():
    config = {"model_type": "qwen2_vl", **VIDEO}
    arguments = {"video_grid_thw": [(4, 2, 2)], "after": "largest"}
    found = multimodal_positions(config, [5, 92, 92, 92, 92, 5], **arguments)
    np.testing.assert_array_equal(found.positions[0], [0, 1, 2, 3, 4, 5])
    found = multimodal_positions(config, [5, 92, 92, 92, 92, 5], **arguments | {"after": None})
    np.testing.assert_array_equal(found.positions[0], [0, 1, 2, 3, 4, 2])


def test_frames_between_timestamps():
    """GLM-4V: the frames of a video have the token of images, between the tokens of a video."""
    config = {"model_type": "glm4v", **VIDEO, "video_start_token_id": 93, "video_end_token_id": 94}
    ids = [93, 91, 5, 91, 94, 91]
    found = multimodal_positions(config, ids, image_grid_thw=[(1, 2, 2)], video_grid_thw=[(2, 2, 2)])
    np.testing.assert_array_equal(found.positions, np.tile(np.arange(6), (3, 1)))


def test_frames_of_openpangu_have_two_tokens_between_them():
    """Both tokens count as text, as in vLLM, which goes on after the longer side of a frame."""
    config = {"model_type": "openpangu_vl", **VIDEO}
    found = multimodal_positions(config, [5, 92, 92, 7, 8, 92, 92, 5], video_grid_thw=[(2, 2, 4)])
    of_time, of_width = [0, 1, 1, 3, 4, 5, 5, 7], [0, 1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_array_equal(found.positions, [of_time, of_time, of_width])
    assert found.delta == 0
    found = multimodal_positions(config, [5, 91, 91, 5], image_grid_thw=[(1, 4, 2)])
    np.testing.assert_array_equal(found.positions, [[0, 1, 1, 3], [0, 1, 2, 3], [0, 1, 1, 3]])


@pytest.mark.parametrize(
    ("change", "ids", "arguments", "kind", "names"),
    [
        ({"model_type": "llama"}, [5], {}, ValueError, ("model_type", "'llama'")),
        ({"image_token_id": None}, [5], {}, ValueError, ("image_token_id",)),
        ({"image_token_id": -1}, [5], {}, ValueError, ("image_token_id", "-1")),
        ({"vision_config": {"spatial_merge_size": 0}}, [5], {}, ValueError, ("spatial_merge_size", "0")),
        ({"vision_config": {}}, [92], ONE_VIDEO, ValueError, ("tokens_per_second",)),
        ({}, [5], {"attention_mask": [[1, 2], [3]]}, ValueError, ("attention_mask", "[[1, 2], [3]]")),
        ({}, [5], {"attention_mask": [1.0]}, TypeError, ("attention_mask", "float64")),
        ({}, [5.0], {}, TypeError, ("input_ids", "float64")),
        ({}, 5, {}, ValueError, ("input_ids", "()")),
        ({}, [5], {"attention_mask": [1, 1]}, ValueError, ("attention_mask", "(2,)")),
        ({}, [91], {}, ValueError, ("image_grid_thw",)),
        ({}, [5], {"image_grid_thw": [(1, 2, 2)]}, ValueError, ("image_grid_thw",)),
        ({}, [91, 5], {"image_grid_thw": [(1, 2, 4)]}, ValueError, ("image_grid_thw", "2")),
        ({}, [91], {"image_grid_thw": [(1, 2, 3)]}, ValueError, ("image_grid_thw", "(1, 2, 3)")),
        ({}, [91], {"image_grid_thw": [(1, 2, 2, 2)]}, ValueError, ("image_grid_thw", "[[1, 2, 2, 2]]")),
        ({}, [92], ONE_VIDEO | {"second_per_grid_ts": [1, 2]}, ValueError, ("second_per_grid_ts",)),
        (
            {},
            [92],
            {"video_grid_thw": [(1, 2, 2)], "second_per_grid_ts": [-1]},
            ValueError,
            ("second_per_grid_ts", "-1"),
        ),
        (
            {},
            [92],
            {"video_grid_thw": [(1, 2, 2)], "second_per_grid_ts": [math.nan]},
            ValueError,
            ("second_per_grid_ts", "nan"),
        ),
        ({"model_type": "qwen2_vl"}, [5], {"second_per_grid_ts": [1]}, ValueError, ("second_per_grid_ts", "[1]")),
        ({}, [5], {"after": "text"}, ValueError, ("after", "'text'")),
    ],
)
def test_other_prompts_are_refused(change, ids, arguments, kind, names):
    with rejects(kind, *names):
        multimodal_positions({"model_type": "qwen2_5_vl", **VIDEO} | change, ids, **arguments)
