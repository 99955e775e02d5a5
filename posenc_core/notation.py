"""Notation: encodings written as Python writes them, `Sinusoidal(dim=32)`, read without running anything."""

from __future__ import annotations

import ast

from .encodings import Encoding


def parse(text: str) -> Encoding:
    """The encoding that `repr` wrote.

    Raises:
        ValueError: if the text is not the name of an encoding with keyword arguments in parentheses.

    >>> parse("Rotary(head_dim=64, layout='half')").frequencies().shape
    (32,)
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError("not a name with keyword arguments")
        fields = {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"`encoding` must be written like 'Sinusoidal(dim=32)', got {text!r}: {error}.") from error
    return Encoding.from_dict({"kind": call.func.id, **fields})
