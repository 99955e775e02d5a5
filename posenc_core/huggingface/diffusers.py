"""Diffusers: the RoPE that the config of an image or video transformer describes, and the positions of its tokens.

Source: the classes and pipelines of diffusers 0.42.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_number, shown
from ..encodings import AxialRotary
from ..formats.values import quote
from ..positions import grid
from ..positions.sequences import LIMIT
from ..rotation import Layout
from .config import check_flag, check_size, is_rotary_key, is_set, read

Config = dict[str, Any]
Positions = npt.NDArray[Any]


class Tokens(NamedTuple):
    """How many tokens an image or a video has on each axis, and how many of text are beside it."""

    frames: int
    height: int
    width: int
    text: int


class Rule(NamedTuple):
    """The RoPE of a class.

    Attributes:
        defaults: the keys that the class reads, and their default values.
        dims: the key for the number of channels of each axis, or a function of the width of a head.
        cells: returns the positions of the tokens of an image or a video.
        base: the base, or a function that returns it, or one for each axis.
        width: the key for the width of a head, or the two whose quotient it is; none if it is the sum of the axes.
        layout, arrangement: as in `AxialRotary`.
        text: returns the positions of the text, from those of the cells; None if text does not rotate.
        needs: the key that turns RoPE on.
        limit: the key for the number of positions that the class has tables for.
    """

    defaults: Config
    dims: str | Callable[[int], tuple[int, ...]]
    cells: Callable[[Config, Tokens], Positions]
    base: Callable[[Config], Any] | float = 10000
    width: tuple[str, ...] = ("attention_head_dim",)
    layout: Layout = "interleaved"
    arrangement: Literal["concat", "blocks"] = "concat"
    text: Callable[[Tokens, Positions], Positions] | None = None
    needs: str | None = None
    limit: str | None = None


def load_diffusers(config: Any) -> AxialRotary | None:
    """Load the RoPE that the config of a transformer of diffusers describes; `load_rope` calls it.

    Args:
        config: a `transformer/config.json`, its folder, or its content as a dict, with a `_class_name`.
    Returns:
        The encoding, with the axes of the class: time, height and width for most; None if the class has no RoPE.
    Raises:
        TypeError, ValueError: if the class is not supported, or a key is unknown or has a wrong value.

    >>> load_diffusers({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56]})
    AxialRotary(head_dim=128, layout='interleaved', axes_dims=(16, 56, 56))
    """
    content = read(config)
    rule, values = _rule(content)
    if rule is None or (rule.needs and not values[rule.needs]):
        return None
    head_dim = _head_dim(rule, values)
    dims = tuple(values[rule.dims] if isinstance(rule.dims, str) else rule.dims(head_dim))
    if sum(dims) != head_dim or any(channels % 2 for channels in dims):
        name = rule.dims if isinstance(rule.dims, str) else rule.width[0]
        raise ValueError(f"`{name}` must make even axes that add up to the {head_dim} channels of a head, got {dims}.")
    base = rule.base(values) if callable(rule.base) else rule.base
    return AxialRotary(head_dim=head_dim, layout=rule.layout, axes_dims=dims, base=base, arrangement=rule.arrangement)


def diffusers_positions(
    config: Any, *, height: int, width: int, frames: int = 1, text: int = 0, fps: float | None = None
) -> Positions:
    """Return the positions of the tokens of a transformer of diffusers, for the encoding that `load_rope` returns.

    Args:
        config: as in `load_diffusers`.
        height, width, frames: how many tokens the image or the video has, after the patches are made.
        text: how many tokens of text are in the same attention; they come first. For Z-Image, with the padding.
        fps: frames per second, for Cosmos alone; without it, frames count as 24 per second.
    Returns:
        `(axes, text + frames * height * width)`: integers, or real numbers where the class scales them.
    Raises:
        TypeError, ValueError: as in `load_diffusers`, or if the class has no such tokens, or no table that long.
    Source: `prepare_latent_image_ids` of the pipelines, and the modules of the classes.

    >>> diffusers_positions({"_class_name": "QwenImageTransformer2DModel"}, height=2, width=3, text=1)
    array([[ 1,  0,  0,  0,  0,  0,  0],
           [ 1, -1, -1, -1,  0,  0,  0],
           [ 1, -2, -1,  0, -2, -1,  0]])
    """
    content = read(config)
    encoding, (rule, values) = load_diffusers(content), _rule(content)
    if rule is None or encoding is None:
        raise ValueError(f"`config` must describe RoPE, but {content['_class_name']} rotates nothing.")
    given = Tokens(frames, height, width, text)._asdict().items()
    tokens = Tokens(*(check_integer(name, size, minimum=0 if name == "text" else 1) for name, size in given))
    frames, height, width, text = tokens
    if frames * height * width + text > LIMIT:
        raise ValueError(f"`height`, `width`, `frames` and `text` must make at most 2**31 tokens, got {shown(tokens)}.")
    if encoding.num_axes == 2 and frames > 1:
        raise ValueError(f"`frames` must be 1, as {content['_class_name']} has two axes, got {frames}.")
    cells = rule.cells(values, tokens)
    if fps is not None:
        cells = _set_rate(cells, fps, content)
    if text and rule.text is None:
        raise ValueError(f"`text` must be 0, as {content['_class_name']} does not rotate text, got {text}.")
    positions = cells if rule.text is None or not text else np.concatenate([rule.text(tokens, cells), cells], axis=1)
    limits = np.reshape(values[rule.limit] if rule.limit else np.inf, (-1, 1))
    if np.any(positions >= limits):
        raise ValueError(f"`{rule.limit}` {values[str(rule.limit)]} is exceeded by {tokens}: give fewer tokens.")
    return positions


def _rule(content: Config) -> tuple[Rule | None, dict[str, Any]]:
    """Return the rule of a class and the values of its keys; None if the class has no RoPE.

    Raises:
        ValueError: if the class is not supported, or has no such key.
    """
    given = content.get("_class_name")
    name = given if isinstance(given, str) else shown(given)
    if name in WITHOUT_ROPE:
        return None, {}
    if name in REFUSED:
        raise ValueError(f"`_class_name` {shown(name)} is not supported: {REFUSED[name]}.")
    if name not in RULES:
        raise ValueError(
            f"`_class_name` {shown(given)} is not known: give the config.json of a transformer, not of a pipeline, or "
            "make an `AxialRotary` of its axes."
        )
    rule = RULES[name]
    for key, value in content.items():
        if is_rotary_key(key) and is_set(value) and key not in rule.defaults and key not in OTHERS:
            raise ValueError(f"{quote(key)} is not a key of {name}, got {shown(value)}: leave it out.")
    values = {key: default if content.get(key) is None else content[key] for key, default in rule.defaults.items()}
    axes = len(values["patch_size"]) if name == BY_PATCH and isinstance(values["patch_size"], list | tuple) else None
    for key, value in values.items():
        _check(key, value, rule.defaults[key], length=axes)
    return rule, values


def _check(key: str, value: Any, default: Any, *, length: int | None = None) -> None:
    """Raise unless a value is of the kind of the default; a list must have its length, or this one."""
    if isinstance(default, bool):
        check_flag(key, value)
    elif isinstance(default, tuple):
        if not isinstance(value, list | tuple):
            raise TypeError(f"`{key}` must be a list of numbers, got {shown(value)}.")
        if len(value) != (length or len(default)):
            raise ValueError(f"`{key}` must have {length or len(default)} numbers, got {shown(value)}.")
        if None in value:
            raise TypeError(f"`{key}` must be a list of numbers, got {shown(value)}.")
        for one in value:
            _check(key, one, default[0])
    elif key == "rope_theta" or isinstance(default, float):
        check_number(key, value, above=1 if key == "rope_theta" else 0)
    elif value is not None:
        check_size(key, value)


def _head_dim(rule: Rule, values: Config) -> int:
    """Return the width of a head."""
    if not rule.width:
        return sum(values[str(rule.dims)])
    size, *counts = (values[key] for key in rule.width)
    if counts and size % counts[0]:
        raise ValueError(f"`{rule.width[0]}` must be a multiple of `{rule.width[1]}` {counts[0]}, got {size}.")
    return int(size // counts[0] if counts else size)


def _set_rate(cells: Positions, fps: float, content: Config) -> Positions:
    """Return positions whose frames are counted as 24 per second."""
    check_number("fps", fps, above=0)
    if content["_class_name"] != "CosmosTransformer3DModel":
        raise ValueError(f"`fps` must be left out, as {content['_class_name']} counts frames, got {fps}.")
    return np.concatenate([cells[:1] / fps * 24, cells[1:]])


def _cells(config: Config, tokens: Tokens) -> Positions:
    return grid(tokens.frames, tokens.height, tokens.width)


def _by_patch(config: Config, tokens: Tokens) -> Positions:
    return grid(tokens.height, tokens.width) if len(config["patch_size"]) == 2 else _cells(config, tokens)


def _add_text_axis(config: Config, tokens: Tokens) -> Positions:
    """Return positions with a fourth axis, on which only text counts."""
    return grid(tokens.frames, tokens.height, tokens.width, 1)


def _center_cells(config: Config, tokens: Tokens) -> Positions:
    """Return positions that are centered, unless the config has them relative to layers."""
    if config["use_layer3d_rope"]:
        raise ValueError("`use_layer3d_rope` must be False for positions, as they depend on the layers of the image.")
    start = (0, -((tokens.height + 1) // 2), -((tokens.width + 1) // 2))
    return grid(tokens.frames, tokens.height, tokens.width, start=start)


def _start_after_text(first: int) -> Callable[[Config, Tokens], Positions]:
    """Return the builder for images that stand on the first axis where the text, counted from `first`, has ended."""
    return lambda _, tokens: grid(tokens.frames, tokens.height, tokens.width, start=(tokens.text + first, 0, 0))


def _stretch_cells(config: Config, tokens: Tokens) -> Positions:
    """Return rows and columns scaled to the size of the training, rounded down."""
    rows, columns = grid(tokens.height, tokens.width)
    height, width = config["rope_axes_dim"]
    return np.stack([rows * height // tokens.height, columns * width // tokens.width])


def _cog_video(config: Config, tokens: Tokens) -> Positions:
    """Return frames, and rows and columns of a crop of the training's size; version 1.5 has plain ones."""
    if config["patch_size_t"] is not None:
        return _cells(config, tokens)
    sizes = _patches(config, (config["sample_height"], config["sample_width"]))
    return _mesh(np.arange(tokens.frames), *_crop((tokens.height, tokens.width), sizes))


def _hunyuan_dit(config: Config, tokens: Tokens) -> Positions:
    """Return columns, then rows, of a crop of the training's size."""
    size = 512 // 8
    return _mesh(*_crop((tokens.height, tokens.width), _patches(config, (size, size))))[::-1]


def _allegro(config: Config, tokens: Tokens) -> Positions:
    factors = [config[f"interpolation_scale_{axis}"] for axis in "thw"]
    return _cells(config, tokens) / np.reshape(factors, (3, 1))


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


def _place_at_zero(tokens: Tokens, cells: Positions) -> Positions:
    return np.zeros((len(cells), tokens.text), np.int64)


def _count_on_axis(axis: int, *, first: int = 0) -> Callable[[Tokens, Positions], Positions]:
    """Return the builder for text that counts on one axis."""
    return lambda tokens, cells: (
        np.arange(first, tokens.text + first) * (np.arange(len(cells)) == axis % len(cells))[:, None]
    )


def _count_beyond(tokens: Tokens, cells: Positions) -> Positions:
    """Return the positions of text that counts on all axes from half the longer side of the image."""
    start = max(tokens.height // 2, tokens.width // 2)
    return np.tile(np.arange(start, start + tokens.text), (len(cells), 1))


def _scale_bases(config: Config) -> tuple[float, ...]:
    """Return the base of each axis of Cosmos, by NTK-aware scaling."""
    dims, scales = _thirds_by_two(config["attention_head_dim"]), config["rope_scale"]
    if min(dims) < 4:
        raise ValueError(f"`attention_head_dim` must give each axis 4 channels or more, got {sum(dims)}.")
    return tuple(10000 * scale ** (dim / (dim - 2)) for dim, scale in zip(dims, scales, strict=True))


def _thirds_by_two(head_dim: int) -> tuple[int, ...]:
    """Return even thirds, and what remains for the time."""
    return head_dim - 4 * (head_dim // 6), 2 * (head_dim // 6), 2 * (head_dim // 6)


def _quarter_and_rest(head_dim: int) -> tuple[int, ...]:
    return head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3


def _thirds(head_dim: int) -> tuple[int, ...]:
    return (head_dim // 3,) * 3


def _halves(head_dim: int) -> tuple[int, ...]:
    return (head_dim // 2,) * 2


def _theta(config: Config) -> Any:
    return config["rope_theta"]


_HEAD: Config = {"attention_head_dim": 128}
_FLUX = Rule(_HEAD | {"axes_dims_rope": (16, 56, 56)}, "axes_dims_rope", _cells, text=_place_at_zero)
_WAN = Rule(_HEAD | {"rope_max_seq_len": 1024}, _thirds_by_two, _cells, limit="rope_max_seq_len")
_HUNYUAN = Rule(_HEAD | {"rope_axes_dim": (16, 56, 56), "rope_theta": 256.0}, "rope_axes_dim", _cells, base=_theta)
RULES = {
    "AllegroTransformer3DModel": Rule(
        {"attention_head_dim": 96, "interpolation_scale_t": 2.2, "interpolation_scale_h": 2.0,
         "interpolation_scale_w": 2.0}, _thirds, _allegro, layout="half", arrangement="blocks",
    ),
    "BriaTransformer2DModel": _FLUX._replace(defaults=_FLUX.defaults | {"rope_theta": 10000}, base=_theta),
    "ChromaTransformer2DModel": _FLUX,
    "CogVideoXTransformer3DModel": Rule(
        {"attention_head_dim": 64, "patch_size": 2, "patch_size_t": None, "sample_width": 90, "sample_height": 60,
         "use_rotary_positional_embeddings": False},
        _quarter_and_rest, _cog_video, needs="use_rotary_positional_embeddings",
    ),
    "CogView4Transformer2DModel": Rule(
        {"attention_head_dim": 40, "rope_axes_dim": (256, 256)}, _halves, _stretch_cells, layout="half"
    ),
    "CosmosTransformer3DModel": Rule(
        _HEAD | {"rope_scale": (2.0, 1.0, 1.0)}, _thirds_by_two, _cells, base=_scale_bases, layout="half"
    ),
    "Flux2Transformer2DModel": Rule(
        _HEAD | {"axes_dims_rope": (32, 32, 32, 32), "rope_theta": 2000}, "axes_dims_rope", _add_text_axis, base=_theta,
        text=_count_on_axis(3),
    ),
    "FluxTransformer2DModel": _FLUX,
    "HunyuanDiT2DModel": Rule({"attention_head_dim": 88, "patch_size": 2}, _halves, _hunyuan_dit),
    "HunyuanImageTransformer2DModel": _HUNYUAN._replace(
        defaults=_HUNYUAN.defaults | {"rope_axes_dim": (64, 64), "patch_size": (1, 1)}, cells=_by_patch
    ),
    "HunyuanVideo15Transformer3DModel": _HUNYUAN,
    "HunyuanVideoTransformer3DModel": _HUNYUAN,
    "Kandinsky5Transformer3DModel": Rule(
        {"axes_dims": (16, 24, 24)}, "axes_dims", _cells, width=()
    ),
    "Lumina2Transformer2DModel": Rule(
        {"hidden_size": 2304, "num_attention_heads": 24, "axes_dim_rope": (32, 32, 32), "axes_lens": (300, 512, 512)},
        "axes_dim_rope", _start_after_text(0), width=("hidden_size", "num_attention_heads"),
        text=_count_on_axis(0), limit="axes_lens",
    ),
    "QwenImageTransformer2DModel": Rule(
        _HEAD | {"axes_dims_rope": (16, 56, 56), "use_layer3d_rope": False}, "axes_dims_rope", _center_cells,
        text=_count_beyond,
    ),
    "SkyReelsV2Transformer3DModel": _WAN,
    "WanTransformer3DModel": _WAN,
    "WanVACETransformer3DModel": _WAN,
    "ZImageTransformer2DModel": Rule(
        {"dim": 3840, "n_heads": 30, "axes_dims": (32, 48, 48), "axes_lens": (1024, 512, 512), "rope_theta": 256.0},
        "axes_dims", _start_after_text(1), base=_theta, width=("dim", "n_heads"),
        text=_count_on_axis(0, first=1), limit="axes_lens",
    ),
}  # fmt: skip
BY_PATCH = "HunyuanImageTransformer2DModel"  # has as many axes as its patches
OTHERS = {"time_theta"}  # of the time step, not of positions
RISING = "its frequencies rise to a multiple of π, which no encoding has"
REFUSED = {
    "LTXVideoTransformer3DModel": RISING,
    "LTX2VideoTransformer3DModel": RISING,
    "MochiTransformer3DModel": "its frequencies are learned, one matrix for each head",
}
WITHOUT_ROPE = {
    "AuraFlowTransformer2DModel", "CogView3PlusTransformer2DModel", "DiTTransformer2DModel", "LatteTransformer3DModel",
    "PixArtTransformer2DModel", "SD3Transformer2DModel", "SanaTransformer2DModel", "UNet2DConditionModel",
    "UNet2DModel",
}  # fmt: skip
