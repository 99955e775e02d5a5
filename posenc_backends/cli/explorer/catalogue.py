"""The encodings and scalings that the explorer offers, and the usual values of fields that follow from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posenc_core.encodings import (
    Alibi,
    AxialRotary,
    Binary,
    DualChunk,
    DynamicPositionBias,
    Encoding,
    Fire,
    FoPE,
    FourierFeatures,
    GridSinusoidal,
    Integer,
    Kerple,
    LeakyReRoPE,
    Learned,
    LearnedQueryScale,
    LearnedRotary,
    LearnedSinusoidal,
    MixedRotary,
    MultimodalRotary,
    Normalized,
    PoPE,
    QueryScale,
    RandomFourierFeatures,
    ReRoPE,
    Rotary,
    Sandwich,
    SelfExtend,
    Sine,
    Sinusoidal,
    SwinBias,
    SwinV2Bias,
    T5Bias,
    Timestep,
    XPos,
)
from posenc_core.scaling import (
    NTK,
    AttentionFactor,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    NTKAlpha,
    Proportional,
    Scaling,
    YaRN,
)

# Without subclasses of `ContentScoring`, which add to the scores what depends on queries and keys.
GROUPS: dict[str, tuple[type[Encoding], ...]] = {
    "added to embeddings": (
        Integer, Normalized, Binary, Sine, Sinusoidal, Timestep, FourierFeatures, RandomFourierFeatures,
    ),
    "rotary": (Rotary, XPos),
    "rotary, at remapped positions": (SelfExtend, ReRoPE, LeakyReRoPE, DualChunk),
    "images and video": (GridSinusoidal, AxialRotary, MultimodalRotary),
    "added to scores": (Alibi, Sandwich),
    "factors of queries": (QueryScale, LearnedQueryScale),
    "learned, with initial parameters": (
        Learned, LearnedSinusoidal, LearnedRotary, FoPE, PoPE, MixedRotary, T5Bias, Kerple, Fire, DynamicPositionBias,
        SwinBias, SwinV2Bias,
    ),
}  # fmt: skip
KINDS: dict[str, type[Encoding]] = {cls.__name__: cls for group in GROUPS.values() for cls in group}
SCALINGS: dict[str, type[Scaling]] = {
    cls.__name__: cls
    for cls in (Linear, NTK, NTKAlpha, DynamicNTK, YaRN, Llama3, LongRoPE, Proportional, AttentionFactor)
}


def is_image(cls: type[Encoding], num_axes: int = 1) -> bool:
    """Return whether an encoding is drawn for the cells of an image."""
    return cls in (GridSinusoidal, AxialRotary, MixedRotary, MultimodalRotary, SwinBias, SwinV2Bias) or num_axes > 1


def initial_parameters(encoding: Encoding) -> dict[str, Any]:
    """Return numbers of each parameter, from the distribution that a layer starts from, with seed 0."""
    generator = np.random.default_rng(0)
    return {
        name: parameter.initial(generator.standard_normal(parameter.shape)).astype(np.float32)
        for name, parameter in encoding.parameters().items()
    }


def usual(cls: type[Encoding], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those fields that are empty and follow from others."""
    return {name: make(fields) for name, make in USUAL.get(cls, {}).items() if fields[name] is None}


def divisors(given: tuple[float, ...], pairs: int) -> tuple[float, ...]:
    """Return a divisor for each frequency; one or two numbers stand for the first and the last, in equal ratios.

    >>> divisors((1.0, 4.0), 3)
    (1.0, 2.0, 4.0)
    """
    if len(given) > 2 or len(given) == pairs:
        return given
    return tuple(np.geomspace(given[0], given[-1], pairs).tolist())


def _equal_shares(fields: Mapping[str, Any]) -> tuple[int, ...]:
    half = 2 * (fields["head_dim"] // 4)
    return fields["head_dim"] - half, half  # both even, so that each even width makes an encoding


def _sections(fields: Mapping[str, Any]) -> tuple[int, ...]:
    """Return sections in the proportions of Qwen2-VL, Qwen3-VL and Ernie 4.5 VL."""
    pairs = (fields["rotary_dim"] or fields["head_dim"]) // 2
    arrangement = fields["arrangement"]
    axis = pairs * {"chunked": 24, "interleaved": 20, "ernie": 22}[arrangement] // 64
    time = pairs - 2 * axis
    return (axis, axis, time) if arrangement == "ernie" else (time, axis, axis)


USUAL: dict[type[Encoding], dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    AxialRotary: {"axes_dims": _equal_shares},
    FoPE: {"num_terms": lambda fields: None if fields["length"] else max(fields["head_dim"] // 4, 1)},
    MixedRotary: {"rotary_dim": lambda fields: fields["head_dim"] - fields["head_dim"] % (2 * fields["num_axes"])},
    MultimodalRotary: {"sections": _sections},
    QueryScale: {"scale": lambda fields: None if fields["growth"] == "log" else 0.1},
    GridSinusoidal: {"num_axes": lambda fields: 3 if fields["convention"] == "diffusers" else 2},
}
