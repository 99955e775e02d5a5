"""Vision: the RoPE of a vision tower, and the positions of its patches in the order of the tower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_known, check_number, check_type, shown
from ..encodings import AxialRotary
from ..formats.values import quote, warn
from ..positions import grid, normalized_grid
from ..rotation import Layout
from .config import ROPES, SHARES, common_value, contents, get_values, is_rotary_key, is_set
from .facts.towers import HARMLESS, TOWERS, Tower
from .parts import find_part, is_tower
from .sizes import read_grids, read_size, to_integers

LAYERS = ("full_attention", "window_attention")


def vision_positions(
    config: Any,
    grid_thw: Any = None,
    *,
    part: str | None = "vision",
    merge_sizes: Iterable[int] | None = None,
    layer_type: str | None = None,
) -> npt.NDArray[Any]:
    """Return the positions of the tokens of a vision tower, in its order, for the encoding from `load_rope`.

    Patches follow the order of the tower: by merged blocks, by windows, or row by row. Class and
    register tokens have position 0, where nothing rotates; so do the queries that the last layers of EoMT prepend. The
    class token of MLCD, which rotates by learned angles, is left out.

    Args:
        config: as in `load_rope`.
        grid_thw: the grids of the images and videos in the order of the sequence, as the processor of the model returns
            them: `(frames, height, width)` or `(height, width)`, in patches before they are merged, or one of them. For
            pixels, divide by `patch_size`. The default is one image of the `image_size` of the config.
        part: as in `load_rope`; None for the config of a tower alone.
        merge_sizes: the size of the merged blocks of each grid; only for VideoLLaMA 3, whose config lacks it.
        layer_type: `"full_attention"` or `"window_attention"`, only for SAM 3, whose layers differ in their
            positions. The positions are the same in every window.
    Returns:
        Shape `(axes, length)`, the axes in the order of the encoding: int64, or float64 if the tower normalizes or
        scales them.
    Raises:
        TypeError, ValueError: if the config has no such tower, a key is missing or has a wrong type, or a grid cannot
            be that of the tower.
        OSError: if there is no such file.
    Source: the code of the models in transformers 5.23.

    >>> tower = {"model_type": "llama4_vision_model", "image_size": 28, "patch_size": 14}
    >>> vision_positions(tower)  # width and height from 1, and the class token at the end
    array([[1, 2, 1, 2, 0],
           [1, 1, 2, 2, 0]])
    """
    check_type("layer_type", layer_type, str | None, "a string or None")
    content = find_part(contents(config), part)
    if not is_tower(content):
        raise ValueError(f"`config` must have a tower with RoPE, got `model_type` {shown(content.get('model_type'))}.")
    tower = TOWERS[content["model_type"]]
    content = tower.fill_in(content)
    grids = _grids(content, tower, grid_thw, layer_type)
    merges = _merges(content, tower, len(grids), merge_sizes)
    window = _window(content, tower)
    span = _span(content, tower, layer_type)
    columns = []
    for sizes, merge in zip(grids, merges, strict=True):
        if tower.unit == "turn":
            cells: npt.NDArray[Any] = normalized_grid(*sizes)
        else:
            cells = grid(*sizes, merge=merge, window=window)
        cells = cells[["thw".index(axis) for axis in tower.axes]] + tower.start
        cells = cells if span is None else cells * (span / sizes[-1])
        before = tower.prefix + (read_size(content, tower.registers, minimum=0) if tower.registers else 0)
        columns.append(np.pad(cells, ((0, 0), (before, tower.suffix))))
    return np.concatenate(columns, axis=1)


def load_tower(config: Mapping[str, Any], layer_type: str | None, layout: Layout | None) -> AxialRotary:
    """Return the encoding of a tower.

    Raises:
        TypeError, ValueError: if a key is missing, unknown, out of range or contradicts another.
    """
    tower = TOWERS[config["model_type"]]
    config = tower.fill_in(config)
    if layer_type not in (None, *LAYERS):
        raise ValueError(f"`layer_type` must be None where all layers are alike, got {shown(layer_type)}.")
    head_dim, axes = _head_dim(config, tower), len(tower.axes)
    if (axes == 2 and head_dim % 4) or head_dim < 2 * axes:
        raise ValueError(f"`head_dim` must be a multiple of 4 in a tower of {axes} axes, got {head_dim}.")
    if tower.note:
        warn(tower.note)
    return AxialRotary(
        head_dim=head_dim,
        layout=layout or tower.layout,
        axes_dims=(head_dim // (2 * axes) * 2,) * axes,
        base=_base(config, tower),
        **{name: getattr(tower, name) for name in ("arrangement", "series", "unit")},
    )


def _base(config: Mapping[str, Any], tower: Tower) -> float:
    """Return the base, after a check of every key that concerns RoPE."""
    for key, value in config.items():
        known = key in (*ROPES, "rope_theta") or key in HARMLESS or (key in SHARES and value == 1)
        if is_rotary_key(key) and is_set(value) and not known:
            raise ValueError(
                f"{quote(key)} is unknown in a tower, got {shown(value)}: leave it out if it changes no angle."
            )
    bases = get_values(config, ("rope_theta",))
    for name, given in get_values(config, ROPES).items():
        if not isinstance(given, Mapping):
            raise TypeError(f"`{name}` must be a dict or None, got {shown(given)}.")
        for key, value in given.items():
            _check_parameter(key, value)
        bases |= {f"{name}.{key}": base for key, base in get_values(given, ("rope_theta",)).items()}
    for name, one in bases.items():
        check_number(name, one, above=1)
    base: float | None = common_value(bases)
    return tower.base if base is None else base


def _check_parameter(key: str, value: Any) -> None:
    """Raise unless a key of the rotary parameters is known, and has a value that the towers have."""
    if key in ("rope_type", "type") and value not in ("axial", "default"):
        raise ValueError(f"`{key}` must be 'axial' or 'default' in a vision tower, got {shown(value)}.")
    if key == "partial_rotary_factor" and value not in (1, None):
        raise ValueError(f"`partial_rotary_factor` must be 1 in a vision tower, got {shown(value)}.")
    if key not in ("rope_type", "type", "rope_theta", "partial_rotary_factor") and is_set(value):
        raise ValueError(
            f"{quote(key)} is not a key of the rotary parameters of a vision tower, got {shown(value)}: leave it "
            "out if it changes no angle."
        )


def _head_dim(config: Mapping[str, Any], tower: Tower) -> int:
    """Return the width of a head."""
    if tower.own_width:
        return read_size(config, "head_dim")
    counts = get_values(config, tower.heads)
    for name in counts:
        read_size(counts, name)
    size, heads = read_size(config, tower.size), common_value(counts)
    heads *= read_size(config, tower.divisor) if tower.divisor else 1
    if size % heads:
        raise ValueError(f"`{tower.size}` must be a multiple of the {heads} heads, got {size}.")
    width: int = common_value({f"{tower.size} / {min(counts)}": size // heads} | get_values(config, ("head_dim",)))
    return width


def _grids(config: Mapping[str, Any], tower: Tower, grid_thw: Any, layer_type: str | None) -> list[tuple[int, ...]]:
    """Return the frames, the height and the width of each grid, in patches."""
    if layer_type == "window_attention" and tower.scaled and grid_thw is None:
        grid_thw = (read_size(config, "window_size"),) * 2
    if grid_thw is None and tower.only_grid is not None:
        grid_thw = to_integers(tower.only_grid, config.get(tower.only_grid))[::-1]
    if grid_thw is None:
        grid_thw = (read_size(config, "image_size") // read_size(config, "patch_size"),) * 2
    grids = read_grids("grid_thw", grid_thw)
    if not grids:
        raise ValueError(f"`grid_thw` must have at least one grid, got {shown(grid_thw)}.")
    if not tower.frames and max(frames for frames, _, _ in grids) > 1:
        raise ValueError(f"`grid_thw` must have one frame in this tower, got {grids}: pass each as an image.")
    whole = read_size(config, tower.merge) if tower.whole and tower.merge else 1
    return [(frames, height * whole, width * whole) for frames, height, width in grids]


def _merges(config: Mapping[str, Any], tower: Tower, count: int, merge_sizes: Any) -> list[int]:
    """Return the size of the merged blocks of each grid."""
    if (merge_sizes is None) == (tower.merge == "merge_sizes"):
        state = "given" if merge_sizes is None else "left out"
        raise ValueError(f"`merge_sizes` must be {state} for {shown(config['model_type'])}, got {shown(merge_sizes)}.")
    if merge_sizes is None:
        return [read_size(config, tower.merge) if tower.merge else 1] * count
    merges = to_integers("merge_sizes", merge_sizes)
    if merges.shape != (count,):
        raise ValueError(f"`merge_sizes` must be one number for each of the {count} grids, got {shown(merge_sizes)}.")
    sizes: list[int] = merges.tolist()
    return sizes


def _window(config: Mapping[str, Any], tower: Tower) -> int | None:
    """Return the size of the windows in which patches are ordered, in patches."""
    if tower.window is None:
        return None
    size = read_size(config, tower.window)
    if tower.window != "window_size":
        return size
    merge = read_size(config, tower.merge) if tower.merge else 1
    window = size // merge // read_size(config, "patch_size") * merge
    if not window:
        raise ValueError(f"`window_size` must be that of a block of patches or more, got {size}.")
    return window


def _span(config: Mapping[str, Any], tower: Tower, layer_type: str | None) -> int | None:
    """Return the span to which the layers scale the positions; None if they do not."""
    if not tower.scaled and layer_type is not None:
        raise ValueError(f"`layer_type` must be None where all layers are alike, got {shown(layer_type)}.")
    if tower.scaled:
        check_known("layer_type", layer_type, LAYERS)
        return read_size(config, "window_size")
    return None
