"""FoPE: the keys of Intern-S1-Pro, whose pairs are rotated by sums of frequencies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._array_api.checks import check_number, shown
from ..encodings import FoPE
from .config import check_flag, check_size, get_values
from .rope_types import FOPE, LENGTH
from .sections import KEYS


def load_fope(fields: Mapping[str, Any], parameters: Mapping[str, Any], config: Mapping[str, Any]) -> FoPE:
    """Return the encoding of these fields of `Rotary`, whose matrices start as those of the model do.

    Raises:
        TypeError, ValueError: with the key, if one is missing, out of range or not read beside FoPE.
    Source: `modeling_interns1_pro.py` and `modeling_rope_utils.py` of Intern-S1-Pro; Glorot and Bengio 2010.
    """
    factor, separate, terms = (parameters.get(key) for key in FOPE)
    if factor is None:
        raise ValueError(f"`{FOPE[0]}` is missing: FoPE needs it beside `{FOPE[1]}` and `{FOPE[2]}`.")
    check_number(FOPE[0], factor, minimum=0)
    check_flag(FOPE[1], separate)
    for key in KEYS:
        if parameters.get(key) is not None:
            raise ValueError(f"`{key}` must be left out beside `{FOPE[0]}`, got {shown(parameters[key])}.")
    if fields["rotary_dim"] is not None:
        raise ValueError(f"`partial_rotary_factor` must be 1 beside `{FOPE[0]}`, got {fields['rotary_dim']} channels.")
    heads = None
    if separate:
        heads = next(iter(get_values(config, ("num_key_value_heads", "num_attention_heads")).values()), None)
        if heads is None:
            raise ValueError(f"`num_key_value_heads` is missing: FoPE needs it beside `{FOPE[1]}`.")
        check_size("num_key_value_heads", heads)
    if terms is not None:
        check_size(FOPE[2], terms)
        size: dict[str, Any] = {"num_terms": min(terms, fields["head_dim"] // 2)}
    else:
        if parameters[LENGTH] is None:
            raise ValueError(f"`{LENGTH}` is missing: FoPE needs it or `{FOPE[2]}`.")
        check_size(LENGTH, parameters[LENGTH], minimum=7)  # 2π is above 6: 6 positions are no period
        size = {"length": parameters[LENGTH]}
    names = ("head_dim", "layout", "base", "direction")
    encoding = FoPE(**{name: fields[name] for name in names}, **size, num_heads=heads)
    return replace(encoding, std=factor * unit_std(encoding))


def unit_std(encoding: FoPE) -> float:
    """Return the standard deviation of the initial matrices for the factor 1, by Glorot and Bengio 2010."""
    terms, heads = encoding.terms, encoding.num_heads
    fans = terms * (terms + heads) if heads else 2 * terms  # as torch counts them
    return math.sqrt(2 / fans)
