"""Notation: read an encoding that is written as a Python call, like `Sinusoidal(dim=32)`, without evaluating it."""

from __future__ import annotations

import ast
import re
from typing import Any

from .._array_api.checks import shown
from . import Encoding


def parse(text: str) -> Encoding:
    """Return the encoding that `repr` wrote.

    Args:
        text: the name of an encoding, and keyword arguments in parentheses.
    Raises:
        TypeError: if it is not text.
        ValueError: if the text has another form, or the encoding does not exist.

    >>> parse("Rotary(head_dim=64, layout='half')").frequencies().shape
    (32,)
    """
    if not isinstance(text, str):
        raise TypeError(f"`encoding` must be a text like 'Sinusoidal(dim=32)', got {shown(text)}.")
    try:
        data = _to_dict(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"`encoding` must be written like 'Sinusoidal(dim=32)', got {shown(text)}: {_reason(error)}."
        ) from error
    except (RecursionError, MemoryError) as error:
        raise ValueError(
            "`encoding` must be written like 'Sinusoidal(dim=32)', got a text nested too deeply."
        ) from error
    if not isinstance(data, dict):
        raise ValueError(f"`encoding` must be written like 'Sinusoidal(dim=32)', got {shown(text)}.")  # noqa: TRY004
    return Encoding.from_dict(data)


def _reason(error: Exception) -> str:
    """Return the first sentence of an error, without the text again that `ast` adds to some of its messages."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return re.split(r": <ast|\n|\. ", message)[0].rstrip(".")[:80]


def _to_dict(node: ast.expr) -> Any:
    """Return what `Value.to_dict` would: a dict for a call, and a literal itself."""
    if isinstance(node, ast.Name):
        raise ValueError(f"`{node.id}` needs quotes as a text, or parentheses as a class")  # noqa: TRY004
    if isinstance(node, ast.Tuple | ast.List):
        return [_to_dict(item) for item in node.elts]
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    names = [keyword.arg for keyword in node.keywords]
    if not isinstance(node.func, ast.Name) or node.args or None in names or "kind" in names:
        raise ValueError("not a name with keyword arguments")
    if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
        raise ValueError(f"`{repeated[0]}` is given twice")
    return {"kind": node.func.id} | {keyword.arg: _to_dict(keyword.value) for keyword in node.keywords}
