"""The rope types: which keys each has, and the scaling that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._array_api.checks import check_known
from ..scaling import Scaling
from . import scalings
from .config import agreed, stated
from .scalings import L0, LENGTH, MSCALES

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
    "default": Kind(scalings.default),
    "linear": Kind(scalings.linear, ("factor",)),
    "dynamic": Kind(scalings.dynamic, ("factor",)),
    WITH_ALPHA: Kind(scalings.alpha, ("alpha",), (*_BETAS, *MSCALES)),  # those of YaRN are there, and do nothing
    "yarn": Kind(scalings.yarn, (L0,), (*_YARN, *MSCALES, "attn_factor")),
    "deepseek_yarn": Kind(scalings.deepseek_yarn, (L0,), (*_YARN, *MSCALES)),
    "telechat3-yarn": Kind(scalings.telechat_yarn, (L0,), _YARN),
    "llama3": Kind(scalings.llama3, ("factor", "low_freq_factor", "high_freq_factor", L0)),
    "longrope": Kind(scalings.longrope, ("short_factor", "long_factor", L0), _LONGROPE),
    "proportional": Kind(scalings.proportional, (), ("factor",)),
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
