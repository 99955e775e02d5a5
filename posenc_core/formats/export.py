"""Export: the metadata of GGUF, the arguments of Megatron-LM and the `params.json` that describe an encoding."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from .._array_api.checks import check_known, check_type, shown
from ..encodings import MultimodalRotary, Rotary
from ..rotation import Layout
from ..scaling import Linear, Llama3, LongRoPE, Proportional, Scaling, YaRN
from . import gguf_architectures as facts
from .gguf import ARCHITECTURE, FREQS, LONG, ORIGINAL, SHORT, find_divisors
from .values import find_share

LENGTH = 8192  # the original length of Llama 3, which Megatron-LM and Meta have in their code


def to_gguf(rotary: Rotary, *, architecture: str) -> dict[str, Any]:
    """Return the metadata of GGUF that describe an encoding; tensors are lists of numbers, by their names.

    Integers belong into a file as uint32, other numbers as float32, the lists as tensors of float32: divisors and the
    attention factor are rounded to it.

    Args:
        rotary: the encoding, without `at(length)`, in the layout of the weights in the file.
        architecture: llama.cpp's name of the model, such as `"llama"`, which determines the layout.
    Returns:
        A dict that `load_rope` reads.
    Raises:
        TypeError: if `rotary` is not a `Rotary`.
        ValueError: if the architecture is unknown, or llama.cpp cannot express a field for it.
    Source: llama.cpp of October 2026.

    >>> to_gguf(Rotary(head_dim=64, layout="half", base=1e6), architecture="qwen2")["qwen2.rope.freq_base"]
    1000000.0
    """
    _check_fields(rotary, "GGUF")
    check_type("architecture", architecture, str, "a string")
    known = [name for name, kind in facts.KINDS.items() if kind != "none"]
    if architecture not in known:
        hint = "such as 'llama' or 'qwen2'"
        raise ValueError(f"`architecture` must be one that llama.cpp rotates, {hint}, got {shown(architecture)}.")
    _check_layout(rotary, architecture)
    found: dict[str, Any] = {
        "attention.key_length": rotary.head_dim,
        "rope.dimension_count": rotary.rotary_channels,
        "rope.freq_base": _float32("base", rotary.base),
    }
    if axes := _multimodal(rotary):
        found["rope.dimension_sections"] = [*axes.sections, 0]
    found |= _gguf_scaling(rotary.scaling, rotary, architecture)
    named = {key if key in (FREQS, SHORT, LONG) else f"{architecture}.{key}": value for key, value in found.items()}
    return {ARCHITECTURE: architecture} | named


def to_megatron(rotary: Rotary) -> list[str]:
    """Return the arguments of Megatron-LM that describe an encoding, as the words of its command line.

    Multi-head latent attention, whose rotation has the layout `"interleaved_to_half"`, is chosen by that layout.

    Args:
        rotary: the encoding, in the layout of the weights that Megatron-LM trains.
    Returns:
        Words that `load_rope` reads.
    Raises:
        TypeError: if `rotary` is not a `Rotary`.
        ValueError: if the arguments cannot express one of its fields.
    Source: `megatron/training/arguments.py` of Megatron-LM, August 2026.

    >>> " ".join(to_megatron(Rotary(head_dim=64, layout="half", base=500000)))
    '--position-embedding-type rope --kv-channels 64 --rotary-base 500000'
    """
    _check_fields(rotary, "Megatron-LM")
    if rotary.base != int(rotary.base):
        raise ValueError(f"`base` must be an integer for Megatron-LM, got {shown(rotary.base)}.")
    options: dict[str, Any] = {"rotary-base": int(rotary.base)} | {
        f"rotary-{key}": value for key, value in partial(rotary, name="percent").items()
    }
    if rotary.layout == "interleaved_to_half":
        return _words({**_latent(rotary), "qk-pos-emb-head-dim": rotary.head_dim} | options)
    options = {"kv-channels": rotary.head_dim} | options
    if rotary.layout == "interleaved":
        options["rotary-interleaved"] = None
    kind: dict[str, Any] = {"position-embedding-type": "rope"}
    if axes := _multimodal(rotary):
        kind = {"position-embedding-type": "mrope", "mrope-section": " ".join(map(str, axes.sections))}
        if axes.layout != "half" or axes.arrangement != "chunked" or len(axes.sections) != 3:
            raise ValueError(f"`sections` must be three in chunks of halves for Megatron-LM, got {shown(rotary)}.")
    return _words(kind | _megatron_scaling(rotary.scaling, rotary) | options)


def to_params(rotary: Rotary) -> dict[str, Any]:
    """Return the keys of a `params.json` that describe an encoding: Mistral's for `YaRN`, else Meta's.

    Args:
        rotary: the encoding; these formats rotate adjacent channels.
    Returns:
        A dict that `load_rope` reads.
    Raises:
        TypeError: if `rotary` is not a `Rotary`.
        ValueError: if the keys cannot express one of its fields.
    Source: mistral-inference 1.6, llama-models 0.3.

    >>> to_params(Rotary(head_dim=64, layout="interleaved", base=500000))
    {'head_dim': 64, 'rope_theta': 500000, 'use_scaled_rope': False}
    """
    _check_fields(rotary, "params.json")
    if rotary.layout != "interleaved":
        raise ValueError(f"`layout` must be 'interleaved' in params.json, got {shown(rotary.layout)}.")
    if _multimodal(rotary) or rotary.rotary_channels != rotary.head_dim:
        raise ValueError(f"`rotary` must rotate all channels by one position in params.json, got {shown(rotary)}.")
    return {"head_dim": rotary.head_dim, "rope_theta": rotary.base} | _params_scaling(rotary.scaling, rotary)


def partial(rotary: Rotary, *, name: str = "partial_rotary_factor") -> dict[str, float]:
    """Return the share of rotated channels, under its name; nothing if all are."""
    channels, head = rotary.rotary_channels, rotary.head_dim
    return {} if channels == head else {name: find_share(channels, head)}


def _check_fields(rotary: Rotary, target: str) -> None:
    """Raise unless the fields that no format has a key for have their defaults."""
    if not isinstance(rotary, Rotary):
        raise TypeError(f"`rotary` must be a Rotary, got {type(rotary).__name__}.")
    if rotary.own is not None:
        raise ValueError(f"`frequencies` must be left out for {target}: give the encoding a base and a scaling.")
    placement = "spread" if isinstance(rotary.scaling, Proportional) else "lead"
    check_defaults(rotary, f"for {target}", direction="forward", precision="exact", placement=placement)


def check_defaults(value: Any, where: str, **defaults: Any) -> None:
    """Raise unless fields, by their names, have their defaults, as `where` there is no key for them."""
    for name, default in defaults.items():
        if (given := getattr(value, name)) != default:
            raise ValueError(f"`{name}` must be {shown(default)} {where}, got {shown(given)}.")


def _check_layout(rotary: Rotary, architecture: str) -> None:
    """Raise unless llama.cpp rotates pairs of this layout and these axes for the architecture."""
    kind, axes = facts.KINDS[architecture], _multimodal(rotary)
    layout: Layout = "interleaved" if kind == "norm" and not axes else "half"
    if rotary.layout != layout:
        hint = "relayout the weights, or name another architecture"
        raise ValueError(
            f"`layout` must be {shown(layout)} for the architecture {shown(architecture)}, "
            f"got {shown(rotary.layout)}: {hint}."
        )
    if bool(axes) != (kind in ("mrope", "imrope") or (bool(axes) and architecture in facts.BY_SECTIONS)):
        raise ValueError(f"`architecture` must have {'three axes' if axes else 'one axis'}, got {shown(architecture)}.")
    if axes:
        check_known("arrangement", axes.arrangement, ("interleaved",) if kind == "imrope" else ("chunked",))
        if len(axes.sections) != 3 or not all(axes.sections[:2]):
            raise ValueError(f"`sections` must be three numbers above 0 for GGUF, got {shown(axes.sections)}.")
    if rotary.rotary_channels != rotary.head_dim and architecture in facts.WHOLE:
        raise ValueError(
            f"`rotary_dim` must be left out for the architecture {shown(architecture)}, got {rotary.rotary_dim}."
        )


def _float32(name: str, value: float) -> float:
    """Return the number if the shortest decimal of its float32 is the number itself."""
    if float(str(np.float32(value))) != value:
        raise ValueError(f"`{name}` must have the digits of float32 for GGUF, got {shown(value)}.")
    return float(value)


@singledispatch
def _gguf_scaling(scaling: Scaling | None, rotary: Rotary, architecture: str) -> dict[str, Any]:
    """Return the keys and tensors of the scaling, of which llama.cpp has others for each kind."""
    if scaling is None:
        return {}
    raise _cannot("GGUF", scaling)


@_gguf_scaling.register
def _(scaling: Linear, rotary: Rotary, architecture: str) -> dict[str, Any]:
    return {"rope.scaling.type": "linear", "rope.scaling.factor": _float32("factor", scaling.factor)}


@_gguf_scaling.register
def _(scaling: LongRoPE, rotary: Rotary, architecture: str) -> dict[str, Any]:
    if scaling.is_long or scaling.short_mscale != scaling.long_mscale:
        raise _cannot("GGUF", scaling)
    _check_reads(scaling, architecture, facts.TWO_LISTS)
    longest = scaling.original_max_position_embeddings * (scaling.factor or 1)
    return {
        "rope.scaling.type": "longrope",
        "rope.scaling.attn_factor": rotary.attention_factor,
        "rope.scaling.original_context_length": scaling.original_max_position_embeddings,
        SHORT: _float32s(scaling.short_factor),
        LONG: _float32s(scaling.long_factor),
    } | ({"context_length": int(longest)} if longest == int(longest) else {})


@_gguf_scaling.register
def _(scaling: Llama3, rotary: Rotary, architecture: str) -> dict[str, Any]:
    _check_reads(scaling, architecture, facts.DIVISORS)
    divisors = find_divisors(scaling, rotary.rotary_channels, rotary.base)
    original = {"rope.scaling.original_context_length": scaling.original_max_position_embeddings}
    return original | {FREQS: _float32s(divisors)}


@_gguf_scaling.register
def _(scaling: Proportional, rotary: Rotary, architecture: str) -> dict[str, Any]:
    if scaling.factor != 1:
        raise _cannot("GGUF", scaling)
    _check_reads(scaling, architecture, facts.DIVISORS)
    return {FREQS: [1.0] * rotary.pairs + [1e30] * (rotary.head_dim // 2 - rotary.pairs)}


def _float32s(numbers: Any) -> list[float]:
    return [float(np.float32(number)) for number in numbers]


def _check_reads(scaling: Scaling, architecture: str, readers: set[str]) -> None:
    if architecture not in readers:
        names = ", ".join(sorted(readers)[:6])
        what = type(scaling).__name__
        raise ValueError(
            f"`architecture` must be one that llama.cpp reads {what} for ({names}, …), got {shown(architecture)}."
        )


@_gguf_scaling.register
def _(scaling: YaRN, rotary: Rotary, architecture: str) -> dict[str, Any]:
    """Return the keys of YaRN; llama.cpp multiplies the usual attention factor by `attn_factor`."""
    if not scaling.truncate:
        raise ValueError("`truncate` must be True for GGUF, as llama.cpp widens the ramp to whole indices, got False.")
    keys: dict[str, Any] = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": _float32("factor", scaling.factor),
        "rope.scaling.original_context_length": scaling.original_max_position_embeddings,
    }
    for name, default in (("beta_fast", 32), ("beta_slow", 1)):
        if (value := getattr(scaling, name)) != default:
            if architecture not in facts.BETAS:
                raise ValueError(
                    f"`{name}` must be {default} for the architecture {shown(architecture)}, got {shown(value)}."
                )
            keys[f"rope.scaling.yarn_{name}"] = _float32(name, value)
    attention, usual = rotary.attention_factor, float(scaling.growth(1))
    return keys if attention == usual else keys | {"rope.scaling.attn_factor": attention / usual}


def _latent(rotary: Rotary) -> dict[str, Any]:
    """Return the options of multi-head latent attention."""
    scaling, axes = rotary.scaling, _multimodal(rotary)
    if scaling is None and not axes:
        return {"multi-latent-attention": None, "rope-type": "rope"}
    if not isinstance(scaling, YaRN) or axes:
        raise _cannot("Megatron-LM's latent attention", scaling)
    where = "for Megatron-LM, which has no option for it with latent attention"
    check_defaults(scaling, where, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1, truncate=True)
    _check_whole(rotary)
    options = {"multi-latent-attention": None, "rope-type": "yarn", "rotary-scaling-factor": scaling.factor}
    return options | _mscales(scaling)


def _check_whole(rotary: Rotary) -> None:
    if rotary.rotary_channels != rotary.head_dim:
        raise ValueError(f"`rotary_dim` must be left out for YaRN in Megatron-LM, got {rotary.rotary_dim}.")


def _mscales(scaling: YaRN) -> dict[str, float]:
    """Return the two numbers that the attention factor follows from."""
    if scaling.attention_factor is None:
        both = scaling.mscale and scaling.mscale_all_dim
        return {"mscale": scaling.mscale, "mscale-all-dim": scaling.mscale_all_dim} if both else {}  # type: ignore[dict-item]
    if scaling.attention_factor != 1:
        raise ValueError(
            f"`attention_factor` must be None or 1, as Megatron-LM computes it, got {shown(scaling.attention_factor)}."
        )
    return {"mscale": 1.0, "mscale-all-dim": 1.0}


@singledispatch
def _megatron_scaling(scaling: Scaling | None, rotary: Rotary) -> dict[str, Any]:
    """Return the options of the scaling, of which Megatron-LM has others for each kind."""
    if scaling is None:
        return {}
    raise _cannot("Megatron-LM", scaling)


@_megatron_scaling.register
def _(scaling: Linear, rotary: Rotary) -> dict[str, Any]:
    if scaling.factor != int(scaling.factor):
        raise ValueError(f"`factor` must be an integer for Megatron-LM, got {shown(scaling.factor)}.")
    return {"rotary-seq-len-interpolation-factor": int(scaling.factor)}


@_megatron_scaling.register
def _(scaling: Llama3, rotary: Rotary) -> dict[str, Any]:
    if _multimodal(rotary):
        raise _cannot("Megatron-LM", scaling)
    fixed = {"low_freq_factor": 1, "high_freq_factor": 4, ORIGINAL: LENGTH}
    check_defaults(scaling, "for Megatron-LM, which has it in its code", **fixed)
    return {"use-rope-scaling": None, "rope-scaling-factor": scaling.factor}


@_megatron_scaling.register
def _(scaling: YaRN, rotary: Rotary) -> dict[str, Any]:
    _check_whole(rotary)
    if rotary.layout != "half" or _multimodal(rotary):
        raise ValueError(f"`layout` must be 'half', with one axis, for YaRN in Megatron-LM, got {shown(rotary)}.")
    options = {
        "position-embedding-type": "yarn",
        "rotary-scaling-factor": scaling.factor,
        "yarn-original-max-position-embeddings": scaling.original_max_position_embeddings,
        "yarn-beta-fast": scaling.beta_fast,
        "yarn-beta-slow": scaling.beta_slow,
    }
    return options | ({} if scaling.truncate else {"no-yarn-correction-range-round-to-int": None}) | _mscales(scaling)


@singledispatch
def _params_scaling(scaling: Scaling | None, rotary: Rotary) -> dict[str, Any]:
    """Return the keys of the scaling: Meta's file has one kind, Mistral's has another."""
    if scaling is None:
        return {"use_scaled_rope": False}
    raise _cannot("params.json", scaling)


@_params_scaling.register
def _(scaling: Llama3, rotary: Rotary) -> dict[str, Any]:
    if (scaling.low_freq_factor, scaling.original_max_position_embeddings) != (1, LENGTH):
        raise _cannot("params.json", scaling)
    numbers = {"rope_scaling_factor": scaling.factor, "rope_high_freq_factor": scaling.high_freq_factor}
    return {"use_scaled_rope": True} | numbers


@_params_scaling.register
def _(scaling: YaRN, rotary: Rotary) -> dict[str, Any]:
    if not scaling.truncate or rotary.attention_factor not in (1, float(scaling.growth(1))):
        raise _cannot("params.json", scaling)
    yarn = {"factor": scaling.factor, ORIGINAL: scaling.original_max_position_embeddings}
    scale = {"apply_scale": rotary.attention_factor != 1 or scaling.factor == 1}
    return {"yarn": yarn | {"beta": scaling.beta_fast, "alpha": scaling.beta_slow} | scale}


def _multimodal(rotary: Rotary) -> MultimodalRotary | None:
    """Return the encoding if its pairs have sections, which formats write and other classes of `Rotary` lack."""
    return rotary if isinstance(rotary, MultimodalRotary) else None


def _cannot(target: str, scaling: Scaling | None) -> ValueError:
    return ValueError(f"`scaling` cannot be expressed by {target}, got {shown(scaling)}.")


def _words(options: dict[str, Any]) -> list[str]:
    """Return options and their values as words; those that are None have no value."""
    return [
        word
        for name, value in options.items()
        for word in (f"--{name}", *([] if value is None else str(value).split()))
    ]
