"""The encoding that saved weights were trained with, compared with that of the layer which loads them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any

from .._array_api.checks import shown
from .._values import _concrete_classes, _import_public_classes
from ..encodings import Encoding
from .inputs import learned_by

_ALLOWED: ContextVar[frozenset[str]] = ContextVar("allowed", default=frozenset())


def allow_change(*names: str) -> AbstractContextManager[None]:
    """Return a context in which weights load into layers whose encodings differ from the saved ones in these fields.

    It holds for all layers of a model, in every framework, and for whatever reads the weights: `load_state_dict`,
    `load_weights`, `set_state_dict`, `load_parameters`, `from_state`, a distributed checkpoint. Layers keep their own
    encoding and tables; a difference in any other field is still an error.

    Args:
        names: of the fields of encodings, like `"scaling"`, `"base"`, `"window"`, `"trained_window"`; `"kind"` for
            another class, `"combine"` for that of `PositionalEncoding`.
    Raises:
        ValueError: if no encoding has such a field.

    >>> from posenc_core import Rotary, YaRN
    >>> from posenc_core.layers.encoding_bytes import check_saved, to_bytes
    >>> saved = {"rope": to_bytes(Rotary(head_dim=8, layout="half"))}
    >>> yarn = YaRN(factor=4.0, original_max_position_embeddings=4096)
    >>> longer = Rotary(head_dim=8, layout="half", scaling=yarn)
    >>> with allow_change("scaling"):
    ...     check_saved({"rope": longer}, saved)
    """
    _import_public_classes()
    classes = _concrete_classes(Encoding).values()  # type: ignore[type-abstract]
    known = {"combine", "kind", *[field.name for cls in classes for field in fields(cls)]}
    given: tuple[Any, ...] = names
    if unknown := [name for name in given if not isinstance(name, str) or name not in known]:
        raise ValueError(f"`names` must be fields of encodings, like 'scaling' or 'window', got {shown(unknown[0])}.")
    return _allowing(_ALLOWED.get() | frozenset(names))


@contextmanager
def _allowing(names: frozenset[str]) -> Iterator[None]:
    token = _ALLOWED.set(names)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def changed_fields(saved: Any, own: Any) -> set[str]:
    """Return the fields in which two encodings differ, or two pairs; "kind" if their classes do.

    The number of positions and initial deviations, which change no number of a trained layer, do not count.

    Args:
        saved, own: encodings, pairs of them, None, or the `repr` of one of these.
    """
    first, second = _calls(saved), _calls(own)
    if [call["kind"] for call in first] != [call["kind"] for call in second]:
        return {"kind"}
    return {
        name for one, two in zip(first, second, strict=True) for name in one | two if one.get(name) != two.get(name)
    }


def _calls(given: Any) -> list[dict[str, str]]:
    """Return the class and the arguments of each encoding, as text; all text as the class of any other."""
    text = given if isinstance(given, str) else learned_by(given)
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [{"kind": text}]
    calls = body.elts if isinstance(body, ast.Tuple) else [body]
    return [
        {"kind": ast.unparse(call.func)} | {str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords}
        if isinstance(call, ast.Call)
        else {"kind": text}
        for call in calls
    ]


def why_refused(changed: set[str]) -> str:
    """Return what to do if these changed fields are meant to; "" if there are none, or all are allowed."""
    if changed <= _ALLOWED.get():
        return ""
    names = ", ".join(map(repr, sorted(changed)))
    return f"if that is meant, load it in `with posenc_core.allow_change({names}):`"


def may_change(encoding: Encoding) -> bool:
    """Return whether a field of the encoding is allowed to differ, so that its saved tables do."""
    return bool(_ALLOWED.get() & {"kind", *[field.name for field in fields(encoding)]})
