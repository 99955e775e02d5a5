"""Rope types: the keys of each, and the scaling that its parameters describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from .._array_api.checks import check_known, check_number, shown
from ..formats.values import SHOWN, quote, warn
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, Scaling, YaRN
from .config import check_flag, check_size, common_value, get_values

L0 = "original_max_position_embeddings"
LENGTH = "max_position_embeddings"
MOST_FACTORS = 2**15  # of a head of 65,536 channels
MSCALES = ("mscale", "mscale_all_dim")
COMMON = {
    "rope_type", "type", "rope_theta", "partial_rotary_factor", "rotary_dim", "rope_dim", LENGTH, L0, "mrope_section",
    "mrope_interleaved", "xdrope_section", "llama_4_scaling_beta",
}  # fmt: skip
FOPE = ("fope_init_factor", "fope_sep_head", "num_inv_freq")
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("factor", "alpha", "attention_factor", "attn_factor", "extrapolation_factor", *MSCALES), 1),
    "rope_type": "default", "type": "default", "beta_fast": 32, "beta_slow": 1, "finetuned": True,
}  # fmt: skip
WITH_ALPHA = "dynamic with alpha"
ALIASES = {"su": "longrope", "mrope": "default", "openpangu": "default", "video_rope": "default"}
REFUSED = {
    "ntk": "it stands for three different formulas; make an `NTK` or an `NTKAlpha`",
    "axial": "it belongs to a vision tower; make an `AxialRotary`",
}
Parameters = Mapping[str, Any]


class RopeType(NamedTuple):
    """The keys of one rope type.

    Attributes:
        scaling: returns the scaling of the parameters.
        required: keys that must have a value.
        optional: keys that may have a value, in addition to `COMMON`.
    """

    scaling: Callable[[Parameters], Scaling | None]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def find_rope_type(parameters: Parameters) -> RopeType:
    """Return the rope type of the parameters.

    Raises:
        ValueError: if the type is unknown, or the parameters lack one of its keys or have a key of another type.
    """
    names = get_values(parameters, ("rope_type", "type"))
    name = common_value({key: ALIASES.get(str(name), name) for key, name in names.items()})
    name = "default" if name is None else name
    if str(name) in REFUSED:
        raise ValueError(f"`rope_type` {shown(name)} cannot be loaded: {REFUSED[name]}.")
    check_known("rope_type", name, [known for known in ROPE_TYPES if known != WITH_ALPHA])
    if name == "dynamic" and parameters.get("alpha") is not None:
        name = WITH_ALPHA
    _check_keys(parameters, name)
    return ROPE_TYPES[name]


def changes_nothing(key: str, value: Any) -> bool:
    """Return whether a key has no effect in any rope type: no value, or the one that is meant without it."""
    return value is None or (key in NEUTRAL and value == NEUTRAL[key])


def _check_keys(parameters: Parameters, name: str) -> None:
    rope_type = ROPE_TYPES[name]
    for key in rope_type.required:
        if parameters.get(key) is None:
            raise ValueError(f"`{key}` is missing: `rope_type` {shown(name)} needs {', '.join(rope_type.required)}.")
    known = COMMON.union(rope_type.required, rope_type.optional)
    for key in (key for key in parameters if key not in known):  # in their order: an error names the first
        value = parameters[key]
        owners = [owner for owner, other in ROPE_TYPES.items() if key in other.required + other.optional]
        near = get_close_matches(str(key)[:SHOWN], known)
        hint = (
            f"it belongs to {' and '.join(owners)}"
            if owners
            else f"write {' or '.join(map(quote, near))}"
            if near
            else "leave it out if it changes no angle"
        )
        if not changes_nothing(key, value):
            raise ValueError(f"{quote(key)} is not a key of `rope_type` {shown(name)}, got {shown(value)}: {hint}.")


def _dynamic(parameters: Parameters) -> DynamicNTK:
    """Return dynamic NTK scaling that starts from `max_position_embeddings`, as in transformers."""
    original, longest = parameters.get(L0), parameters.get(LENGTH)
    if original is not None and longest not in (None, original):
        warn(
            f"`rope_type` 'dynamic' starts from `{LENGTH}` {shown(longest)}, as transformers does, "
            f"not `{L0}` {shown(original)}."
        )
    start: Any = original if longest is None else longest
    if start is None:
        raise ValueError(f"`{LENGTH}` is missing: `rope_type` 'dynamic' starts from it.")
    check_size(LENGTH, start, minimum=2)
    return DynamicNTK(factor=parameters["factor"], original_max_position_embeddings=start)


def _alpha(parameters: Parameters) -> NTKAlpha:
    """Return the fixed NTK scaling of Hunyuan, whose configs call it dynamic."""
    return NTKAlpha(alpha=parameters["alpha"])


def _llama3(parameters: Parameters) -> Llama3:
    return Llama3(**{key: parameters[key] for key in ("factor", "low_freq_factor", "high_freq_factor", L0)})


def _proportional(parameters: Parameters) -> Proportional:
    return Proportional(**get_values(parameters, ("partial_rotary_factor", "factor")))


def _longrope(parameters: Parameters) -> LongRoPE:
    fields = get_values(
        parameters, ("short_factor", "long_factor", L0, "attention_factor", "short_mscale", "long_mscale")
    )
    for key in ("short_factor", "long_factor"):
        if isinstance(parameters[key], list | tuple) and len(parameters[key]) > MOST_FACTORS:
            raise ValueError(f"`{key}` must have a number for each pair, got {len(parameters[key])}.")
    if parameters.get("factor") is not None or not fields.keys() & {"attention_factor", "short_mscale", "long_mscale"}:
        fields["factor"] = _factor(parameters)
    return LongRoPE(**fields)


def _yarn(parameters: Parameters) -> YaRN:
    fields = _yarn_fields(parameters) | get_values(parameters, MSCALES)
    check_flag("apply_yarn_scaling", parameters.get("apply_yarn_scaling"))
    if parameters.get("apply_yarn_scaling") is False:  # cos and sin keep their size, as in vLLM
        fields = {"attention_factor": 1.0} | fields
    given = fields.keys() & {*MSCALES, "attention_factor"}
    if parameters.get("attn_factor") not in (None, 1):  # it multiplies the default attention factor
        check_number("attn_factor", parameters["attn_factor"], above=0)
        if given:
            raise ValueError(
                f"`attn_factor` must be left out beside `{min(given)}`, got {shown(parameters['attn_factor'])}."
            )
        fields["attention_factor"] = parameters["attn_factor"] * _growth(fields["factor"], 0.1)
    if given in ({"mscale"}, {"mscale_all_dim"}):
        warn(f"`{given.pop()}` has no effect alone: `rope_type` 'yarn' takes both of `mscale` and `mscale_all_dim`.")
    return YaRN(**fields)


def _deepseek_yarn(parameters: Parameters) -> YaRN:
    """Return YaRN in which one `mscale` has an effect without the other."""
    fields = _yarn_fields(parameters)
    mscales = {"mscale": 1, "mscale_all_dim": 0} | get_values(parameters, MSCALES)
    for key, value in mscales.items():
        check_number(key, value, minimum=0)
    if all(mscales.values()):
        return YaRN(**fields | mscales)
    numerator, denominator = (_growth(fields["factor"], 0.1 * mscale) for mscale in mscales.values())
    return YaRN(**{"attention_factor": numerator / denominator} | fields)


def _telechat_yarn(parameters: Parameters) -> YaRN:
    """Return YaRN with an attention factor that grows more slowly."""
    fields = _yarn_fields(parameters)
    return YaRN(**{"attention_factor": _growth(fields["factor"], 0.07)} | fields)


def _yarn_fields(parameters: Parameters) -> dict[str, Any]:
    """Return the fields that all YaRN types have."""
    if parameters.get("extrapolation_factor") not in (None, 1):
        raise ValueError(f"`extrapolation_factor` must be 1, got {shown(parameters['extrapolation_factor'])}.")
    fields = get_values(parameters, (L0, "beta_fast", "beta_slow", "attention_factor", "truncate"))
    check_flag("truncate", fields.get("truncate"))
    fields["factor"] = _factor(parameters)
    return fields


def _factor(parameters: Parameters) -> float:
    """Return the factor of the length: `factor`, or the longest length divided by the original one."""
    factor, longest, original = parameters.get("factor"), parameters.get(LENGTH), parameters[L0]
    check_size(L0, original, minimum=2)
    if longest is not None:
        check_size(LENGTH, longest, minimum=2)
    if factor is not None:
        check_number("factor", factor, minimum=1)
        if longest not in (None, original, factor * original):
            warn(
                f"`factor` {shown(factor)} is used; `{LENGTH}` {shown(longest)} is another "
                f"multiple of `{L0}` {shown(original)}."
            )
        return float(factor)
    if longest is None or longest < original:
        raise ValueError(
            f"`factor` is missing, and does not follow from `{LENGTH}` {shown(longest)} and `{L0}` {shown(original)}."
        )
    return float(longest / original)


def _growth(factor: float, rate: float) -> float:
    return rate * math.log(factor) + 1


_BETAS = ("beta_fast", "beta_slow")
_YARN = ("factor", "attention_factor", "extrapolation_factor", *_BETAS, "truncate", "finetuned")
_LONGROPE = ("factor", "attention_factor", "short_mscale", "long_mscale")
ROPE_TYPES = {
    "default": RopeType(lambda _: None, (), (*FOPE, "use_fope")),
    "linear": RopeType(lambda parameters: Linear(factor=parameters["factor"]), ("factor",)),
    "dynamic": RopeType(_dynamic, ("factor",)),
    WITH_ALPHA: RopeType(_alpha, ("alpha",), (*_BETAS, *MSCALES)),  # Hunyuan: keys of YaRN without effect
    "xdrope": RopeType(_alpha, ("alpha",), (*_BETAS, *MSCALES)),
    "yarn": RopeType(_yarn, (L0,), (*_YARN, *MSCALES, "attn_factor", "apply_yarn_scaling")),
    "deepseek_yarn": RopeType(_deepseek_yarn, (L0,), (*_YARN, *MSCALES)),
    "telechat3-yarn": RopeType(_telechat_yarn, (L0,), _YARN),
    "llama3": RopeType(_llama3, ("factor", "low_freq_factor", "high_freq_factor", L0)),
    "longrope": RopeType(_longrope, ("short_factor", "long_factor", L0), _LONGROPE),
    "proportional": RopeType(_proportional, (), ("factor",)),
    "custom": RopeType(lambda _: None, (), ("alpha", "factor", *_BETAS, *MSCALES)),  # keys without effect
    "posenc": RopeType(lambda _: None, (), ("encoding",)),  # ours, see `posenc_type`
}
KEYS = COMMON.union(*(rope_type.required + rope_type.optional for rope_type in ROPE_TYPES.values()))
