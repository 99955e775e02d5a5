"""Export: the Hugging Face config that describes a RoPE."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any, Literal

from .._array_api.checks import check_known, shown
from ..encodings import DualChunk, FoPE, MultimodalRotary, Rotary
from ..formats.export import check_defaults, partial
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, Scaling, YaRN
from .config import ROPES, get_values
from .dual_chunk import KEY, SIZES
from .fope import unit_std
from .rope_types import FOPE, L0, LENGTH

OUTER = {  # keys of a rope type that transformers 4 reads outside of `rope_scaling`
    "longrope": ("rope_theta", "partial_rotary_factor", L0),
    "proportional": ("rope_theta",),
}
TYPES: dict[type[Scaling], str] = {
    Linear: "linear",
    DynamicNTK: "dynamic",
    NTKAlpha: "dynamic",
    YaRN: "yarn",
    Llama3: "llama3",
    LongRoPE: "longrope",
    Proportional: "proportional",
}


def to_config(rotary: Rotary | FoPE | DualChunk, *, transformers: Literal[4, 5] | None = None) -> dict[str, Any]:
    """Return the Hugging Face config of an encoding, with values that JSON preserves.

    `load_rope(to_config(rotary), layout=rotary.layout)` is the same encoding: configs do not contain the layout.
    `rotary_dim` is left out if it is `head_dim`. The `std` of `FoPE` agrees to the last rounding.

    Args:
        rotary: the encoding, without `at(length)`.
        transformers: the version whose keys are written: 5 has `rope_parameters`, 4 has `rope_theta` and
            `rope_scaling`, which most other programs read. The default is both.
    Returns:
        The keys of the rotation, `head_dim` and, if it is known, `max_position_embeddings`; of a `FoPE` whose heads
        differ `num_key_value_heads`, of a `DualChunk` `dual_chunk_attention_config`.
    Raises:
        TypeError: if `rotary` is not one of these encodings.
        ValueError: if a config cannot express one of its fields.
    Source: `RopeParameters` of transformers 5.23; the keys of Intern-S1-Pro; Qwen2.5-1M in vLLM.

    >>> to_config(Rotary(head_dim=64, layout="half", rotary_dim=16), transformers=5)
    {'head_dim': 64, 'rope_parameters': {'rope_type': 'default', 'rope_theta': 10000, 'partial_rotary_factor': 0.25}}
    >>> to_config(Rotary(head_dim=64, layout="half", rotary_dim=16), transformers=4)
    {'head_dim': 64, 'rope_theta': 10000, 'partial_rotary_factor': 0.25, 'rope_scaling': None}
    """
    given: Any = transformers
    if not isinstance(given, int | None) or given not in (None, 4, 5):
        raise ValueError(f"`transformers` must be 4, 5 or None, got {shown(transformers)}.")
    newer = _config(rotary)
    older = _older_keys(newer["rope_parameters"])
    if transformers is None:
        return newer | older
    return newer if transformers == 5 else {key: value for key, value in newer.items() if key not in ROPES} | older


def _older_keys(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of transformers 4, where those of no scaling stand outside of the dict."""
    outer = OUTER.get(parameters["rope_type"], ("rope_theta", "partial_rotary_factor"))
    scaling = {key: value for key, value in parameters.items() if key not in outer}
    return get_values(parameters, outer) | {"rope_scaling": None if scaling == {"rope_type": "default"} else scaling}


@singledispatch
def _config(rotary: object) -> dict[str, Any]:
    """Return the config of an encoding; each class has keys of its own."""
    raise TypeError(f"`rotary` must be a Rotary, FoPE or DualChunk, got {type(rotary).__name__}.")


@_config.register
def _(rotary: Rotary) -> dict[str, Any]:
    _check_expressible(rotary)
    parameters = {
        "rope_type": "default" if rotary.scaling is None else TYPES[type(rotary.scaling)],
        "rope_theta": rotary.base,
    }
    parameters |= partial(rotary) | _sections(rotary) | _scaling(rotary.scaling)
    return {"head_dim": rotary.head_dim, **_length(rotary), "rope_parameters": parameters}


@_config.register
def _(rotary: FoPE) -> dict[str, Any]:
    check_defaults(rotary, "in a config", direction="forward", floor_sine=1)
    values = (rotary.std / unit_std(rotary), rotary.num_heads is not None, rotary.num_terms)
    parameters = {"rope_type": "default", "rope_theta": rotary.base, **_drop_none(zip(FOPE, values, strict=True))}
    sizes = _drop_none([(LENGTH, rotary.length), ("num_key_value_heads", rotary.num_heads)])
    return {"head_dim": rotary.head_dim, **sizes, "rope_parameters": parameters}


def _drop_none(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if value is not None}


@_config.register
def _(remapped: DualChunk) -> dict[str, Any]:
    rotary = remapped.rotary
    if type(rotary) is not Rotary or rotary.scaling is not None:
        raise ValueError(f"`rotary` must be in chunks of plain RoPE in a config, got chunks of {shown(rotary)}.")
    return _config(rotary) | {KEY: {name: getattr(remapped, name) for name in SIZES}}


def _check_expressible(rotary: Rotary) -> None:
    """Raise unless a config can express every field."""
    if rotary.own is not None:
        raise ValueError(
            f"`frequencies` must be left out, as a config cannot express them, got {len(rotary.frequencies())}: "
            "give the encoding a base and a scaling."
        )
    placement = "spread" if isinstance(rotary.scaling, Proportional) else "lead"
    check_defaults(rotary, "in a config", direction="forward", precision="exact", placement=placement)
    if type(rotary.scaling) not in (*TYPES, type(None)):
        names = ", ".join(cls.__name__ for cls in TYPES)
        raise ValueError(f"`scaling` must be None or one of {names} in a config, got {shown(rotary.scaling)}.")
    if getattr(rotary.scaling, "seq_len", None) is not None:
        raise ValueError(f"`seq_len` of `scaling` must be None in a config, got {shown(rotary.scaling)}.")


def _sections(rotary: Rotary) -> dict[str, Any]:
    if not isinstance(rotary, MultimodalRotary):
        return {}
    check_known("arrangement", rotary.arrangement, ("chunked", "interleaved"))
    if len(rotary.sections) != 3:
        raise ValueError(f"`sections` must be three numbers in a config, got {shown(rotary.sections)}.")
    interleaved = {"mrope_interleaved": True} if rotary.arrangement == "interleaved" else {}
    return {"mrope_section": list(rotary.sections), **interleaved}


def _scaling(scaling: Scaling | None) -> dict[str, Any]:
    """Return the fields of a scaling, which have the same names as the keys of configs."""
    if scaling is None:
        return {}
    fields = {name: value for name, value in scaling.to_dict().items() if name != "kind" and value is not None}
    if isinstance(scaling, DynamicNTK):
        del fields[L0]  # configs have it as `max_position_embeddings`
    return {"factor": 1.0} | fields if isinstance(scaling, NTKAlpha) else fields


def _length(rotary: Rotary) -> dict[str, int]:
    """Return the longest length, if it is known."""
    scaling = rotary.scaling
    if isinstance(scaling, DynamicNTK):
        return {LENGTH: scaling.original_max_position_embeddings}
    stretched = None if scaling is None else scaling.longest
    longest = rotary.longest if stretched is None else stretched
    return {} if longest is None else {LENGTH: longest}
