"""From the parameters of a rope type to its scaling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_integer, check_number
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, YaRN
from .config import stated

L0 = "original_max_position_embeddings"
LENGTH = "max_position_embeddings"
MSCALES = ("mscale", "mscale_all_dim")
Parameters = Mapping[str, Any]


def default(_: Parameters) -> None:
    """No scaling."""


def linear(parameters: Parameters) -> Linear:
    """The frequencies divided by a factor."""
    return Linear(factor=parameters["factor"])


def dynamic(parameters: Parameters) -> DynamicNTK:
    """From `max_position_embeddings` on, as in transformers, whatever the original length is said to be."""
    original, longest = parameters.get(L0), parameters.get(LENGTH)
    if original is not None and longest not in (None, original):
        warn(
            f"`rope_type` 'dynamic' starts from `{LENGTH}` {longest!r}, as transformers does, not `{L0}` {original!r}."
        )
    start: Any = original if longest is None else longest
    if start is None:
        raise ValueError(f"`{LENGTH}` is missing: `rope_type` 'dynamic' starts from it.")
    check_integer(LENGTH, start, minimum=2)
    return DynamicNTK(factor=parameters["factor"], original_max_position_embeddings=start)


def alpha(parameters: Parameters) -> NTKAlpha:
    """Hunyuan's fixed base, which it calls dynamic."""
    return NTKAlpha(alpha=parameters["alpha"])


def llama3(parameters: Parameters) -> Llama3:
    """Wavelengths kept, blended and stretched."""
    return Llama3(**{key: parameters[key] for key in ("factor", "low_freq_factor", "high_freq_factor", L0)})


def proportional(parameters: Parameters) -> Proportional:
    """The first share of the frequencies of the whole head."""
    return Proportional(**stated(parameters, ("partial_rotary_factor", "factor")))


def longrope(parameters: Parameters) -> LongRoPE:
    """A list of factors for short sequences and one for long ones."""
    fields = stated(parameters, ("short_factor", "long_factor", L0, "attention_factor", "short_mscale", "long_mscale"))
    if parameters.get("factor") is not None or not fields.keys() & {"attention_factor", "short_mscale", "long_mscale"}:
        fields["factor"] = _factor(parameters)
    return LongRoPE(**fields)


def yarn(parameters: Parameters) -> YaRN:
    """Frequencies kept, blended and divided by how often they turn."""
    fields = _fields(parameters) | stated(parameters, MSCALES)
    said = fields.keys() & {*MSCALES, "attention_factor"}
    if parameters.get("attn_factor") not in (None, 1):  # it multiplies the usual factor, and is not one in its place
        check_number("attn_factor", parameters["attn_factor"], above=0)
        if said:
            raise ValueError(f"`attn_factor` must be left out beside `{min(said)}`, got {parameters['attn_factor']!r}.")
        fields["attention_factor"] = parameters["attn_factor"] * _growth(fields["factor"], 0.1)
    if said in ({"mscale"}, {"mscale_all_dim"}):
        warn(f"`{said.pop()}` has no effect alone: `rope_type` 'yarn' takes both of `mscale` and `mscale_all_dim`.")
    return YaRN(**fields)


def deepseek_yarn(parameters: Parameters) -> YaRN:
    """YaRN where one `mscale` counts without the other."""
    fields = _fields(parameters)
    mscales = {"mscale": 1, "mscale_all_dim": 0} | stated(parameters, MSCALES)
    for key, value in mscales.items():
        check_number(key, value, minimum=0)
    if all(mscales.values()):
        return YaRN(**fields | mscales)
    over, under = (_growth(fields["factor"], 0.1 * mscale) for mscale in mscales.values())
    return YaRN(**{"attention_factor": over / under} | fields)


def telechat_yarn(parameters: Parameters) -> YaRN:
    """YaRN with an attention factor that grows more slowly."""
    fields = _fields(parameters)
    return YaRN(**{"attention_factor": _growth(fields["factor"], 0.07)} | fields)


def _fields(parameters: Parameters) -> dict[str, Any]:
    """What all of YaRN's types have."""
    if parameters.get("extrapolation_factor") not in (None, 1):
        raise ValueError(f"`extrapolation_factor` must be 1, got {parameters['extrapolation_factor']!r}.")
    fields = stated(parameters, (L0, "beta_fast", "beta_slow", "attention_factor", "truncate"))
    fields["factor"] = _factor(parameters)
    return fields


def _factor(parameters: Parameters) -> float:
    """How many times longer sequences may become: the factor given, or the longest length over the original."""
    factor, longest, original = parameters.get("factor"), parameters.get(LENGTH), parameters[L0]
    check_integer(L0, original, minimum=2)
    if longest is not None:
        check_integer(LENGTH, longest, minimum=2)
    if factor is not None:
        check_number("factor", factor, minimum=1)
        if longest not in (None, original, factor * original):
            warn(
                f"`factor` {factor!r} is used, though `{LENGTH}` {longest!r} is not as many times `{L0}` {original!r}."
            )
        return float(factor)
    if longest is None or longest < original:
        raise ValueError(f"`factor` is missing, and `{LENGTH}` {longest!r} over `{L0}` {original!r} is none.")
    return float(longest / original)


def _growth(factor: float, rate: float) -> float:
    return rate * math.log(factor) + 1


def warn(message: str) -> None:
    """Warn the caller of `load_rope`."""
    warnings.warn(message, UserWarning, stacklevel=2)
