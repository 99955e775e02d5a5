"""From the parameters of a rope type to its scaling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._array_api.checks import check_integer, check_known, check_number
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, Scaling, YaRN
from .config import agreed, stated

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


COMMON = {
    "rope_type", "type", "rope_theta", "partial_rotary_factor", "rotary_dim", "rope_dim", LENGTH, L0, "mrope_section",
    "mrope_interleaved", "llama_4_scaling_beta",
}  # fmt: skip
FACTORS = {"factor", "alpha", "attention_factor", "attn_factor", "extrapolation_factor", *MSCALES}
WITH_ALPHA = "dynamic with alpha"
ALIASES = {"su": "longrope", "mrope": "default"}
REFUSED = {
    "ntk": "three different formulas go by that name; make an `NTK` or an `NTKAlpha`",
    "xdrope": "no encoding here deals four axes over a doubled table",
    "axial": "it is a vision tower's; make an `AxialRotary`",
}


class Kind(NamedTuple):
    """One rope type.

    Attributes:
        scaling: from the parameters to the scaling.
        required: keys that must have a value.
        optional: keys that may have one, beside those that all types have.
    """

    scaling: Callable[[Mapping[str, Any]], Scaling | None]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


_BETAS = ("beta_fast", "beta_slow")
_YARN = ("factor", "attention_factor", "extrapolation_factor", *_BETAS, "truncate", "finetuned")
_LONGROPE = ("factor", "attention_factor", "short_mscale", "long_mscale")
KINDS = {
    "default": Kind(default),
    "linear": Kind(linear, ("factor",)),
    "dynamic": Kind(dynamic, ("factor",)),
    WITH_ALPHA: Kind(alpha, ("alpha",), (*_BETAS, *MSCALES)),  # those of YaRN are there, and do nothing
    "yarn": Kind(yarn, (L0,), (*_YARN, *MSCALES, "attn_factor")),
    "deepseek_yarn": Kind(deepseek_yarn, (L0,), (*_YARN, *MSCALES)),
    "telechat3-yarn": Kind(telechat_yarn, (L0,), _YARN),
    "llama3": Kind(llama3, ("factor", "low_freq_factor", "high_freq_factor", L0)),
    "longrope": Kind(longrope, ("short_factor", "long_factor", L0), _LONGROPE),
    "proportional": Kind(proportional, (), ("factor",)),
}
KEYS = COMMON.union(*(kind.required + kind.optional for kind in KINDS.values()))


def kind_of(parameters: Mapping[str, Any]) -> Kind:
    """The rope type of the parameters.

    Raises:
        ValueError: if it is unknown, a key is missing, or there is one that it does not have.
    """
    given = stated(parameters, ("rope_type", "type"))
    name = agreed({key: ALIASES.get(str(name), name) for key, name in given.items()})
    name = "default" if name is None else name
    if str(name) in REFUSED:
        raise ValueError(f"`rope_type` {name!r} cannot be loaded: {REFUSED[name]}.")
    check_known("rope_type", name, [known for known in KINDS if known != WITH_ALPHA])
    if name == "dynamic" and parameters.get("alpha") is not None:
        name = WITH_ALPHA
    _check_keys(parameters, name)
    return KINDS[name]


def changes_nothing(key: str, value: Any) -> bool:
    """Whether a key may stand beside any rope type: no value, a factor of 1, or the type of no scaling."""
    return value is None or (key in FACTORS and value == 1) or (key in ("rope_type", "type") and value == "default")


def _check_keys(parameters: Mapping[str, Any], name: str) -> None:
    kind = KINDS[name]
    for key in kind.required:
        if parameters.get(key) is None:
            raise ValueError(f"`{key}` is missing: `rope_type` {name!r} needs {', '.join(kind.required)}.")
    known = COMMON.union(kind.required, kind.optional)
    for key in parameters.keys() - known:
        value = parameters[key]
        owners = [owner for owner, other in KINDS.items() if key in other.required + other.optional]
        whose = f"it belongs to {' and '.join(owners)}" if owners else f"it has {', '.join(sorted(known))}"
        if not changes_nothing(key, value):
            raise ValueError(f"`{key}` is no key of `rope_type` {name!r}, got {value!r}: {whose}.")
