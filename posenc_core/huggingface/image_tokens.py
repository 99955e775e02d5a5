"""The positions of the tokens of images and videos in the transformers of diffusers, and of the text beside them.

Functions of images take the values of the config and the `Tokens`, functions of text also the positions of the image.

Source: the classes and pipelines of diffusers 0.42.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..positions import grid, normalized_grid

Config = dict[str, Any]
Positions = npt.NDArray[Any]


class Tokens(NamedTuple):
    """How many tokens an image or a video has on each axis, and how many of text are beside it.

    Attributes:
        frames, height, width, text: numbers of tokens.
        images: the height and the width of each reference image.
        fps: frames per second.
    """

    frames: int
    height: int
    width: int
    text: int
    images: tuple[tuple[int, int], ...] = ()
    fps: float = 24

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.frames, self.height, self.width


Image = Callable[[Config, Tokens], Positions]
Text = Callable[[Config, Tokens, Positions], Positions]


def count(config: Config, tokens: Tokens) -> Positions:
    """Return frames, rows and columns from 0."""
    return grid(*tokens.sizes)


def count_in_plane(config: Config, tokens: Tokens) -> Positions:
    """Return rows and columns from 0."""
    return grid(tokens.height, tokens.width)


def count_by_patch(config: Config, tokens: Tokens) -> Positions:
    """Return as many axes as patches have."""
    return (count_in_plane if len(config["patch_size"]) == 2 else count)(config, tokens)


def add_text_axis(config: Config, tokens: Tokens) -> Positions:
    """Return positions with a fourth axis, on which only text counts."""
    return grid(*tokens.sizes, 1)


def halve(config: Config, tokens: Tokens) -> Positions:
    """Return positions with a fourth axis for text, and half of rows and columns (FLUX.3)."""
    return add_text_axis(config, tokens) * np.reshape([1, 0.5, 0.5, 1], (4, 1))


def center(config: Config, tokens: Tokens) -> Positions:
    """Return positions whose rows and columns are centered, unless the config has them relative to layers."""
    if config.get("use_layer3d_rope"):
        raise ValueError("`use_layer3d_rope` must be False for positions, as they depend on the layers of the image.")
    return grid(*tokens.sizes, start=(0, -((tokens.height + 1) // 2), -((tokens.width + 1) // 2)))


def center_after_text(config: Config, tokens: Tokens) -> Positions:
    """Return centered rows and columns; on the first axis the image stands where the text has ended."""
    return center(config, tokens) + np.reshape([tokens.text, 0, 0], (3, 1))


def start_after_text(first: int) -> Image:
    """Return the function for images that stand on the first axis where the text, counted from `first`, has ended."""
    return lambda _, tokens: grid(*tokens.sizes, start=(tokens.text + first, 0, 0))


def start_after_gist(config: Config, tokens: Tokens) -> Positions:
    """Return positions of which the first axis goes on after the gist tokens (Bria FIBO 2)."""
    return grid(*tokens.sizes, start=(config["max_num_gist_tokens"] + 1, 0, 0))


def start_on_diagonal(config: Config, tokens: Tokens) -> Positions:
    """Return rows and columns that count on where the text has ended, with 1 on the first axis."""
    return grid(*tokens.sizes, start=(1, tokens.text, tokens.text))


def start_at(first: int) -> Image:
    """Return the function for images that start at one position on all axes."""
    return lambda _, tokens: grid(*tokens.sizes, start=first)


def at_24_per_second(config: Config, tokens: Tokens) -> Positions:
    """Return frames that are counted as 24 per second."""
    cells = grid(*tokens.sizes)
    return cells if tokens.fps == 24 else np.concatenate([cells[:1] / tokens.fps * 24, cells[1:]])


def stretch(config: Config, tokens: Tokens) -> Positions:
    """Return rows and columns scaled to the size of the training, rounded down."""
    rows, columns = grid(tokens.height, tokens.width)
    height, width = config["rope_axes_dim"]
    return np.stack([rows * height // tokens.height, columns * width // tokens.width])


def divide(*keys: str) -> Image:
    """Return the function for positions that are divided by numbers of the config, one for each axis."""
    return lambda config, tokens: (
        count(config, tokens) / np.reshape(config[keys[0]] if len(keys) == 1 else [config[key] for key in keys], (3, 1))
    )


def skip_frames(config: Config, tokens: Tokens) -> Positions:
    """Return positions in which the second of two frames is the last of those that it skips (ChronoEdit)."""
    cells = count(config, tokens)
    return cells if tokens.frames != 2 else cells * np.reshape([config["rope_temporal_skip_len"] - 1, 1, 1], (3, 1))


def normalize(config: Config, tokens: Tokens) -> Positions:
    """Return the centers of cells from -1 to 1."""
    return normalized_grid(*tokens.sizes)


def crop_video(config: Config, tokens: Tokens) -> Positions:
    """Return frames, and rows and columns of a crop of the training's size; CogVideoX 1.5 has plain ones."""
    if config.get("patch_size_t") is not None:
        return count(config, tokens)
    trained = _patches(config, (config["sample_height"], config["sample_width"]))
    return _mesh(np.arange(tokens.frames), *_crop((tokens.height, tokens.width), trained))


def crop_to_90(config: Config, tokens: Tokens) -> Positions:
    """Return the positions of a crop of 60 rows and 90 columns, whatever the config says (EasyAnimate)."""
    return crop_video(config | {"sample_height": 60, "sample_width": 90}, tokens)


def crop_columns_first(config: Config, tokens: Tokens) -> Positions:
    """Return columns, then rows, of a crop of the training's size (HunyuanDiT)."""
    return _mesh(*_crop((tokens.height, tokens.width), _patches(config, (512 // 8, 512 // 8))))[::-1]


def share_of_longest(config: Config, tokens: Tokens) -> Positions:
    """Return positions from -1 to 1 in the longest video, of the starts of patches (LTX)."""
    seconds = 8 / tokens.fps * config["patch_size_t"]
    scales = (seconds / 20, *[32 * config["patch_size"] / 2048] * 2)
    return 2 * count(config, tokens) * np.reshape(scales, (3, 1)) - 1


def middle_of_patches(config: Config, tokens: Tokens) -> Positions:
    """Return positions from -1 to 1 in the longest video, of the middles of patches (LTX 2)."""
    patches = (config["patch_size_t"], config["patch_size"], config["patch_size"])
    longest = (config["pos_embed_max_pos"], config["base_height"], config["base_width"])
    scales = np.reshape(config["vae_scale_factors"], (3, 1))
    ends = [(count(config, tokens) + end) * np.reshape(patches, (3, 1)) * scales for end in (0.0, 1.0)]
    for end in ends:  # the first frame is encoded alone
        end[0] = np.maximum(end[0] + config["causal_offset"] - scales[0], 0) / tokens.fps
    return (ends[0] + ends[1]) / np.reshape(longest, (3, 1)) - 1


def span_32(config: Config, tokens: Tokens) -> Positions:
    """Return rows and columns of a square of 32, cut to the shape, and frames after the text (MiniMax H3)."""
    spans = 5 / 3 * np.resize([1, 4, 4, 4, 4], tokens.frames)
    side = np.sqrt(tokens.height * tokens.width)
    axes = [
        np.linspace((1 - size / side) / 2, (1 + size / side) / 2, size, endpoint=False) * 32
        for size in (tokens.height, tokens.width)
    ]
    return _mesh(tokens.text + np.concatenate([[0], np.cumsum(spans)[:-1]]), *axes)


def _patches(config: Config, sizes: tuple[int, int]) -> tuple[int, int]:
    """Return the number of patches on each axis of an image of these sizes."""
    height, width = sizes
    patch = config["patch_size"]
    if patch > min(sizes):
        raise ValueError(f"`patch_size` must be at most {min(sizes)}, the size of images in training, got {patch}.")
    return height // patch, width // patch


def _crop(sizes: tuple[int, int], trained: Any) -> list[Positions]:
    """Return the positions of rows and of columns: those of the training, cut to the shape of the image."""
    (height, width), (rows, columns) = sizes, trained
    if height / width > rows / columns:
        resized = (rows, round(rows / height * width))
    else:
        resized = (round(columns / width * height), columns)
    starts = [round((full - part) / 2) for full, part in zip(trained, resized, strict=True)]
    ends = [start + part for start, part in zip(starts, resized, strict=True)]
    return [
        np.linspace(start, end * (size - 1) / size, size) for start, end, size in zip(starts, ends, sizes, strict=True)
    ]


def _mesh(*axes: Positions) -> Positions:
    return np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1)


def text_at_zero(config: Config, tokens: Tokens, cells: Positions) -> Positions:
    """Return 0 on all axes, where nothing rotates."""
    return np.zeros((len(cells), tokens.text), np.int64)


def text_on(*axes: int, first: int = 0) -> Text:
    """Return the function for text that counts from `first` on some axes, and is 0 on the others."""
    return lambda _, tokens, cells: (
        np.arange(first, tokens.text + first) * np.isin(np.arange(len(cells)), axes)[:, None]
    )


def text_on_all(config: Config, tokens: Tokens, cells: Positions) -> Positions:
    """Return the positions of text that counts on all axes from 0."""
    return text_on(*range(len(cells)))(config, tokens, cells)


def text_beyond(config: Config, tokens: Tokens, cells: Positions) -> Positions:
    """Return the positions of text that counts on all axes from half the longest side of the images."""
    first = max(side // 2 for image in ((tokens.height, tokens.width), *tokens.images) for side in image)
    return text_on_all(config, tokens, cells) + first


def text_after(config: Config, tokens: Tokens, cells: Positions) -> Positions:
    """Return the positions of text that counts on all axes after the image, if the config says so (JoyImage)."""
    if config["rope_type"] != "mrope":
        return text_at_zero(config, tokens, cells)
    return text_on_all(config, tokens, cells) + cells.max() + 1
