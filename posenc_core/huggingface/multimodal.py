"""M-RoPE: the positions of text, images and videos in one prompt, as multimodal models of transformers count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_known, check_number, shown
from ..positions import After, Multimodal, Segment, multimodal
from .config import contents
from .parts import is_tower, part_of
from .sizes import array_of, grids_of, integers_of, size_of
from .towers import TOWERS

Vision: TypeAlias = tuple[int, int, int] | tuple[int, int, int, tuple[int, ...]]


class Family(NamedTuple):
    """How models make segments of a prompt.

    Attributes:
        split: whether each frame of a video is a grid of its own, because text with its time is before it.
        shared: whether videos have the token of images, between a start and an end token.
        rate: the key of the positions per second of videos.
        seconds_first: whether the number of a frame is multiplied by the seconds first, and rounded to float32, before
            it is multiplied by the rate.
        merged: the key of the number of frames that are merged.
        after: as in `multimodal`.
    """

    split: bool = False
    shared: bool = False
    rate: str | None = None
    seconds_first: bool = False
    merged: str | None = None
    after: After = "spatial"


_SPLIT, _GLM = Family(split=True), Family(split=True, shared=True)
_OMNI = Family(rate="position_id_per_seconds", seconds_first=True, after="largest")
FAMILIES = {
    "cohere_compass": _SPLIT,
    "cosmos3_edge": _SPLIT,
    "cosmos3_omni": _SPLIT,
    "ernie4_5_vl_moe": Family(merged="temporal_merge_size"),
    "glm46v": _GLM,
    "glm4v": _GLM,
    "glm4v_moe": _GLM,
    "glm_ocr": _GLM,
    "paddleocr_vl": Family(),
    "qwen2_5_omni": _OMNI,
    "qwen2_5_omni_thinker": _OMNI,
    "qwen2_5_vl": Family(rate="tokens_per_second"),
    "qwen2_vl": Family(),
    "qwen3_5": _SPLIT,
    "qwen3_5_moe": _SPLIT,
    "qwen3_vl": _SPLIT,
    "qwen3_vl_moe": _SPLIT,
    "qwen4_exp": _SPLIT,
}
TEXT, IMAGE, VIDEO = 0, 1, 2


def multimodal_positions(
    config: Any,
    input_ids: Any,
    *,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    second_per_grid_ts: Any = None,
    attention_mask: Any = None,
    after: After | None = None,
) -> Multimodal:
    """Return the positions (time, height, width) of the tokens of prompts with images and videos, for `load_rope`.

    Args:
        config: the whole config, as in `load_rope`: it has the tokens of images and videos.
        input_ids: token ids, shape `(length,)` or `(batch, length)`; a list, or an array that NumPy can read.
        image_grid_thw, video_grid_thw: `(frames, height, width)` of each image and each video of all prompts in order,
            in patches before they are merged, as the processor of the model returns them.
        second_per_grid_ts: the seconds between the frames of each video, 1 by default; for Qwen2.5-VL and Qwen2.5-Omni.
        attention_mask: 1 or True for a real token, 0 or False for padding, in the shape of `input_ids`; by default all
            are real. Padding has position 0.
        after: as in `multimodal`. The default is what transformers 5.23 does for this model: `"spatial"`, and
            `"largest"` for Qwen2.5-Omni. transformers 4 had `"largest"` for all.
    Returns:
        Positions, int64, shape `(3, length)` or `(3, batch, length)`, and one delta for each row: the position of the
        next token is the number of tokens before it, padding included, plus the delta. In `rope_deltas` of transformers
        5, padding is not included.
    Raises:
        TypeError: if ids or grids are not integers.
        ValueError: if the model is unknown, a key is missing, or tokens and grids do not belong together, as with audio
            between the frames of a video.
        OSError: if there is no such file.
    Source: `get_rope_index` of the models in transformers 5.23.

    >>> config = {"model_type": "qwen2_vl", "image_token_id": 9, "video_token_id": 8}
    >>> config["vision_config"] = {"patch_size": 14, "spatial_merge_size": 2}
    >>> multimodal_positions(config, [1, 9, 9, 2], image_grid_thw=[[1, 2, 4]]).positions
    array([[0, 1, 1, 3],
           [0, 1, 1, 3],
           [0, 1, 2, 3]])
    """
    if after is not None:
        check_known("after", after, ("largest", "spatial"))
    content = contents(config)
    content = part_of(content, "thinker") if "thinker_config" in content else content
    name = content.get("model_type")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise ValueError(
            f"`model_type` must be that of a known model with M-RoPE, such as 'qwen2_vl', got {shown(name)}."
        )
    ids = integers_of("input_ids", input_ids)
    if ids.ndim not in (1, 2):
        raise ValueError(f"`input_ids` must have shape (length,) or (batch, length), got {ids.shape}.")
    is_real = np.ones_like(ids, bool) if attention_mask is None else array_of("attention_mask", attention_mask)
    if is_real.dtype.kind not in "biu":
        raise TypeError(f"`attention_mask` must be booleans or integers, got {is_real.dtype}.")
    is_real = is_real.astype(bool)
    if is_real.shape != ids.shape:
        raise ValueError(f"`attention_mask` must have the shape {ids.shape} of `input_ids`, got {is_real.shape}.")
    vision = part_of(content, "vision")
    vision = TOWERS[vision["model_type"]].completed(vision) if is_tower(vision) else vision
    images = grids_of("image_grid_thw", [] if image_grid_thw is None else image_grid_thw)
    merge = size_of(vision, "spatial_merge_size")
    grids = {
        IMAGE: iter([_merged("image_grid_thw", grid, 1, merge) for grid in images]),
        VIDEO: iter(_videos(content | vision, family, video_grid_thw, second_per_grid_ts)),
    }
    kinds = _kinds(content, family, ids)
    rows = []
    for row, real in zip(np.atleast_2d(kinds), np.atleast_2d(is_real), strict=True):
        found = multimodal(_segments(row[real].tolist(), grids), after=after or family.after)
        positions = np.zeros((3, row.size), np.int64)
        positions[:, real] = found.positions
        rows.append(Multimodal(positions, found.delta + found.positions.shape[1] - row.size))
    for kind, key in ((IMAGE, "image_grid_thw"), (VIDEO, "video_grid_thw")):
        if next(grids[kind], None) is not None:
            raise ValueError(f"`{key}` must have one grid for each image or video in `input_ids`, got more of them.")
    if ids.ndim == 1:
        return rows[0]
    positions = np.stack([row.positions for row in rows], axis=1)
    return Multimodal(positions, np.array([row.delta for row in rows], np.int64))


def _segments(kinds: list[int], grids: Mapping[int, Iterator[Vision]]) -> Iterator[Segment]:
    """Yield the segments of one prompt: the lengths of its text, and the grids between them."""
    at = 0
    while at < len(kinds):
        length = 0
        while at + length < len(kinds) and kinds[at + length] == TEXT:
            length += 1
        if length:
            yield length
        else:
            key = "image_grid_thw" if kinds[at] == IMAGE else "video_grid_thw"
            grid = next(grids[kinds[at]], None)
            if grid is None:
                raise ValueError(f"`{key}` must have one grid for each image or video in `input_ids`, got fewer.")
            length = int(np.prod(grid[:3]))
            if kinds[at : at + length] != [kinds[at]] * length:
                raise ValueError(f"`{key}` must be that of the tokens in `input_ids`, which are not {length} in a row.")
            yield grid
        at += length


def _kinds(config: Mapping[str, Any], family: Family, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return whether each token is text, or a part of an image or a video."""
    is_image = ids == _token(config, "image")
    if not family.shared:
        return np.where(is_image, IMAGE, np.where(ids == _token(config, "video"), VIDEO, TEXT))
    starts, ends = (np.cumsum(ids == _token(config, f"video_{edge}"), axis=-1) for edge in ("start", "end"))
    return np.where(is_image, np.where(starts > ends, VIDEO, IMAGE), TEXT)


def _token(config: Mapping[str, Any], kind: str) -> int:
    for key in (f"{kind}_token_id", f"{kind}_token_index"):
        if config.get(key) is not None:
            return size_of(config, key, minimum=0)
    raise ValueError(f"`{kind}_token_id` is missing: add it to the config.")


def _videos(config: Mapping[str, Any], family: Family, grid_thw: Any, seconds: Any) -> Sequence[Vision]:
    """Return the segments of all videos: one, or one for each frame."""
    merge = size_of(config, "spatial_merge_size")
    frames = size_of(config, family.merged) if family.merged else 1
    videos = grids_of("video_grid_thw", [] if grid_thw is None else grid_thw)
    grids = [_merged("video_grid_thw", grid, frames, merge) for grid in videos]
    if seconds is not None and family.rate is None:
        raise ValueError(f"`second_per_grid_ts` must be None for this model, got {shown(seconds)}.")
    if family.split:
        return [(1, *grid[1:]) for grid in grids for _ in range(grid[0])]
    if family.rate is None or (seconds is None and not grids):
        return grids
    rate = size_of(config, family.rate)
    times = np.ones(len(grids)) if seconds is None else array_of("second_per_grid_ts", seconds)
    if times.shape != (len(grids),):
        raise ValueError(
            f"`second_per_grid_ts` must be one number for each of {len(grids)} videos, got {shown(seconds)}."
        )
    for time in times.tolist():
        check_number("second_per_grid_ts", time, minimum=0)
    return [(*grid, _times(family, grid[0], rate, time)) for grid, time in zip(grids, times, strict=True)]


def _times(family: Family, frames: int, rate: int, seconds: Any) -> tuple[int, ...]:
    """Return the position of each frame, in the float32 of the model: a product may fall just below an integer."""
    numbers = np.arange(frames, dtype=np.float32)
    if family.seconds_first:
        times = numbers * np.float32(seconds) * np.float32(rate)
    else:
        times = numbers * np.float32(seconds * np.asarray(rate, np.asarray(seconds).dtype))
    return tuple(np.floor(times).astype(np.int64).tolist())


def _merged(name: str, grid: tuple[int, int, int], frames: int, merge: int) -> tuple[int, int, int]:
    if grid[0] % frames or grid[1] % merge or grid[2] % merge:
        raise ValueError(f"`{name}` must be multiples of ({frames}, {merge}, {merge}), got {grid}.")
    return grid[0] // frames, grid[1] // merge, grid[2] // merge
