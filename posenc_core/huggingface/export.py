"""From a rotary encoding to the config that describes it."""

from __future__ import annotations

import math
from typing import Any

from .._array_api.checks import check_known
from ..encodings import MultimodalRotary, Rotary
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, Scaling, YaRN
from .scalings import L0, LENGTH

TYPES: dict[type[Scaling], str] = {
    Linear: "linear",
    DynamicNTK: "dynamic",
    NTKAlpha: "dynamic",
    YaRN: "yarn",
    Llama3: "llama3",
    LongRoPE: "longrope",
    Proportional: "proportional",
}


def to_config(rotary: Rotary) -> dict[str, Any]:
    """What a Hugging Face config says of this encoding, in the spelling of transformers 5 and in types that JSON keeps.

    `load_rope(to_config(rotary), layout=rotary.layout)` is the encoding again: configs do not say the layout, and
    `rotary_dim` is left out where it is `head_dim`.

    Args:
        rotary: the encoding, not `at` a length.
    Raises:
        TypeError: if it is no `Rotary`.
        ValueError: if it has a field that configs cannot say.
    Source: `RopeParameters` of transformers 5.23.

    >>> to_config(Rotary(head_dim=64, layout="half", rotary_dim=16))["rope_parameters"]
    {'rope_type': 'default', 'rope_theta': 10000, 'partial_rotary_factor': 0.25}
    """
    if not isinstance(rotary, Rotary):
        raise TypeError(f"`rotary` must be a Rotary, got {type(rotary).__name__}.")
    _check_sayable(rotary)
    parameters = {
        "rope_type": "default" if rotary.scaling is None else TYPES[type(rotary.scaling)],
        "rope_theta": rotary.base,
    }
    parameters |= _share(rotary) | _sections(rotary) | _scaling(rotary.scaling)
    return {"head_dim": rotary.head_dim, **_length(rotary.scaling), "rope_parameters": parameters}


def _check_sayable(rotary: Rotary) -> None:
    """Raise unless a config can say every field."""
    if rotary.own is not None:
        raise ValueError(
            "`frequencies` of their own cannot be said in a config: give the encoding a base and a scaling."
        )
    usual = {"direction": "forward", "precision": "exact", "placement": "lead"}
    if isinstance(rotary.scaling, Proportional):
        usual["placement"] = "spread"
    for name, word in usual.items():
        if getattr(rotary, name) != word:
            raise ValueError(f"`{name}` must be {word!r}, a config cannot say another, got {getattr(rotary, name)!r}.")
    if type(rotary.scaling) not in (*TYPES, type(None)):
        names = ", ".join(each.__name__ for each in TYPES)
        raise ValueError(
            f"`scaling` must be None or one of {names}, a config cannot say another, got {rotary.scaling!r}."
        )
    if getattr(rotary.scaling, "seq_len", None) is not None:
        raise ValueError(f"`seq_len` of `scaling` must be None, a config cannot say another, got {rotary.scaling!r}.")
    if isinstance(rotary, MultimodalRotary):
        check_known("arrangement", rotary.arrangement, ("chunked", "interleaved"))
        if len(rotary.sections) != 3:
            raise ValueError(f"`sections` must be three, a config cannot say another number, got {rotary.sections!r}.")


def _share(rotary: Rotary) -> dict[str, float]:
    """The share of the head that turns, such that the whole part of their product is `rotary_dim`."""
    if rotary.rotary_channels == rotary.head_dim:
        return {}
    share = rotary.rotary_channels / rotary.head_dim
    if int(rotary.head_dim * share) < rotary.rotary_channels:
        share = math.nextafter(share, 1)
    return {"partial_rotary_factor": share}


def _sections(rotary: Rotary) -> dict[str, Any]:
    if not isinstance(rotary, MultimodalRotary):
        return {}
    interleaved = {"mrope_interleaved": True} if rotary.arrangement == "interleaved" else {}
    return {"mrope_section": list(rotary.sections), **interleaved}


def _scaling(scaling: Scaling | None) -> dict[str, Any]:
    """The fields of a scaling, which are the keys that configs have for it."""
    if scaling is None:
        return {}
    fields = {name: value for name, value in scaling.to_dict().items() if name != "kind" and value is not None}
    if isinstance(scaling, DynamicNTK):
        del fields[L0]  # there it is `max_position_embeddings`
    return {"factor": 1.0} | fields if isinstance(scaling, NTKAlpha) else fields


def _length(scaling: Scaling | None) -> dict[str, int]:
    """The longest length, where the scaling tells it."""
    if isinstance(scaling, DynamicNTK):
        return {LENGTH: scaling.original_max_position_embeddings}
    if not isinstance(scaling, YaRN | LongRoPE) or scaling.factor is None:
        return {}
    longest = scaling.factor * scaling.original_max_position_embeddings
    return {LENGTH: int(longest)} if longest == int(longest) else {}
