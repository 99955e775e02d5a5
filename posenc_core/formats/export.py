"""Export: the metadata of GGUF, the arguments of Megatron-LM and the `params.json` that describe an encoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._array_api.checks import check_known, check_type, shown
from ..encodings import MultimodalRotary, Rotary
from ..rotation import Layout
from ..scaling import Linear, Llama3, LongRoPE, Proportional, Scaling, YaRN
from . import gguf_architectures as facts
from .gguf import ARCHITECTURE, FREQS, LONG, ORIGINAL, SHORT, divisors_of
from .values import share_of

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
    if isinstance(rotary, MultimodalRotary):
        found["rope.dimension_sections"] = [*rotary.sections, 0]
    found |= _gguf_scaling(rotary, architecture)
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
    if isinstance(rotary, MultimodalRotary):
        kind = {"position-embedding-type": "mrope", "mrope-section": " ".join(map(str, rotary.sections))}
        if rotary.layout != "half" or rotary.arrangement != "chunked" or len(rotary.sections) != 3:
            raise ValueError(f"`sections` must be three in chunks of halves for Megatron-LM, got {shown(rotary)}.")
    if isinstance(rotary.scaling, YaRN):
        kind = {"position-embedding-type": "yarn"} | _megatron_yarn(rotary)
    elif rotary.scaling is not None:
        kind |= _megatron_scaling(rotary)
    return _words(kind | options)


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
    if isinstance(rotary, MultimodalRotary) or rotary.rotary_channels != rotary.head_dim:
        raise ValueError(f"`rotary` must rotate all channels by one position in params.json, got {shown(rotary)}.")
    scaling, keys = rotary.scaling, {"head_dim": rotary.head_dim, "rope_theta": rotary.base}
    if scaling is None:
        return keys | {"use_scaled_rope": False}
    if isinstance(scaling, Llama3) and (scaling.low_freq_factor, scaling.original_max_position_embeddings) == (
        1,
        LENGTH,
    ):
        numbers = {"rope_scaling_factor": scaling.factor, "rope_high_freq_factor": scaling.high_freq_factor}
        return keys | {"use_scaled_rope": True} | numbers
    if isinstance(scaling, YaRN) and scaling.truncate and rotary.attention_factor in (1, float(scaling.growth(1))):
        yarn = {"factor": scaling.factor, ORIGINAL: scaling.original_max_position_embeddings}
        applies = {"apply_scale": rotary.attention_factor != 1 or scaling.factor == 1}
        return keys | {"yarn": yarn | {"beta": scaling.beta_fast, "alpha": scaling.beta_slow} | applies}
    raise _cannot("params.json", scaling)


def partial(rotary: Rotary, *, name: str = "partial_rotary_factor") -> dict[str, float]:
    """Return the share of rotated channels, under its name; nothing if all are."""
    channels, head = rotary.rotary_channels, rotary.head_dim
    return {} if channels == head else {name: share_of(channels, head)}


def _check_fields(rotary: Rotary, target: str) -> None:
    """Raise unless the fields that no format has a key for have their defaults."""
    if not isinstance(rotary, Rotary):
        raise TypeError(f"`rotary` must be a Rotary, got {type(rotary).__name__}.")
    if rotary.own is not None:
        raise ValueError(f"`frequencies` must be left out for {target}: give the encoding a base and a scaling.")
    placement = "spread" if isinstance(rotary.scaling, Proportional) else "lead"
    for name, default in {"direction": "forward", "precision": "exact", "placement": placement}.items():
        if getattr(rotary, name) != default:
            raise ValueError(f"`{name}` must be {shown(default)} for {target}, got {shown(getattr(rotary, name))}.")


def _check_layout(rotary: Rotary, architecture: str) -> None:
    """Raise unless llama.cpp rotates pairs of this layout and these axes for the architecture."""
    kind, axes = facts.KINDS[architecture], isinstance(rotary, MultimodalRotary)
    layout: Layout = "interleaved" if kind == "norm" and not axes else "half"
    if rotary.layout != layout:
        hint = "relayout the weights, or name another architecture"
        raise ValueError(
            f"`layout` must be {shown(layout)} for the architecture {shown(architecture)}, "
            f"got {shown(rotary.layout)}: {hint}."
        )
    if axes != (kind in ("mrope", "imrope") or (axes and architecture in facts.BY_SECTIONS)):
        raise ValueError(f"`architecture` must have {'three axes' if axes else 'one axis'}, got {shown(architecture)}.")
    if isinstance(rotary, MultimodalRotary):
        check_known("arrangement", rotary.arrangement, ("interleaved",) if kind == "imrope" else ("chunked",))
        if len(rotary.sections) != 3 or not all(rotary.sections[:2]):
            raise ValueError(f"`sections` must be three numbers above 0 for GGUF, got {shown(rotary.sections)}.")
    if rotary.rotary_channels != rotary.head_dim and architecture in facts.WHOLE:
        raise ValueError(
            f"`rotary_dim` must be left out for the architecture {shown(architecture)}, got {rotary.rotary_dim}."
        )


def _float32(name: str, value: float) -> float:
    """Return the number if the shortest decimal of its float32 is the number itself."""
    if float(str(np.float32(value))) != value:
        raise ValueError(f"`{name}` must have the digits of float32 for GGUF, got {shown(value)}.")
    return float(value)


def _gguf_scaling(rotary: Rotary, architecture: str) -> dict[str, Any]:
    """Return the keys and tensors of the scaling."""
    scaling = rotary.scaling
    if scaling is None:
        return {}
    if isinstance(scaling, Linear):
        return {"rope.scaling.type": "linear", "rope.scaling.factor": _float32("factor", scaling.factor)}
    if isinstance(scaling, YaRN):
        return {"rope.scaling.type": "yarn"} | _gguf_yarn(scaling, rotary.attention_factor, architecture)
    if isinstance(scaling, LongRoPE) and not scaling.is_long and scaling.short_mscale == scaling.long_mscale:
        _check_reads(scaling, architecture, facts.TWO_LISTS)
        longest = scaling.original_max_position_embeddings * (scaling.factor or 1)
        return {
            "rope.scaling.type": "longrope",
            "rope.scaling.attn_factor": rotary.attention_factor,
            "rope.scaling.original_context_length": scaling.original_max_position_embeddings,
            SHORT: _float32s(scaling.short_factor),
            LONG: _float32s(scaling.long_factor),
        } | ({"context_length": int(longest)} if longest == int(longest) else {})
    if isinstance(scaling, Llama3):
        _check_reads(scaling, architecture, facts.DIVISORS)
        divisors = divisors_of(scaling, rotary.rotary_channels, rotary.base)
        original = {"rope.scaling.original_context_length": scaling.original_max_position_embeddings}
        return original | {FREQS: _float32s(divisors)}
    if isinstance(scaling, Proportional) and scaling.factor == 1:
        _check_reads(scaling, architecture, facts.DIVISORS)
        return {FREQS: [1.0] * rotary.pairs + [1e30] * (rotary.head_dim // 2 - rotary.pairs)}
    raise _cannot("GGUF", scaling)


def _float32s(numbers: Any) -> list[float]:
    return [float(np.float32(number)) for number in numbers]


def _check_reads(scaling: Scaling, architecture: str, readers: set[str]) -> None:
    if architecture not in readers:
        names = ", ".join(sorted(readers)[:6])
        what = type(scaling).__name__
        raise ValueError(
            f"`architecture` must be one that llama.cpp reads {what} for ({names}, …), got {shown(architecture)}."
        )


def _gguf_yarn(scaling: YaRN, attention: float, architecture: str) -> dict[str, Any]:
    """Return the keys of YaRN; llama.cpp multiplies the usual attention factor by `attn_factor`."""
    if not scaling.truncate:
        raise ValueError("`truncate` must be True for GGUF, as llama.cpp widens the ramp to whole indices, got False.")
    keys: dict[str, Any] = {
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
    usual = float(scaling.growth(1))
    return keys if attention == usual else keys | {"rope.scaling.attn_factor": attention / usual}


def _latent(rotary: Rotary) -> dict[str, Any]:
    """Return the options of multi-head latent attention."""
    scaling = rotary.scaling
    if scaling is None and not isinstance(rotary, MultimodalRotary):
        return {"multi-latent-attention": None, "rope-type": "rope"}
    if not isinstance(scaling, YaRN) or isinstance(rotary, MultimodalRotary):
        raise _cannot("Megatron-LM's latent attention", scaling)
    fixed = {ORIGINAL: 4096, "beta_fast": 32, "beta_slow": 1, "truncate": True}
    for name, value in fixed.items():
        if getattr(scaling, name) != value:
            raise ValueError(
                f"`{name}` must be {shown(value)} for Megatron-LM, which has no option for it with latent attention, "
                f"got {shown(getattr(scaling, name))}."
            )
    _check_whole(rotary)
    return {"multi-latent-attention": None, "rope-type": "yarn", "rotary-scaling-factor": scaling.factor} | _mscales(
        scaling
    )


def _check_whole(rotary: Rotary) -> None:
    if rotary.rotary_channels != rotary.head_dim:
        raise ValueError(f"`rotary_dim` must be left out for YaRN in Megatron-LM, got {rotary.rotary_dim}.")


def _megatron_yarn(rotary: Rotary) -> dict[str, Any]:
    scaling: Any = rotary.scaling
    _check_whole(rotary)
    if rotary.layout != "half" or isinstance(rotary, MultimodalRotary):
        raise ValueError(f"`layout` must be 'half', with one axis, for YaRN in Megatron-LM, got {shown(rotary)}.")
    options = {
        "rotary-scaling-factor": scaling.factor,
        "yarn-original-max-position-embeddings": scaling.original_max_position_embeddings,
        "yarn-beta-fast": scaling.beta_fast,
        "yarn-beta-slow": scaling.beta_slow,
    }
    return options | ({} if scaling.truncate else {"no-yarn-correction-range-round-to-int": None}) | _mscales(scaling)


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


def _megatron_scaling(rotary: Rotary) -> dict[str, Any]:
    scaling = rotary.scaling
    if isinstance(scaling, Linear):
        if scaling.factor != int(scaling.factor):
            raise ValueError(f"`factor` must be an integer for Megatron-LM, got {shown(scaling.factor)}.")
        return {"rotary-seq-len-interpolation-factor": int(scaling.factor)}
    if isinstance(scaling, Llama3) and not isinstance(rotary, MultimodalRotary):
        fixed = {"low_freq_factor": 1, "high_freq_factor": 4, ORIGINAL: LENGTH}
        for name, value in fixed.items():
            if getattr(scaling, name) != value:
                has = f"`{name}` must be {value} for Megatron-LM, which has it in its code"
                raise ValueError(f"{has}, got {shown(getattr(scaling, name))}.")
        return {"use-rope-scaling": None, "rope-scaling-factor": scaling.factor}
    raise _cannot("Megatron-LM", scaling)


def _cannot(target: str, scaling: Scaling | None) -> ValueError:
    return ValueError(f"`scaling` cannot be expressed by {target}, got {shown(scaling)}.")


def _words(options: dict[str, Any]) -> list[str]:
    """Return options and their values as words; those that are None have no value."""
    return [
        word
        for name, value in options.items()
        for word in (f"--{name}", *([] if value is None else str(value).split()))
    ]
