"""M-RoPE: the positions of text, images and videos in one prompt, as multimodal models of transformers count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_known, check_number, shown
from ..positions import After, Block, Multimodal, Segment, centered, indexed, multimodal, with_audio
from ..positions.grids import cells_of, grid
from ..positions.mixed import alternating
from .config import ROPES, contents, find_text, get_values
from .facts.models import MODELS, OTHERS
from .facts.records import Model, Prompt
from .facts.towers import TOWERS
from .parts import find_part, is_tower
from .sections import KEYS as SECTIONS
from .sizes import read_grids, read_size, to_array, to_integers

Vision: TypeAlias = tuple[int, int, int] | tuple[int, int, int, tuple[int, ...]]


TEXT, IMAGE, VIDEO, AUDIO = 0, 1, 2, 3


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

    Audio counts as text. In Qwen2.5-Omni, the audio of a video alternates with it by time (TMRoPE). HunYuan-VL has the
    axes of `indexed`, HunyuanImage-3 has those of `centered`, and Ming (`bailing_moe_v2`) those of `diagonal`.

    Args:
        config: the whole config, as in `load_rope`: it has the tokens of images and videos.
        input_ids: token ids, shape `(length,)` or `(batch, length)`; a list, or an array that NumPy can read.
        image_grid_thw, video_grid_thw: `(frames, height, width)` of each image and each video of all prompts in order,
            in patches before they are merged, as the processor of the model returns them; for HunyuanImage-3
            `(1, height, width)` in tokens.
        second_per_grid_ts: the seconds between the frames of each video, 1 by default; for Qwen2.5-VL, Qwen2.5-Omni and
            Ming.
        attention_mask: 1 or True for a real token, 0 or False for padding, in the shape of `input_ids`; by default all
            are real. Padding has position 0.
        after: as in `multimodal`. The default is what transformers 5.23 does for this model: `"spatial"`, and
            `"largest"` for Qwen2.5-Omni. transformers 4 had `"largest"` for all.
    Returns:
        Positions, int64, shape `(axes, length)` or `(axes, batch, length)`, and one delta for each row: the position of
        the next token is the number of tokens before it, padding included, plus the delta. In `rope_deltas` of
        transformers 5, padding is not included. Each row of HunYuan-VL counts its images from 0; transformers 5.23
        counts those of the whole batch.
    Raises:
        TypeError: if ids or grids are not integers.
        ValueError: if the model is unknown, a key is missing, or tokens and grids do not belong together.
        OSError: if there is no such file.
    Source: `get_rope_index` of the models in transformers 5.23; of openPangu-VL, `get_mrope_input_positions` in vLLM;
        of HunyuanImage-3, `build_2d_rope` of its authors; of Ming-flash-omni, `get_t_scale_rope_index` of its authors,
        which `BailingMoeV2Model.forward` calls for `video_rope`.

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
    content = find_part(content, "thinker") if "thinker_config" in content else content
    content = find_part(content, "llm") if "llm_config" in content else content
    name = content.get("model_type")
    family = (MODELS.get(name) or OTHERS.get(name, Model())).prompt if isinstance(name, str) else None
    if family is None:
        raise ValueError(
            f"`model_type` must be that of a known model with M-RoPE, such as 'qwen2_vl', got {shown(name)}."
        )
    if family.diagonal:
        _check_video_rope(content)
    ids = to_integers("input_ids", input_ids)
    if ids.ndim not in (1, 2):
        raise ValueError(f"`input_ids` must have shape (length,) or (batch, length), got {ids.shape}.")
    is_real = np.ones_like(ids, bool) if attention_mask is None else to_array("attention_mask", attention_mask)
    if is_real.dtype.kind not in "biu":
        raise TypeError(f"`attention_mask` must be booleans or integers, got {is_real.dtype}.")
    is_real = is_real.astype(bool)
    if is_real.shape != ids.shape:
        raise ValueError(f"`attention_mask` must have the shape {ids.shape} of `input_ids`, got {is_real.shape}.")
    images = read_grids("image_grid_thw", [] if image_grid_thw is None else image_grid_thw)
    vision: dict[str, Any] = {"spatial_merge_size": family.merge} if family.merge else find_part(content, "vision")
    vision = TOWERS[vision["model_type"]].fill_in(vision) if is_tower(vision) else vision
    merge = read_size(vision, "spatial_merge_size")
    grids = {
        IMAGE: iter(_images(family, images, merge)),
        VIDEO: iter(_videos(content | vision, family, video_grid_thw, second_per_grid_ts)),
    }
    kinds = _kinds(content, family, ids)
    rows = [
        _row(content, family, row, real, grids, after)
        for row, real in zip(np.atleast_2d(kinds), np.atleast_2d(is_real), strict=True)
    ]
    for kind, key in _KEYS.items():
        if next(grids[kind], None) is not None:
            raise ValueError(f"`{key}` must have one grid for each image or video in `input_ids`, got more of them.")
    if ids.ndim == 1:
        return rows[0]
    positions = np.stack([row.positions for row in rows], axis=1)
    return Multimodal(positions, np.array([row.delta for row in rows], np.int64))


def _check_video_rope(config: dict[str, Any]) -> None:
    """Raise unless Ming has the rope type whose positions are known."""
    ropes = [rope for rope in get_values(config, ROPES).values() if isinstance(rope, Mapping)]
    types = [rope.get("rope_type", rope.get("type")) for rope in ropes]
    if "video_rope" not in types:
        raise ValueError(f"`rope_type` must be 'video_rope' for the positions of this model, got {shown(types)}.")


def _row(
    config: dict[str, Any],
    family: Prompt,
    kinds: npt.NDArray[np.int64],
    is_real: npt.NDArray[np.bool_],
    grids: Mapping[int, Iterator[Vision]],
    after: After | None,
) -> Multimodal:
    """Return the positions of one row, whose padding has position 0."""
    real = kinds[is_real].tolist()
    segments: Iterator[Any] = _segments(real, grids, _chunk(config, family))
    if family.newlines:
        found = indexed(_newline_segments(real, grids[IMAGE]), num_axes=_num_axes(config))
    elif family.centered:
        found = centered(one if isinstance(one, int) else one[1:3] for one in segments)
    elif family.diagonal:
        found = _diagonal_positions(segments)
    else:
        found = multimodal(segments, after=after or family.after)
    positions = np.zeros((len(found.positions), kinds.size), np.int64)
    positions[:, is_real] = found.positions
    return Multimodal(positions, found.delta + len(real) - kinds.size)


def _segments(kinds: list[int], grids: Mapping[int, Iterator[Vision]], chunk: int) -> Iterator[Segment]:
    """Yield the segments of one prompt: the lengths of its text and audio, and the grids between them."""
    at = 0
    while at < len(kinds):
        length = _count_run(kinds, at, (TEXT, AUDIO))
        if length:
            before_sound = AUDIO in kinds[at + length : at + length + _count_run(kinds, at + length, (VIDEO, AUDIO))]
            yield from (length - 2, _SHARED) if before_sound and length > 1 else (length,)
        else:
            grid = _next_grid(grids, kinds[at])
            length = _count_run(kinds, at, (kinds[at], AUDIO))
            if kinds[at] == VIDEO and AUDIO in kinds[at : at + length]:
                yield from _audio_segments(kinds[at : at + length], grid, chunk)
                length += 2
            else:
                length = int(np.prod(grid[:3]))
                _check_tokens(kinds[at : at + length], [kinds[at]] * length)
                yield grid
        at += length


def _diagonal_positions(segments: Iterator[Any]) -> Multimodal:
    """Return the positions of `diagonal` as Ming computes them: in float32, cut off to integers at the end.

    Args:
        segments: lengths of text, and grids of vision; those of videos end with the positions of their frames.
    """
    parts, start, text = [np.zeros((3, 0), np.float32)], np.float32(0), 0
    for segment in segments:
        if isinstance(segment, int):
            text = segment
            parts.append(np.tile(np.arange(text, dtype=np.float32) + start, (3, 1)))
            continue
        cells = grid(*segment[:3])
        times = np.array(segment[3] if len(segment) > 3 else [0], np.float32)[cells[0]] + np.float32(text) + start
        middle = [[(size - 1) // 2] for size in segment[1:3]]
        parts.append(np.concatenate([times[None], (cells[1:] - middle).astype(np.float32) + times]))
        start, text = times.max() + np.float32(1), 0
    positions = np.concatenate(parts, axis=1).astype(np.int64)
    return Multimodal(positions, int(positions[0].max(initial=-1)) + 1 - positions.shape[1])


_SHARED = Block(np.zeros((3, 2), np.int64), 1)  # two tokens that begin or end a video with audio have one position


def _audio_segments(kinds: list[int], grid: Vision, chunk: int) -> Iterator[Block]:
    """Yield the segments of a video with its audio, and of the two tokens after it."""
    audio = kinds.count(AUDIO)
    block = with_audio(*grid[:3], interval=grid[-1] if len(grid) == 4 else 1, audio=audio, chunk=chunk)
    parts = alternating(cells_of(grid), cells_of(audio), chunk)
    _check_tokens(kinds, [AUDIO if is_audio else VIDEO for is_audio, part in parts for _ in range(part.shape[1])])
    yield block
    yield _SHARED


def _newline_segments(kinds: list[int], grids: Iterator[Vision]) -> Iterator[int | tuple[int, int]]:
    """Yield the segments of one prompt of HunYuan-VL, where two tokens around an image may be of its kind."""
    at = 0
    while at < len(kinds):
        length = _count_run(kinds, at, (kinds[at],))
        if kinds[at] == IMAGE:
            _, height, width = _next_grid({IMAGE: grids}, IMAGE)[:3]
            around = length - height * (width + 1)
            if around not in (0, 2):
                _check_tokens([], [IMAGE] * (length - around))
            yield from ((height, width),) if not around else (1, (height, width), 1)
        else:
            yield length
        at += length


def _count_run(kinds: list[int], at: int, alike: tuple[int, ...]) -> int:
    """Return the number of tokens of these kinds in a row."""
    return next((index for index, kind in enumerate(kinds[at:]) if kind not in alike), len(kinds) - at)


def _next_grid(grids: Mapping[int, Iterator[Vision]], kind: int) -> Vision:
    grid = next(grids[kind], None)
    if grid is None:
        raise ValueError(f"`{_KEYS[kind]}` must have one grid for each image or video in `input_ids`, got fewer.")
    return grid


def _check_tokens(found: list[int], wanted: list[int]) -> None:
    """Raise unless the tokens are those of the grid."""
    if found != wanted:
        key, sound = _KEYS[wanted[0]], " with audio between its chunks of time" if AUDIO in wanted else ""
        raise ValueError(
            f"`{key}` must be that of the tokens in `input_ids`, which are not {len(wanted)} in a row{sound}."
        )


_KEYS = {IMAGE: "image_grid_thw", VIDEO: "video_grid_thw"}


def _chunk(config: Mapping[str, Any], family: Prompt) -> int:
    """Return the positions in a chunk of a video with its audio."""
    if family.audio is None or not isinstance(family.rate, str):
        return 1
    seconds = config.get(family.audio, 2)
    check_number(family.audio, seconds, above=0)
    return max(int(read_size(config, family.rate) * seconds), 1)


def _num_axes(config: Mapping[str, Any]) -> int:
    """Return the number of axes of HunYuan-VL: that of the sections."""
    ropes = [rope for rope in get_values(find_text(dict(config)), ROPES).values() if isinstance(rope, Mapping)]
    sections = [rope[key] for rope in ropes for key in SECTIONS if isinstance(rope.get(key), list | tuple)]
    return len(sections[0]) if sections else 4


def _kinds(config: Mapping[str, Any], family: Prompt, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return whether each token is text, or a part of an image or a video."""
    is_image = ids == _token(config, "image")
    if family.newlines or family.centered:
        return np.where(is_image, IMAGE, TEXT)
    if not family.shared:
        kinds = np.where(is_image, IMAGE, np.where(ids == _token(config, "video"), VIDEO, TEXT))
        return np.where(ids == _token(config, "audio"), AUDIO, kinds) if family.audio else kinds
    starts, ends = (np.cumsum(ids == _token(config, f"video_{edge}"), axis=-1) for edge in ("start", "end"))
    return np.where(is_image, np.where(starts > ends, VIDEO, IMAGE), TEXT)


def _token(config: Mapping[str, Any], kind: str) -> int:
    for key in (f"{kind}_token_id", f"{kind}_token_index", f"{kind}_patch_token"):
        if config.get(key) is not None:
            return read_size(config, key, minimum=0)
    raise ValueError(f"`{kind}_token_id` is missing: add it to the config.")


def _images(family: Prompt, grids: list[tuple[int, int, int]], merge: int) -> list[tuple[int, int, int]]:
    """Return the merged grids of all images."""
    for frames, _, _ in grids if family.centered else ():
        if frames > 1:
            raise ValueError(f"`image_grid_thw` must have one frame for each image of this model, got {frames}.")
    return [_merge_grid("image_grid_thw", grid, 1, merge) for grid in grids]


def _videos(config: Mapping[str, Any], family: Prompt, grid_thw: Any, seconds: Any) -> Sequence[Vision]:
    """Return the segments of all videos: one, or one for each frame."""
    merge = read_size(config, "spatial_merge_size")
    frames = read_size(config, family.merged) if family.merged else 1
    videos = read_grids("video_grid_thw", [] if grid_thw is None else grid_thw)
    grids = [_merge_grid("video_grid_thw", grid, frames, merge) for grid in videos]
    if seconds is not None and family.rate is None:
        raise ValueError(f"`second_per_grid_ts` must be None for this model, got {shown(seconds)}.")
    if family.split:
        return [(1, *grid[1:]) for grid in grids for _ in range(grid[0])]
    if family.rate is None or (seconds is None and not grids):
        return grids
    rate = family.rate if isinstance(family.rate, int) else read_size(config, family.rate)
    times = np.ones(len(grids)) if seconds is None else to_array("second_per_grid_ts", seconds)
    if times.shape != (len(grids),):
        raise ValueError(
            f"`second_per_grid_ts` must be one number for each of {len(grids)} videos, got {shown(seconds)}."
        )
    for time in times.tolist():
        check_number("second_per_grid_ts", time, minimum=0)
    return [(*grid, _times(family, grid[0], rate, time)) for grid, time in zip(grids, times, strict=True)]


def _times(family: Prompt, frames: int, rate: int, seconds: Any) -> tuple[Any, ...]:
    """Return the position of each frame, in the float32 of the model: a product may fall just below an integer."""
    numbers = np.arange(frames, dtype=np.float32)
    if family.seconds_first:
        times = numbers * np.float32(seconds) * np.float32(rate)
    else:
        times = numbers * np.float32(seconds * np.asarray(rate, np.asarray(seconds).dtype))
    return tuple((times if family.diagonal else np.floor(times).astype(np.int64)).tolist())


def _merge_grid(name: str, grid: tuple[int, int, int], frames: int, merge: int) -> tuple[int, int, int]:
    if grid[0] % frames or grid[1] % merge or grid[2] % merge:
        raise ValueError(f"`{name}` must be multiples of ({frames}, {merge}, {merge}), got {grid}.")
    return grid[0] // frames, grid[1] // merge, grid[2] // merge
