"""Timm: the RoPE that the config of a vision transformer describes, and the positions of its patches.

Configs of timm name an architecture, whose arguments are in timm's code; `model_args` changes them.

Source: `models/eva.py`, `naflexvit.py`, `deepseek_vit.py`, `gemma4_vit.py`, `qwen3_vit.py` and
`layers/pos_embed_sincos.py` of timm 1.0.31.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number, check_type, shown
from ..encodings import AxialRotary, MixedRotary, MultimodalRotary
from ..formats.values import quote, warn
from ..positions import grid
from ..positions.sequences import LIMIT
from .config import check_flag, check_size, common_value, is_rotary_key, is_set, read
from .sections import fill_interleaved

Config = Mapping[str, Any]
DEFAULTS: dict[str, Any] = {
    "use_rot_pos_emb": False,
    "rope_type": "cat",
    "rope_temperature": 10000.0,
    "rope_grid_offset": 0.0,
    "rope_grid_indexing": "ij",
    "rope_rotate_half": False,
    "rope_mrope_section": (8, 12, 12),
    "ref_feat_shape": None,
    "head_dim": None,
    "num_heads": None,
}
IN_TRAINING = {"rope_shift_coords", "rope_jitter_coords", "rope_rescale_coords"}  # no effect on a trained model
READ_BY = {  # keys that only some types of RoPE read
    "rope_mrope_section": ("mrope",), "ref_feat_shape": ("cat", "axial"), "rope_ref_feat_shape": ("cat", "axial"),
    "rope_grid_offset": ("cat", "axial", "dinov3"),
}  # fmt: skip
WIDTHS = ("embed_dim", "num_heads")
_HEADS = {"small": 6, "base": 12, "large": 16}
_PE = {"use_rot_pos_emb": True, "rope_grid_indexing": "xy", "rope_grid_offset": 1.0}

# The arguments of architectures, by a pattern of their name: the last pattern that matches adds to those before it.
ARCHITECTURES: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"eva02_\w+_patch1[46]_", {"use_rot_pos_emb": True, "ref_feat_shape": (16, 16)}),
    (r"eva02_enormous_|eva_giant_|samvit_", {"use_rot_pos_emb": False}),
    (r"vit_\w+_patch16_rope_reg\d_gap_256", {"use_rot_pos_emb": True, "ref_feat_shape": (16, 16)}),
    (r"vit_pe_\w+_patch16_384", _PE | {"ref_feat_shape": (24, 24)}),
    (r"vit_pe_\w+_patch16_224", _PE | {"ref_feat_shape": (14, 14)}),
    (r"vit_pe_\w+_patch14_336", _PE | {"ref_feat_shape": (24, 24)}),
    (r"vit_pe_\w+_patch14_448", _PE | {"ref_feat_shape": (32, 32)}),
    (r"vit_pe_\w+_patch16_512", _PE | {"ref_feat_shape": (32, 32)}),
    (r"vit_pe_\w+_gigantic_", {"rope_grid_offset": 0.0, "head_dim": 96}),
    (
        r"vit_\w+_patch16_rope_(?:mixed_)?(?:ape_)?224",
        {"use_rot_pos_emb": True, "rope_grid_indexing": "xy", "rope_temperature": 100.0},
    ),
    (r"vit_\w+_rope_mixed_", {"rope_type": "mixed", "rope_temperature": 10.0}),
    *((rf"vit_{size}_\w+_rope_mixed_", {"num_heads": heads}) for size, heads in _HEADS.items()),
    (
        r"vit_\w+_patch16_(?:dinov3|lingbot|sapiens2)",
        {"use_rot_pos_emb": True, "rope_type": "dinov3", "rope_temperature": 100.0, "rope_rotate_half": True},
    ),
    (r"vit_7b_", {"head_dim": 128}),
    (r"vit_huge_patch16_sapiens2", {"head_dim": 80}),
    (r"vit_5b_patch16_sapiens2", {"head_dim": 76}),
    (r"(?:qwen3|deepseek)_vit_", {"use_rot_pos_emb": True, "rope_rotate_half": True}),
    (r"qwen3_vit_416m", {"head_dim": 72}),
    (
        r"gemma4_vit_",
        {
            "use_rot_pos_emb": True, "rope_rotate_half": True, "rope_temperature": 100.0, "rope_grid_indexing": "xy",
            "arrangement": "blocks",
        },
    ),
    (r"gemma4_vit_570m", {"head_dim": 72}),
)  # fmt: skip
GEMMA_BASE = "rope_theta"  # as these models name `rope_temperature`


def load_timm(config: Any) -> AxialRotary | MixedRotary | MultimodalRotary | None:
    """Load the RoPE that the config of a vision transformer of timm describes; `load_rope` calls it.

    Args:
        config: a `config.json`, its folder, or its content as a dict: with an `architecture`, and with `model_args` if
            the model was created with arguments of its own.
    Returns:
        The encoding, on the axes of `timm_positions`; None if the model has no RoPE. For `rope_type` "mixed" it is a
        `MixedRotary`: in block i its `frequencies` are `weights["rope.freqs"][:, i]` of the checkpoint.
    Raises:
        TypeError, ValueError: if neither the architecture nor `model_args` says what rotates, or an argument is unknown
            or has a wrong value.

    >>> load_timm({"architecture": "vit_small_patch16_dinov3"})
    AxialRotary(head_dim=64, layout='half', axes_dims=(32, 32), base=100.0, unit='turn')
    """
    arguments = _arguments(read(config))
    if arguments is None:
        return None
    head_dim, kind = arguments["head_dim"], arguments["rope_type"]
    is_half = arguments["rope_rotate_half"] or kind == "mrope"
    common = {
        "head_dim": head_dim, "layout": "half" if is_half else "interleaved", "base": arguments["rope_temperature"],
    }  # fmt: skip
    if kind == "mrope":
        sections = fill_interleaved("rope_mrope_section", arguments["rope_mrope_section"], head_dim // 2)
        return MultimodalRotary(**common, sections=sections, arrangement="interleaved")
    if head_dim % 4:
        raise ValueError(f"`embed_dim` / `num_heads` must be a multiple of 4 for two axes, got {head_dim}.")
    if kind == "mixed":
        return MixedRotary(**common, num_heads=arguments["num_heads"])
    common |= {"axes_dims": (head_dim // 2,) * 2, "arrangement": arguments.get("arrangement", "concat")}
    return AxialRotary(**common, unit="turn" if kind == "dinov3" else "radian")


def timm_positions(config: Any, *, height: int, width: int) -> npt.NDArray[Any]:
    """Return the positions of the patches of an image, for the encoding that `load_rope` returns.

    Tokens before the patches, of the class and registers, do not rotate: position 0 on all axes stands for that.

    Args:
        config: as in `load_timm`.
        height, width: how many patches the image has.
    Returns:
        float64, `(axes, height * width)`: rows and columns in the order that the model has them, scaled to its
        training; with three axes, the first is 0.
    Raises:
        TypeError, ValueError: as in `load_timm`, or if a size is not a positive integer.

    >>> timm_positions({"architecture": "vit_pe_core_base_patch16_224"}, height=2, width=1)
    array([[14., 14.],
           [ 7., 14.]])
    """
    height, width = check_integer("height", height, maximum=LIMIT), check_integer("width", width, maximum=LIMIT)
    arguments = _arguments(read(config))
    if arguments is None:
        raise ValueError("`config` must describe RoPE, but the model rotates nothing.")
    sizes, offset = np.reshape([height, width], (2, 1)), arguments["rope_grid_offset"]
    cells = grid(height, width)
    if arguments["rope_type"] == "mrope":
        return np.concatenate([np.zeros((1, height * width)), cells])
    if arguments["rope_type"] == "dinov3":
        positions = (2 * cells + 1 + 2 * offset - sizes) / sizes
    elif arguments["rope_type"] == "mixed":
        positions = cells
    else:
        scale = 1 if arguments["ref_feat_shape"] is None else np.reshape(arguments["ref_feat_shape"], (2, 1)) / sizes
        positions = (cells + offset) * scale
    return positions[::-1] if arguments["rope_grid_indexing"] == "xy" else positions


def _arguments(content: Config) -> dict[str, Any] | None:
    """Return the arguments of a model that concern RoPE, checked; None if it has no RoPE."""
    check_type("architecture", content.get("architecture"), str, "the name of a model of timm")
    name = content["architecture"].partition(".")[0]
    given = content.get("model_args") or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"`model_args` must be a dict or None, got {shown(given)}.")
    given = {key: value for key, value in {**content, **given}.items() if value is not None}
    if name.startswith("gemma4_vit_") and GEMMA_BASE in given:
        given["rope_temperature"] = given.pop(GEMMA_BASE)
    facts = _facts(name, given)
    for key, value in given.items():
        if is_rotary_key(key) and is_set(value) and key not in {*DEFAULTS, *IN_TRAINING, "rope_ref_feat_shape"}:
            raise ValueError(
                f"{quote(key)} is not an argument of timm's vision transformers, got {shown(value)}: leave it out."
            )
    arguments = DEFAULTS | facts | {key: given[key] for key in DEFAULTS if key in given and key != "head_dim"}
    shapes = {key: given[key] for key in ("ref_feat_shape", "rope_ref_feat_shape") if key in given}
    arguments["ref_feat_shape"] = _pair(common_value(shapes)) if shapes else arguments["ref_feat_shape"]
    check_flag("use_rot_pos_emb", arguments["use_rot_pos_emb"])
    if not arguments["use_rot_pos_emb"] or arguments["rope_type"] in ("", "none"):
        return None
    arguments["head_dim"] = _head_dim(given, arguments["head_dim"])
    _check(arguments)
    for key, kinds in READ_BY.items():
        if key in given and arguments["rope_type"] not in kinds and given[key] != DEFAULTS.get(key):
            warn(f"`{key}` {shown(given[key])} has no effect: `rope_type` {arguments['rope_type']!r} does not read it.")
    return arguments


def _facts(name: str, given: Config) -> dict[str, Any]:
    """Return the arguments of an architecture.

    Raises:
        ValueError: if neither the architecture nor an argument says whether the model has RoPE.
    """
    if name.startswith("naflexvit"):
        heads = {"num_heads": 12} if name.startswith("naflexvit_base_") else {}
        return {"use_rot_pos_emb": True, "rope_type": "", "head_dim": 64, **heads}
    found = [arguments for pattern, arguments in ARCHITECTURES if re.match(pattern, name)]
    if not found and not given.keys() & {"use_rot_pos_emb", "rope_type"}:
        raise ValueError(
            f"`architecture` {shown(name)} is not known to have RoPE: if it has, add its arguments as "
            "`model_args`, such as `use_rot_pos_emb` and `rope_type`."
        )
    facts: dict[str, Any] = {"head_dim": 64} if found else {}
    for arguments in found:
        facts |= arguments
    return facts


def _head_dim(given: Config, usual: int | None) -> int:
    """Return the width of a head: of the arguments, or of the architecture."""
    widths = [given[key] for key in WIDTHS if key in given]
    for key in WIDTHS:
        if key in given:
            check_size(key, given[key])
    if len(widths) == 2 and widths[0] % widths[1] == 0:
        return int(widths[0] // widths[1])
    if widths or usual is None:
        raise ValueError(f"`embed_dim` and `num_heads` must both be given, one a multiple of the other, got {widths}.")
    return usual


def _check(arguments: Config) -> None:
    """Raise unless the arguments have values of their kind."""
    check_known("rope_type", arguments["rope_type"], ("cat", "axial", "dinov3", "mrope", "mixed"))
    check_known("rope_grid_indexing", arguments["rope_grid_indexing"], ("ij", "xy"))
    check_flag("rope_rotate_half", arguments["rope_rotate_half"])
    check_number("rope_temperature", arguments["rope_temperature"], above=1)
    check_number("rope_grid_offset", arguments["rope_grid_offset"])
    if arguments["rope_type"] == "mixed" and arguments["rope_rotate_half"]:
        raise ValueError("`rope_rotate_half` must be False with `rope_type` 'mixed', got True.")
    if arguments["rope_type"] == "mixed" and arguments["num_heads"] is None:
        raise ValueError("`embed_dim` and `num_heads` must be given with `rope_type` 'mixed', got neither.")
    if arguments["rope_type"] == "mrope" and arguments["rope_grid_indexing"] != "ij":
        raise ValueError("`rope_grid_indexing` must be 'ij' with `rope_type` 'mrope', got 'xy'.")


def _pair(shape: Any) -> tuple[int, int]:
    """Return the two sizes of `ref_feat_shape`, which may be one number."""
    sizes = tuple(shape) if isinstance(shape, list | tuple) else (shape, shape)
    for size in sizes:
        check_integer("ref_feat_shape", size)
    if len(sizes) != 2:
        raise ValueError(f"`ref_feat_shape` must be a number or two, got {shown(shape)}.")
    return sizes
