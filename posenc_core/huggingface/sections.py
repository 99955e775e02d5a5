"""Sections: the pairs of channels that each axis of a multimodal config rotates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._array_api.checks import check_integer, shown
from ..encodings import AxialRotary, MultimodalRotary, Rotary
from ..encodings.rotary.multimodal import sections_that_fit
from ..formats.values import warn
from .config import ROPES, check_size, common_value, get_values
from .facts.records import Model

KEYS = ("mrope_section", "xdrope_section")
OWN_TYPES = ("xdrope", "video_rope", "openpangu")  # rope types that stand for an arrangement
AXES_KEYS, AXES_TYPES = (*KEYS, "mrope_interleaved"), {*OWN_TYPES, "mrope"}  # without them, a config has one axis
DEFAULTS = {"video_rope": (8, 12, 12)}  # the sections of a rope type
MOST_AXES = 64


def divide_axes(fields: dict[str, Any], parameters: Mapping[str, Any], model: Model) -> Rotary:
    """Return the encoding, with its pairs divided among the axes if the config or the model does so.

    Raises:
        TypeError, ValueError: with the key, if sections are missing, are not numbers of pairs or contradict other keys.
    """
    arrangement = _arrangement(parameters, model)
    sections = common_value({f"rope_parameters.{key}": parameters.get(key) for key in KEYS})
    sections = DEFAULTS.get(arrangement, model.sections) if sections is None else sections
    if sections == ():
        _check_no_axes(parameters, arrangement)
        return Rotary(**fields)
    key = KEYS[1] if parameters.get(KEYS[1]) is not None else KEYS[0]
    interleaved = parameters.get("mrope_interleaved")
    if interleaved is False and arrangement in ("interleaved", "openpangu"):
        raise ValueError("`mrope_interleaved` must be True or left out, as the model interleaves the axes, got False.")
    _check_sections(key, sections, arrangement)
    pairs = (fields["rotary_dim"] or fields["head_dim"]) // 2
    if sum(sections) != pairs:
        raise ValueError(sections_that_fit(key, sections, pairs))
    if arrangement == "xdrope":
        warn(
            f"`{key}` divides the pairs, as in the code of Tencent and in vLLM; transformers 5.23 divides channels, so "
            "that the two channels of a pair have the angles of different axes, which is not a rotation."
        )
    try:
        return MultimodalRotary(**fields, **_axes(tuple(sections), arrangement))
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`sections`", f"`{key}`")) from error


def fill_interleaved(name: str, given: Any, pairs: int) -> tuple[int, int, int]:
    """Return how many pairs each axis has: height and width every third as far as they reach, time the others."""
    if not isinstance(given, list | tuple) or len(given) != 3:
        raise ValueError(f"`{name}` must be three numbers, for time, height and width, got {shown(given)}.")
    for section in given:
        check_integer(name, section, minimum=0)
    height, width = (len(range(axis, min(3 * given[axis], pairs), 3)) for axis in (1, 2))
    return pairs - height - width, height, width


def _arrangement(parameters: Mapping[str, Any], model: Model) -> str:
    """Return the order of the axes: that of the rope type, of the keys, or of the model."""
    types = [name for name in OWN_TYPES if name in (parameters.get("rope_type"), parameters.get("type"))]
    if types:
        return types[0]
    if parameters.get("xdrope_section") is not None:
        return "xdrope"
    if model.arrangement == "openpangu":
        return "openpangu"
    return "interleaved" if parameters.get("mrope_interleaved") else model.arrangement


def _check_sections(key: str, sections: Any, arrangement: str) -> None:
    """Raise unless there are as many sections as the arrangement has axes, each a number of pairs."""
    counts = {"xdrope": range(2, MOST_AXES + 1), "openpangu": range(2, 4)}.get(arrangement, range(3, 4))
    if not isinstance(sections, list | tuple) or len(sections) not in counts:
        number = (
            "three numbers, for time, height and width" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} numbers"
        )
        raise ValueError(f"`{key}` must be {number}, got {shown(sections)}.")
    for section in sections:
        check_size(key, section, minimum=0)
    if arrangement == "openpangu" and len(sections) == 3:
        check_size(key, sections[0])  # its last pair is one of time
    if arrangement == "video_rope" and sections[1] != sections[2]:
        raise ValueError(f"`{key}` must be equal for height and width with 'video_rope', got {shown(sections)}.")


def _axes(sections: tuple[int, ...], arrangement: str) -> dict[str, Any]:
    """Return the fields of the encoding that say which axis each pair follows."""
    if arrangement == "xdrope":
        axes = tuple(axis for axis, section in enumerate(sections) for _ in range(section))
        return {"sections": sections, "arrangement": axes}
    if arrangement == "openpangu":
        return {"arrangement": spread(sections)}
    if arrangement == "video_rope":
        return {"sections": (*sections[1:], sections[0]), "arrangement": "ernie"}
    return {"sections": sections, "arrangement": arrangement}


def spread(sections: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of pairs as openPangu does: the axis that is furthest behind its share is next.

    No axis follows itself as long as another has pairs left. With three axes, the last pair is one of time.

    Source: `MRotaryEmbeddingInterleaved` of vLLM 0.33.

    >>> spread((3, 2, 2))
    (0, 1, 2, 0, 1, 2, 0)
    """
    timed = len(sections) == 3
    counts = [count - (timed and axis == 0) for axis, count in enumerate(sections)]
    axes: list[int] = []
    placed = [0] * len(counts)
    for _ in range(sum(counts)):
        left = [axis for axis, count in enumerate(counts) if placed[axis] < count]
        others = [axis for axis in left if axes[-1:] != [axis]] or left
        axes.append(min(others, key=lambda axis: (placed[axis] / counts[axis], axis)))
        placed[axes[-1]] += 1
    return (*axes, 0) if timed else tuple(axes)


def _check_no_axes(parameters: Mapping[str, Any], arrangement: str) -> None:
    """Raise if a key requires sections."""
    if arrangement == "xdrope":
        raise ValueError("`xdrope_section` is missing: `rope_type` 'xdrope' needs it.")
    names = (parameters.get("rope_type"), parameters.get("type"))
    needs = next((name for name in ("mrope", "openpangu") if name in names), None)
    if parameters.get("mrope_interleaved") or needs:
        key = "`mrope_interleaved`" if parameters.get("mrope_interleaved") else f"`rope_type` {shown(needs)}"
        raise ValueError(f"`mrope_section` is missing: {key} needs it.")


def is_xdrope(config: Mapping[str, Any]) -> bool:
    """Return whether the config has the keys of the model's authors, and not those of transformers."""
    ropes = [rope for rope in get_values(config, ROPES).values() if isinstance(rope, Mapping)]
    names = [rope.get(key) for rope in ropes for key in ("rope_type", "type")]
    return "xdrope" in names or any(rope.get("xdrope_section") is not None for rope in ropes)


def alternate_axes(fields: dict[str, Any], axes: int) -> AxialRotary:
    """Return the encoding of a model that deals the pairs to several axes in turn, with the frequencies of one axis."""
    if fields["scaling"] is not None:
        raise ValueError(f"`rope_type` must be 'default' for a model with {axes} axes, got {shown(fields['scaling'])}.")
    channels = fields["rotary_dim"] or fields["head_dim"]
    if channels % (2 * axes):
        raise ValueError(f"`partial_rotary_factor` must select a multiple of {2 * axes} channels, got {channels}.")
    common, axes_dims = {name: fields[name] for name in ("head_dim", "layout", "base")}, (channels // axes,) * axes
    return AxialRotary(**common, axes_dims=axes_dims, arrangement="alternating", series="dealt")
