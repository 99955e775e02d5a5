"""Diffusers: the RoPE that the config of a transformer describes, and the positions of its tokens.

Source: the classes and pipelines of diffusers 0.42.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._array_api.checks import check_integer, check_items, check_number, check_type, shown
from ..encodings import AxialRotary
from ..formats.values import quote, warn
from ..positions.sequences import LIMIT
from .config import check_flag, check_size, get_values, is_rotary_key, is_set, read
from .diffusers_classes import OTHERS, REFUSED, RULES, WITHOUT_ROPE
from .image_rules import ImageRotary, Rule, build
from .image_tokens import Config, Positions, Tokens

BY_PATCH = "HunyuanImageTransformer2DModel"  # has as many axes as its patches
AXES = (  # keys of classes that are not known
    "axes_dims_rope", "axes_dims", "axes_dim", "axes_dim_rope", "rope_axes_dim", "rope_dim_list", "rope_dim",
)  # fmt: skip
BASES = ("rope_theta", "theta", "rope_base")


def load_diffusers(config: Any) -> ImageRotary | None:
    """Load the RoPE that the config of a transformer of diffusers describes; `load_rope` calls it.

    Args:
        config: a `transformer/config.json`, its folder, or its content as a dict, with a `_class_name`.
    Returns:
        The encoding, with the axes of the class: time, height and width for most. It is a `Rotary` for a class that
        counts its tokens in a row, such as those of audio, and a `MultimodalRotary` where the axes take the frequencies
        in turn. That of LTX is as wide as all heads together: rotate queries and keys before they are divided into
        heads. None if the class has no RoPE. For a `ControlNet` it is that of its transformer.
    Raises:
        TypeError, ValueError: if the class is not supported, or a key is unknown or has a wrong value.
    Warns:
        UserWarning: if the class is unknown, but a key has the channels of each axis.

    >>> load_diffusers({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56]})
    AxialRotary(head_dim=128, layout='interleaved', axes_dims=(16, 56, 56))
    """
    content = read(config)
    if unknown := _guess(content):
        return unknown
    rule, values = find_rule(content)
    return None if rule is None or (rule.needs and not values[rule.needs]) else build(rule, values)


def diffusers_positions(
    config: Any,
    *,
    height: int,
    width: int,
    frames: int = 1,
    text: int = 0,
    images: Sequence[tuple[int, int]] = (),
    fps: float | None = None,
) -> Positions:
    """Return the positions of the tokens of a transformer of diffusers, for the encoding that `load_rope` returns.

    Args:
        config: as in `load_diffusers`.
        height, width, frames: how many tokens the image or the video has, after the patches are made.
        text: how many tokens of text are in the same attention; they come first. For Z-Image, with the padding.
        images: the height and the width of each reference image, in tokens, such as those that are edited; they come
            last.
        fps: frames per second, for Cosmos and LTX alone; by default 24, for the first LTX 25.
    Returns:
        `(axes, length)`, for all tokens: integers, or real numbers where the class scales them.
    Raises:
        TypeError, ValueError: as in `load_diffusers`, or if the class has no such tokens, or no table that long.
    Source: `prepare_latent_image_ids` of the pipelines, and the modules of the classes.

    >>> diffusers_positions({"_class_name": "QwenImageTransformer2DModel"}, height=2, width=3, text=1)
    array([[ 1,  0,  0,  0,  0,  0,  0],
           [ 1, -1, -1, -1,  0,  0,  0],
           [ 1, -2, -1,  0, -2, -1,  0]])
    >>> flux = {"_class_name": "FluxTransformer2DModel"}
    >>> diffusers_positions(flux, height=1, width=2, images=[(1, 3)])
    array([[0, 0, 1, 1, 1],
           [0, 0, 0, 0, 0],
           [0, 1, 0, 1, 2]])
    """
    content = read(config)
    (rule, values), name = find_rule(content), content["_class_name"]
    if rule is None or (rule.needs and not values[rule.needs]):
        raise ValueError(f"`config` must describe RoPE, but {name} rotates nothing.")
    encoding, place = build(rule, values), rule.image
    if place is None:
        given = "counts its tokens in a row" if encoding.num_axes == 1 else "takes positions from its pipeline"
        raise ValueError(f"`config` must be of a class with positions of its own, but {name} {given}.")
    tokens = _tokens(rule, name, frames=frames, height=height, width=width, text=text, images=images, fps=fps)
    if encoding.num_axes == 2 and tokens.frames > 1:
        raise ValueError(f"`frames` must be 1, as {name} has two axes, got {tokens.frames}.")
    cells = place(values, tokens)
    if tokens.text and rule.text is None:
        raise ValueError(f"`text` must be 0, as {name} does not rotate text, got {tokens.text}.")
    parts = [rule.text(values, tokens, cells)] if rule.text and tokens.text else []
    parts.append(cells)
    for index, (rows, columns) in enumerate(tokens.images, start=1):
        axis, step, _, after_frames = rule.references  # type: ignore[misc]  # else there are no images
        moved = (index * step + (tokens.frames - 1 if after_frames else 0)) * (np.arange(len(cells)) == axis)
        parts.append(place(values, tokens._replace(frames=1, height=rows, width=columns)) + moved[:, None])
    positions = np.concatenate(parts, axis=1) if len(parts) > 1 else cells
    limits = np.reshape(values[rule.limit] if rule.limit else np.inf, (-1, 1))
    if np.any(positions >= limits):
        raise ValueError(f"`{rule.limit}` {values[str(rule.limit)]} is exceeded by {tokens}: give fewer tokens.")
    return positions


def find_rule(content: Config) -> tuple[Rule | None, Config]:
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
        if rule.defaults[key] is not None or not key.startswith("rope_"):  # else checked where it is read
            _check(key, value, rule.defaults[key], length=axes)
    return rule, values


def _guess(content: Config) -> AxialRotary | None:
    """Return what the keys of an unknown class say, with a warning; None if it is known, or they say no axes."""
    name, axes = content.get("_class_name"), get_values(content, AXES)
    if not isinstance(name, str) or name in {*RULES, *REFUSED, *WITHOUT_ROPE} or len(axes) != 1:
        return None
    ((key, dims),) = axes.items()
    bases = get_values(content, BASES)
    _check(key, dims, (2,), length=len(dims) if isinstance(dims, list | tuple) else None)
    head_dim = content.get("attention_head_dim") or sum(dims)
    check_size("attention_head_dim", head_dim)
    if sum(dims) > head_dim:  # no numbers of channels
        return None
    for key_of_base, base in bases.items():
        check_number(key_of_base, base, above=1)
    base = next(iter(bases.values()), 10000)
    warn(
        f"`_class_name` {shown(name)} is unknown: `layout` 'interleaved' and `base` {base} are assumed for the axes of "
        f"`{key}`, and positions are those of its pipeline."
    )
    return AxialRotary(head_dim=head_dim, layout="interleaved", axes_dims=tuple(dims), base=base)


def _tokens(rule: Rule, name: str, *, images: Any, fps: float | None, **counts: int) -> Tokens:
    """Return numbers of tokens that have been checked."""
    checked = {key: check_integer(key, size, minimum=0 if key == "text" else 1) for key, size in counts.items()}
    sizes = []
    for image in check_items("images", images, list | tuple, "a height and a width"):
        if len(image) != 2:
            raise ValueError(f"`images` must have the height and the width of each image, got {shown(image)}.")
        height, width = (check_integer("images", size) for size in image)
        sizes.append((height, width))
    tokens = Tokens(**checked, images=tuple(sizes), fps=(rule.fps or 24) if fps is None else fps)
    most = rule.references.most if rule.references else 0
    if len(sizes) > most:
        raise ValueError(f"`images` must be at most {most} for {name}, got {len(sizes)}.")
    areas = [tokens.frames * tokens.height * tokens.width, *(height * width for height, width in sizes)]
    if sum(areas) + tokens.text > LIMIT:
        raise ValueError(
            f"`height`, `width`, `frames`, `text` and `images` must make at most 2**31 tokens, got {shown(tokens)}."
        )
    if fps is not None:
        check_number("fps", fps, above=0)
        if rule.fps is None:
            raise ValueError(f"`fps` must be left out, as {name} counts frames, got {fps}.")
    return tokens


def _check(key: str, value: Any, default: Any, *, length: int | None = None) -> None:
    """Raise unless a value is of the kind of the default; a list must have its length, or this one."""
    if isinstance(default, bool):
        check_flag(key, value)
    elif isinstance(default, str):
        check_type(key, value, str, "a string")
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
