"""Positions of text, images, videos and audio, beside numbers recorded from the published code of single models."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from posenc_core import MultimodalRotary
from posenc_core.huggingface import multimodal_positions
from posenc_core.huggingface.multimodal import _diagonal_positions
from posenc_core.positions import Block, centered, diagonal, indexed, multimodal, with_audio

from ..errors import rejects

RECORDED = json.loads(Path(__file__).with_name("recorded_positions.json").read_text(encoding="utf-8"))
OMNI = {
    "model_type": "qwen2_5_omni_thinker", "image_token_id": 21, "video_token_id": 22, "audio_token_id": 23,
    "position_id_per_seconds": 25, "seconds_per_chunk": 2, "vision_config": {"spatial_merge_size": 1},
}  # fmt: skip
HUNYUAN = {"model_type": "hunyuan_vl", "image_token_id": 21, "vision_config": {"spatial_merge_size": 2}}


def segments_of(case):
    return [tuple(one) if isinstance(one, list) else one for one in case["segments"]]


@pytest.mark.parametrize("case", RECORDED["videorope"], ids=lambda case: f"{case['segments']}, {case['spacing']}")
def test_videorope(case):
    positions, delta = diagonal(segments_of(case), spacing=case["spacing"])
    np.testing.assert_array_equal(positions, case["positions"])
    assert delta == case["delta"]
    assert positions.dtype == (np.int64 if case["spacing"] % 1 == 0 else np.float64)


@pytest.mark.parametrize("case", RECORDED["hunyuan_image_3"], ids=lambda case: str(case["segments"]))
def test_hunyuan_image_3(case):
    positions, delta = centered(segments_of(case))
    np.testing.assert_array_equal(positions, case["positions"])
    assert (positions.dtype, delta) == (np.int64, 0)


@pytest.mark.parametrize("case", RECORDED["hunyuan_image_3"], ids=lambda case: str(case["segments"]))
def test_prompts_of_hunyuan_image_3(case):
    config, segments = {"model_type": "hunyuan_image_3_moe", "image_token_id": 9}, segments_of(case)
    ids = [token for each in segments for token in ([5] * each if isinstance(each, int) else [9] * math.prod(each))]
    grids = [(1, *each) for each in segments if not isinstance(each, int)]
    positions, delta = multimodal_positions(config, ids, image_grid_thw=grids)
    np.testing.assert_array_equal(positions, case["positions"])
    padded = multimodal_positions(config, [[0, *ids]], image_grid_thw=grids, attention_mask=[[0] + [1] * len(ids)])
    np.testing.assert_array_equal(padded.positions[:, 0, 1:], case["positions"])
    assert (delta, padded.delta) == (0, -1)
    with rejects(ValueError, "image_grid_thw", 2):
        multimodal_positions(config, ids, image_grid_thw=[(2, 2, 2)])
    with rejects(ValueError, "image_grid_thw", "fewer"):
        multimodal_positions(config, ids)


@pytest.mark.parametrize("case", RECORDED["ming"], ids=lambda case: f"{case['images']}, {case['videos']}")
def test_prompts_of_ming(case):
    llm = {"model_type": "bailing_moe_v2", "image_patch_token": 21, "video_patch_token": 22}
    config = {"llm_config": llm | {"rope_scaling": {"factor": None, "type": "video_rope"}}}
    grids = {"image_grid_thw": case["images"], "video_grid_thw": case["videos"]}
    given = {name: grid for name, grid in grids.items() if grid}
    if case["seconds"]:
        given["second_per_grid_ts"] = np.float32(case["seconds"])
    positions, delta = multimodal_positions(config, case["ids"], **given)
    np.testing.assert_array_equal(positions, case["positions"])
    assert (positions.dtype, delta) == (np.int64, case["delta"])
    missing = (
        "video_grid_thw"
        if case["videos"] and case["ids"].index(22) < [*case["ids"], 21].index(21)
        else "image_grid_thw"
    )
    with rejects(ValueError, missing, "fewer"):
        multimodal_positions(config["llm_config"], case["ids"])
    with rejects(ValueError, "rope_type", "'3D'"):
        multimodal_positions(llm | {"rope_scaling": {"type": "3D"}}, case["ids"], **given)


def test_the_pairs_of_videorope_are_those_of_ernie():
    rotary = MultimodalRotary(head_dim=128, layout="half", sections=(24, 24, 16), arrangement="ernie")
    assert rotary.axes == (1, 2) * 24 + (0,) * 16  # `apply_m_modify_multimodal_rotary_pos_emb` of its code
    assert rotary.cos_sin(diagonal([1, (2, 2, 3)], spacing=0.5).positions)[0].shape == (13, 64)


def test_sound_and_pictures_alternate_by_time():
    """Frames of 2 tokens at 0, 30, 60 and 110, and 70 tokens of audio: chunks of 50 positions."""
    positions, size = with_audio(4, 1, 2, interval=(0, 30, 60, 110), audio=70)
    times = [0, 0, 30, 30, *range(50), 60, 60, *range(50, 70), 110, 110]
    np.testing.assert_array_equal(positions[0], times)
    np.testing.assert_array_equal(positions[1][:4], [0, 0, 0, 0])
    assert size == 111
    whole = multimodal([3, Block(positions, size), 2])
    np.testing.assert_array_equal(whole.positions[:, 3:-2], positions + 3)
    np.testing.assert_array_equal(whole.positions[:, -2:], [[114, 115]] * 3)


def test_what_follows_audio_starts_after_its_last_chunk():
    """A single picture of 9 columns and then 4 tokens of audio: the model goes on from the audio."""
    assert with_audio(1, 1, 9, audio=4).size == 4


def test_a_jump_over_several_chunks_leaves_one_token_in_each():
    times = with_audio(2, 1, 4, interval=150, audio=3).positions[0]
    assert times.tolist() == [0, 0, 0, 0, 0, 1, 2, 150, 150, 150, 150]
    alone = with_audio(2, 1, 4, interval=150, audio=120).positions[0]
    assert alone.tolist() == [*[0] * 4, *range(50), 150, *range(50, 100), 150, *range(100, 120), 150, 150]


def test_a_prompt_of_omni_with_a_film():
    """Two frames 4 seconds apart; the two tokens at each end of the film have one position."""
    ids = [5, 11, 15, 22, 22, *[23] * 50, 22, *[23] * 20, 22, 16, 12, 5]
    found = multimodal_positions(OMNI, ids, video_grid_thw=[[2, 1, 2]], second_per_grid_ts=[4.0])
    assert found.positions[0].tolist() == [
        *(0, 1, 1, 2, 2), *range(2, 52), 102, *range(52, 72), 102, 103, 103, 104
    ]  # fmt: skip
    assert found.delta == 105 - len(ids)


@pytest.mark.parametrize(
    "ids",
    [
        [5, 11, 15, 22, 23, 22, 16, 12],  # sound before the first frame is over
        [5, 11, 15, 22, 22, 23, 22, 16, 12],  # one token of video too many
        [5, 11, 15, 22, 23, 16, 12],  # one too few
    ],
)
def test_a_film_in_another_order_is_refused(ids):
    with rejects(ValueError, "video_grid_thw", "3"):
        multimodal_positions(OMNI, ids, video_grid_thw=[[1, 1, 2]], second_per_grid_ts=[1.0])


def test_images_of_hunyuan_have_a_token_for_each_new_line():
    whole = indexed([2, (1, 2), 1])
    for around in (0, 2):  # the tokens around an image may be its own
        ids = [5] * (2 - around // 2) + [21] * (3 + around) + [5] * (1 - around // 2)
        found = multimodal_positions(HUNYUAN, ids, image_grid_thw=[[1, 2, 4]])
        np.testing.assert_array_equal(found.positions, whole.positions)
        assert found.delta == 0
    rope = {"rope_scaling": {"type": "xdrope", "xdrope_section": [8, 4, 4]}}
    assert multimodal_positions(HUNYUAN | rope, [5, 5]).positions.shape == (3, 2)
    with rejects(ValueError, "image_grid_thw", "3"):
        multimodal_positions(HUNYUAN, [5, 21, 5], image_grid_thw=[[1, 2, 4]])
    with rejects(ValueError, "image_grid_thw"):
        multimodal_positions(HUNYUAN, [5, 21, 21, 21])
    assert indexed([2, (1, 2), 1], num_axes=5).positions.shape == (5, 6)


BAD = {
    "text": (diagonal, {"segments": "ab"}, TypeError, ("segments", "'ab'")),
    "four sizes": (diagonal, {"segments": [(1, 2, 3, 4)]}, ValueError, ("segments", "(1, 2, 3, 4)")),
    "a real length": (diagonal, {"segments": [1.5]}, TypeError, ("segments", "1.5")),
    "no frames": (diagonal, {"segments": [(0, 2, 3)]}, ValueError, ("segments", "0")),
    "no spacing": (diagonal, {"segments": [1], "spacing": 0}, ValueError, ("spacing", "0")),
    "endless": (diagonal, {"segments": [1], "spacing": float("inf")}, ValueError, ("spacing", "inf")),
    "too far apart": (diagonal, {"segments": [(3, 1, 1)], "spacing": 2.0**31}, ValueError, ("spacing", "2147483648.0")),
    "three sizes": (centered, {"segments": [(1, 2, 3)]}, ValueError, ("segments", "(1, 2, 3)")),
    "a negative length": (centered, {"segments": [-1]}, ValueError, ("segments", "-1")),
    "too many cells": (centered, {"segments": [(2**20, 2**20)]}, ValueError, ("sizes",)),
    "two axes": (indexed, {"segments": [1], "num_axes": 2}, ValueError, ("num_axes", "2")),
    "real axes": (indexed, {"segments": [1], "num_axes": 4.5}, TypeError, ("num_axes", "4.5")),
    "no audio": (with_audio, {"audio": 0}, ValueError, ("audio", "0")),
    "real audio": (with_audio, {"audio": 1.5}, TypeError, ("audio", "1.5")),
    "no chunk": (with_audio, {"audio": 1, "chunk": 0}, ValueError, ("chunk", "0")),
    "a negative interval": (with_audio, {"audio": 1, "interval": -1}, ValueError, ("interval", "-1")),
    "real positions": (multimodal, {"segments": [Block(np.zeros((3, 1)), 1)]}, TypeError, ("segments", "float64")),
    "two rows": (multimodal, {"segments": [Block(np.zeros((2, 1), int), 1)]}, ValueError, ("segments", "(2, 1)")),
    "a negative size": (multimodal, {"segments": [Block(np.zeros((3, 1), int), -1)]}, ValueError, ("segments", "-1")),
    "far positions": (
        multimodal, {"segments": [Block(np.full((3, 1), 2**31), 1)]}, ValueError, ("segments", "2147483648"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    make, arguments, error, named = BAD[name]
    with rejects(error, *named):
        make(*((1, 1, 2) if make is with_audio else ()), **arguments)


@pytest.mark.parametrize(
    "segments", [[(1, 2, 3)], [(2, 3, 2), 2], [3, (1, 2, 2), (2, 1, 4), 1], [2, 2, (1, 1, 1)]], ids=str
)
def test_prompts_of_ming_whose_frames_are_a_position_apart(segments):
    """Its arithmetic counts the text before an image as that of VideoRoPE does, also if there is none."""
    timed = [(*one, range(one[0])) if isinstance(one, tuple) else one for one in segments]
    found, expected = _diagonal_positions(iter(merged_texts(timed))), diagonal(segments, spacing=1)
    np.testing.assert_array_equal(found.positions, expected.positions)
    assert found.delta == expected.delta


def merged_texts(segments):
    """Return segments with neighbouring texts as one, as a prompt has them."""
    merged = []
    for one in segments:
        if merged and isinstance(one, int) and isinstance(merged[-1], int):
            merged[-1] += one
        else:
            merged.append(one)
    return merged


def test_sound_of_another_segment_leaves_two_tokens_before_an_image_apart():
    """Two tokens share a position only before a video whose own audio follows."""
    ids = [5, 5, 22, 22, 6, 23, 21, 7, 23]
    found = multimodal_positions(OMNI, ids, video_grid_thw=[[1, 1, 2]], image_grid_thw=[[1, 1, 1]])
    assert found.positions[0].tolist() == [0, 1, 2, 2, 4, 5, 6, 7, 8]
    assert found.positions[2].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
