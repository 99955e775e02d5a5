"""Notation: encodings written as Python writes them, `Sinusoidal(dim=32)`, read without running anything."""

from __future__ import annotations

import ast
from typing import Any

from . import Encoding


def parse(text: str) -> Encoding:
    """The encoding that `repr` wrote.

    Raises:
        ValueError: if the text is not the name of an encoding with keyword arguments in parentheses.

    >>> parse("Rotary(head_dim=64, layout='half')").frequencies().shape
    (32,)
    """
    try:
        described = _described(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"`encoding` must be written like 'Sinusoidal(dim=32)', got {text!r}: {error}.") from error
    if not isinstance(described, dict):
        raise ValueError(f"`encoding` must be written like 'Sinusoidal(dim=32)', got {text!r}.")  # noqa: TRY004
    return Encoding.from_dict(described)


def _described(node: ast.expr) -> Any:
    """What `to_dict` would write: a call as its kind and fields, a literal as it is."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    names = [keyword.arg for keyword in node.keywords]
    if not isinstance(node.func, ast.Name) or node.args or None in names or "kind" in names:
        raise ValueError("not a name with keyword arguments")
    return {"kind": node.func.id} | {keyword.arg: _described(keyword.value) for keyword in node.keywords}
