"""The rope type of ours, `"posenc"`: the parameters contain an encoding as text."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from .._array_api.checks import shown
from ..encodings import AxialRotary, Encoding, FoPE, Rotary
from ..encodings.notation import parse

KEY = "encoding"


def load_encoding(text: Any, own: Rotary | AxialRotary | FoPE) -> Rotary:
    """Return the encoding that the key `encoding` of RoPE parameters contains.

    Args:
        text: the encoding as Python or as JSON: the `repr` of it, or `to_dict` of it dumped.
        own: the encoding of the model with the other keys of its config, which rotates the same channels.
    Raises:
        TypeError: if it is not text.
        ValueError: if the text is not an encoding, or the encoding rotates other channels than the model does.
    """
    encoding = _parse(text)
    if not isinstance(encoding, Rotary) or not isinstance(own, Rotary):
        raise ValueError(f"`{KEY}` must be a Rotary for a model with {shown(own)}, got {shown(encoding)}.")  # noqa: TRY004
    for name in ("head_dim", "layout", "direction", "rotary_channels", "axes"):
        if getattr(encoding, name) != getattr(own, name) and not (name == "axes" and encoding.pairs < own.pairs):
            raise ValueError(
                f"`{KEY}` must have {name} {shown(getattr(own, name))}, as the model does, "
                f"got {shown(getattr(encoding, name))}."
            )
    return replace(encoding, max_len=own.max_len) if encoding.max_len is None else encoding


def _parse(text: Any) -> Encoding:
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return parse(text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`{KEY}` must be JSON or like 'Rotary(…)', got {shown(text)}.") from error
    return Encoding.from_dict(content)
