"""Rules of RoPE in the transformers of diffusers: what a class reads, the encoding that it makes, and its positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from .._array_api.checks import WIDEST, check_integer, check_known, check_type, shown
from ..encodings import AxialRotary, MultimodalRotary, Rotary
from ..rotation import Layout
from ..scaling import LongRoPE
from .image_tokens import Config, Image, Text
from .sections import fill_interleaved

ImageRotary: TypeAlias = AxialRotary | MultimodalRotary | Rotary


class References(NamedTuple):
    """Where reference images stand: as the image, but moved along one axis, by one step more for each.

    Attributes:
        axis, step: the axis and the step.
        most: how many there may be.
        after_frames: whether they start after the last frame, and not after the first.
    """

    axis: int = 0
    step: int = 1
    most: float = math.inf
    after_frames: bool = False


class Rule(NamedTuple):
    """The RoPE of a class.

    Attributes:
        defaults: the keys that the class reads, and their default values.
        dims: the key for the number of channels of each axis, or a function of the values of the keys, to which
            `head_dim` is added.
        image: returns the positions of the tokens of an image or a video; None if the class counts all tokens in turn,
            or takes positions from its pipeline.
        base: the base, or a function that returns it, or one for each axis.
        width: the key for the width of a head, or the two whose quotient it is; none if it is the sum of the axes.
        build: returns the encoding.
        layout, arrangement, unit: as in `AxialRotary`.
        partial: whether some channels of a head do not rotate.
        text: returns the positions of the text, from those of the image; None if text does not rotate.
        references: where reference images stand; None if there are none.
        needs: the key that turns RoPE on.
        limit: the key for the number of positions that the class has tables for.
        fps: the default frames per second; None if frames count.
    """

    defaults: Config
    dims: str | Callable[[Config], tuple[int, ...]]
    image: Image | None
    base: Callable[[Config], Any] | str | float = 10000
    width: tuple[str, ...] = ("attention_head_dim",)
    build: Callable[[Rule, Config], ImageRotary] | None = None
    layout: Layout = "interleaved"
    arrangement: Literal["concat", "alternating", "blocks"] = "concat"
    unit: Literal["radian", "turn"] = "radian"
    partial: bool = False
    text: Text | None = None
    references: References | None = None
    needs: str | None = None
    limit: str | None = None
    fps: float | None = None


def build(rule: Rule, values: Config) -> ImageRotary:
    """Return the encoding of a class with these values of its keys.

    Raises:
        TypeError, ValueError: if a value contradicts another.
    """
    values = values | {"head_dim": _head_dim(rule, values)}
    return (rule.build or build_axial)(rule, values)


def build_axial(rule: Rule, values: Config) -> AxialRotary:
    """Return the encoding of an image or a video, with its own channels for each axis."""
    head_dim, dims = values["head_dim"], _dims(rule, values)
    total = sum(dims)
    if (total > head_dim if rule.partial else total != head_dim) or any(channels % 2 for channels in dims):
        name = rule.dims if isinstance(rule.dims, str) else rule.width[0]
        raise ValueError(f"`{name}` must make even axes that add up to the {head_dim} channels of a head, got {dims}.")
    return AxialRotary(
        head_dim=head_dim, layout=rule.layout, axes_dims=dims, base=_base(rule, values), arrangement=rule.arrangement,
        unit=rule.unit,
    )  # fmt: skip


def build_sequence(rule: Rule, values: Config) -> Rotary:
    """Return the encoding of tokens in a row, such as those of audio."""
    (rotary_dim,) = _dims(rule, values)
    return Rotary(head_dim=values["head_dim"], layout=rule.layout, base=_base(rule, values), rotary_dim=rotary_dim)


def build_longrope(rule: Rule, values: Config) -> Rotary:
    """Return the encoding of tokens in a row, with the divisors of `rope_scaling`."""
    scaling = values["rope_scaling"]
    check_type("rope_scaling", scaling, dict, "a dict")
    lists = {name: scaling.get(name) for name in ("short_factor", "long_factor")}
    original = values["original_max_position_embeddings"]
    factor = max(values["max_position_embeddings"] / original, 1)
    longrope = LongRoPE(**lists, original_max_position_embeddings=original, factor=factor)
    return replace(build_sequence(rule, values), scaling=longrope)


def build_sections(rule: Rule, values: Config) -> MultimodalRotary:
    """Return the encoding whose axes take the frequencies in turn."""
    head_dim, scaling = values["head_dim"], values.get("rope_scaling") or {}
    check_type("rope_scaling", scaling, dict, "a dict")
    given = values[str(rule.dims)] or scaling.get("mrope_section", (24, 20, 20))
    sections = fill_interleaved(str(rule.dims), given, head_dim // 2)
    common: Config = {"head_dim": head_dim, "layout": rule.layout, "base": _base(rule, values)}
    return MultimodalRotary(**common, sections=sections, arrangement="interleaved")


def build_rising(rule: Rule, values: Config) -> MultimodalRotary:
    """Return the encoding of all heads together, whose frequencies rise from π/2 by the base (LTX)."""
    if values.get("rope_type") == "split":
        raise ValueError(
            "`rope_type` must be 'interleaved', got 'split', whose channels of a pair are half a head apart: take the "
            "RoPE of 'interleaved', and reorder the rows of the queries' and keys' weights by `posenc relayout`, from "
            "'half' to 'interleaved'."
        )
    check_known("rope_type", values.get("rope_type", "interleaved"), ("interleaved",))
    width, base = values["num_attention_heads"] * values["attention_head_dim"], _base(rule, values)
    each = width // 6
    check_integer("attention_head_dim", width, maximum=WIDEST)
    if each < 2:
        raise ValueError(f"`num_attention_heads` must make a width of 12 channels or more with its heads, got {width}.")
    return MultimodalRotary(
        head_dim=width, layout="interleaved", rotary_dim=6 * each, placement="trail", arrangement=(0, 1, 2) * each,
        frequencies=[math.pi / 2 * base ** (pair // 3 / (each - 1)) for pair in range(3 * each)],
    )  # fmt: skip


def scale_bases(config: Config) -> tuple[float, ...]:
    """Return the base of each axis of Cosmos, by NTK-aware scaling."""
    dims, scales = thirds_by_two(config), config["rope_scale"]
    if min(dims) < 4:
        raise ValueError(f"`attention_head_dim` must give each axis 4 channels or more, got {sum(dims)}.")
    return tuple(10000 * scale ** (dim / (dim - 2)) for dim, scale in zip(dims, scales, strict=True))


def thirds_by_two(config: Config) -> tuple[int, ...]:
    """Return even thirds, and what remains for the time."""
    third = 2 * (config["head_dim"] // 6)
    return config["head_dim"] - 2 * third, third, third


def quarter_and_rest(config: Config) -> tuple[int, ...]:
    """Return a quarter for the time, and halves of the rest."""
    head_dim = config["head_dim"]
    return head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3


def even_quarter_and_rest(config: Config) -> tuple[int, ...]:
    """Return an even quarter for the time, and even halves of the rest."""
    rest = (config["head_dim"] * 3 // 4 + 3) // 4 * 2
    return config["head_dim"] - 2 * rest, rest, rest


def equal(axes: int, share: Callable[[Config], int] | None = None) -> Callable[[Config], tuple[int, ...]]:
    """Return the function for axes that have the same number of channels, by default of the whole head."""
    return lambda config: ((config["head_dim"] if share is None else share(config)) // axes,) * axes


def _dims(rule: Rule, values: Config) -> tuple[int, ...]:
    return tuple(values[rule.dims] if isinstance(rule.dims, str) else rule.dims(values))


def _base(rule: Rule, values: Config) -> Any:
    if callable(rule.base):
        return rule.base(values)
    return values[rule.base] if isinstance(rule.base, str) else rule.base


def _head_dim(rule: Rule, values: Config) -> int:
    """Return the width of a head."""
    if not rule.width:
        return sum(values[str(rule.dims)])
    size, *counts = (values[key] for key in rule.width)
    if counts and size % counts[0]:
        raise ValueError(f"`{rule.width[0]}` must be a multiple of `{rule.width[1]}` {counts[0]}, got {shown(size)}.")
    return int(size // counts[0] if counts else size)
