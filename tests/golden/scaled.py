"""Scaled frequencies of rotary encodings, by the published formulas."""

from __future__ import annotations

from typing import Any

import mpmath as mp
from numbers_of import power

LENGTHS = ("original_max_position_embeddings", "seq_len")


def scaled(dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the frequencies of `dim` channels under a scaling, and the attention factor, by the published formulas."""
    plain = [power(base, i, dim // 2) for i in range(dim // 2)]
    return RULES[rule["kind"]](plain, dim, base, rule) if "kind" in rule else (plain, mp.mpf(1))


def _linear(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    return [x / mp.mpf(rule["factor"]) for x in f], mp.mpf(1)


def _higher_base(dim: int, base: Any, growth: Any) -> tuple[list[Any], Any]:
    if dim == 2:
        return [mp.mpf(1)], mp.mpf(1)
    raised = mp.mpf(base) * mp.power(growth, mp.mpf(dim) / (dim - 2))
    return [power(raised, i, dim // 2) for i in range(dim // 2)], mp.mpf(1)


def _ntk(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    return _higher_base(dim, base, mp.mpf(rule.get("factor") or rule["alpha"]))


def _dynamic(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    original, seq_len = (rule.get(name) or 0 for name in LENGTHS)
    s = mp.mpf(rule["factor"])
    return _higher_base(dim, base, s * max(seq_len, original) / original - (s - 1))


def _yarn(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    s, original = mp.mpf(rule["factor"]), rule["original_max_position_embeddings"]

    def bound(turns: Any) -> Any:
        return dim * mp.log(original / (2 * mp.pi * mp.mpf(turns))) / (2 * mp.log(base))

    low, high = bound(rule.get("beta_fast", 32)), bound(rule.get("beta_slow", 1))
    if rule.get("truncate", True):
        low, high = mp.floor(low), mp.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += mp.mpf(1) / 1000
    ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(len(f))]
    frequencies = [x / s * r + x * (1 - r) for x, r in zip(f, ramp, strict=True)]

    def growth(m: Any) -> Any:
        return mp.mpf(m) * mp.log(s) / 10 + 1 if s > 1 else mp.mpf(1)

    if rule.get("attention_factor") is not None:
        return frequencies, mp.mpf(rule["attention_factor"])
    both = rule.get("mscale") and rule.get("mscale_all_dim")
    return frequencies, growth(rule["mscale"]) / growth(rule["mscale_all_dim"]) if both else growth(1)


def _llama3(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    s, low, high = (mp.mpf(rule[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    original = rule["original_max_position_embeddings"]
    slowed = []
    for x in f:
        wavelength = 2 * mp.pi / x
        if wavelength < original / high:
            slowed.append(x)
        elif wavelength > original / low:
            slowed.append(x / s)
        else:
            smooth = (original / wavelength - low) / (high - low)
            slowed.append((1 - smooth) * x / s + smooth * x)
    return slowed, mp.mpf(1)


def _longrope(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    original, seq_len = (rule.get(name) or 0 for name in LENGTHS)
    which = "long" if seq_len > original else "short"
    slowed = [x / mp.mpf(divisor) for x, divisor in zip(f, rule[f"{which}_factor"], strict=True)]
    for name in (f"{which}_mscale", "attention_factor"):
        if rule.get(name) is not None:
            return slowed, mp.mpf(rule[name])
    s = mp.mpf(rule["factor"])
    return slowed, mp.sqrt(1 + mp.log(s) / mp.log(original)) if s > 1 else mp.mpf(1)


def _proportional(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    turning = int(rule.get("partial_rotary_factor", 1.0) * dim // 2)
    s = mp.mpf(rule.get("factor", 1))
    return [x / s if i < turning else mp.mpf(0) for i, x in enumerate(f)], mp.mpf(1)


def _riflex(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    f[rule["k"] - 1] = mp.mpf(rule.get("fraction", 0.9)) * 2 * mp.pi / rule["length"]
    return f, mp.mpf(1)


def _dype(f: list[Any], dim: int, base: Any, rule: dict[str, Any]) -> tuple[list[Any], Any]:
    s, kappa, pairs = mp.mpf(rule["factor"]), mp.mpf(rule.get("kappa", 1)), len(f)

    def blend(first: list[Any], last: list[Any], turns: tuple[float, float]) -> list[Any]:
        fast, slow = (rule["original_max_position_embeddings"] / (2 * mp.pi * kappa * n) for n in turns)
        low = min(max(mp.floor(pairs * mp.log(fast) / mp.log(base)), 0), pairs)
        high = min(mp.ceil(pairs * mp.log(slow) / mp.log(base)), pairs)
        ramp = [min(max((i - low) / (max(high - low, 0) or mp.mpf(1) / 1000), 0), 1) for i in range(pairs)]
        return [a * (1 - r) + b * r for a, b, r in zip(first, last, ramp, strict=True)]

    ntk, linear = _higher_base(dim, base, s)[0], _linear(f, dim, base, rule)[0]
    lowered = f if kappa == 0 else blend(f, blend(ntk, linear, (1.25, 0.75)), (16, 2))
    return lowered, 1 + mp.log(s) / 10


RULES = {
    "Linear": _linear,
    "NTK": _ntk,
    "NTKAlpha": _ntk,
    "DynamicNTK": _dynamic,
    "YaRN": _yarn,
    "Llama3": _llama3,
    "LongRoPE": _longrope,
    "Proportional": _proportional,
    "RIFLEx": _riflex,
    "DyPE": _dype,
}
