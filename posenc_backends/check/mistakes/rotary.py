"""Mistakes of frequencies, as the fields of a rotary encoding that has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_core.encodings import Rotary
from posenc_core.scaling import NTK, AttentionFactor, Linear, Llama3, YaRN

BASES = (10000, 500000, 1e6, 5e6, 1e7, 100, 1000, 50000, 100000, 150000, 160000)  # those of models, the usual one first
Fields = dict[str, Any]


def frequency_mistakes(encoding: Rotary) -> Iterator[tuple[str, str, Fields]]:
    """Name, words and changed fields of each."""
    for base in BASES if encoding.own is None else ():
        if base != encoding.base:
            name = "base ignored" if base == Rotary.base else "wrong base"
            yield name, f"the base is {base:.10g}", {"base": base}
    yield from _denominators(encoding)
    if encoding.rotary_dim is not None:
        told = f"all {encoding.head_dim} channels turn"
        yield "rotary_dim ignored", told, {"rotary_dim": None, "placement": "lead"}
        for placement in ("lead", "trail", "spread"):
            if placement != encoding.placement:
                yield (
                    "placement swapped",
                    f"the channels that turn are those of {placement!r}",
                    {"placement": placement},
                )
    if encoding.scaling is not None:
        yield from _scalings(encoding)


def _denominators(encoding: Rotary) -> Iterator[tuple[str, str, Fields]]:
    """Exponents that are divided by another number."""
    turning, head = encoding.rotary_channels, encoding.head_dim
    name = "wrong denominator"
    if encoding.own is not None:
        return
    i = np.arange(turning // 2)
    if turning != head:
        whole = replace(encoding, rotary_dim=None, placement="lead")
        told = f"exponents are 2i / {head} with `head_dim`, not 2i / {turning} with `rotary_dim`"
        yield name, told, _given(encoding, whole.frequencies()[: turning // 2])
    for told, exponents in (
        (f"exponents are i / {turning}, not 2i / {turning}", i / turning),
        (f"exponents are i / {turning // 2 - 1}, from 0 to 1", i / max(turning // 2 - 1, 1)),
    ):
        yield name, told, _given(encoding, _slowed(encoding, exponents))


def _slowed(encoding: Rotary, exponents: Any) -> Any:
    """Frequencies of these exponents, slowed by as much as the right ones are."""
    unscaled = replace(encoding, scaling=None)
    return encoding.base ** -np.asarray(exponents) * (encoding.frequencies() / unscaled.frequencies())


def _given(encoding: Rotary, frequencies: Any) -> Fields:
    """The fields of an encoding with these frequencies and the same factor."""
    factor = encoding.attention_factor
    scaling = None if factor == 1 else AttentionFactor(attention_factor=factor)
    return {"frequencies": tuple(map(float, frequencies)), "base": Rotary.base, "scaling": scaling}


def _scalings(encoding: Rotary) -> Iterator[tuple[str, str, Fields]]:
    """Scalings that are left out, or taken for others."""
    scaling, plain = encoding.scaling, replace(encoding, scaling=None).frequencies()
    kind, slow, pairs = type(scaling).__name__, encoding.frequencies(), encoding.rotary_channels // 2
    yield "scaling ignored", f"{kind} is left out", {"scaling": None}
    if encoding.attention_factor != 1:
        yield "scaling ignored", f"{kind} is left out, but for its factor", _given(encoding, plain)
    factor = getattr(scaling, "factor", None) or 1.0
    if factor > 1:
        told = "every frequency is divided by one number"
        yield "wrong scaling", f"{told}, {factor:g}", {"scaling": Linear(factor=factor)}
        if pairs > 1:
            common = factor ** (2 * pairs / (2 * pairs - 2))
            yield "wrong scaling", f"{told}, {common:.4g}", _given(encoding, plain / common)
        yield "wrong scaling", f"the base is raised as in NTK by {factor:g}", {"scaling": NTK(factor=factor)}
    if isinstance(scaling, YaRN):
        ramp = plain + plain / factor - slow
        told = "the ramp is the wrong way round: fast pairs are slowed"
        yield "wrong scaling", told, _given(encoding, ramp)
        yield "wrong scaling", f"{told}; the factor is missing", _given(replace(encoding, scaling=None), ramp)
        other = replace(scaling, truncate=not scaling.truncate)
        yield "truncate ignored", f"the ramp is that of truncate={other.truncate}", {"scaling": other}
    if isinstance(scaling, Llama3):
        usual = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
        if usual != scaling:
            yield "wrong scaling", "the numbers are those of Llama 3.1, whatever the model's are", {"scaling": usual}
