"""Say in one sentence what is wrong with the arguments of a call, where Python's own words would name a method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from inspect import Parameter
from typing import Any

from ._array_api.checks import shown
from ._foreign_names import NOTES, ours

FIELDS = ("head_dim", "layout", "base", "scaling", "rotary_dim", "frequencies", "length")  # of encodings


def explain_call(
    callee: str,
    parameters: Mapping[str, Parameter],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
    elsewhere: Mapping[str, Collection[str]],
) -> TypeError | None:
    """Return an error with one sentence on what does not fit, or None if all arguments do.

    Args:
        callee: the name of what is called.
        parameters: its own, by name.
        given: the arguments without a name.
        named: those with a name.
        elsewhere: arguments of other calls, by what to say of these.
    """
    known = {name: one for name, one in parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
    unknown = [name for name in named if name not in known]
    if unknown:
        return TypeError(explain_unknown(callee, unknown[0], named[unknown[0]], known, elsewhere))
    by_place = [name for name, one in known.items() if one.kind is not one.KEYWORD_ONLY]
    if len(given) > len(by_place):
        first = next((name for name in known if name not in by_place), by_place[0] if by_place else "")
        return TypeError(
            f"`{callee}` takes its arguments by name, as `{first}=…`, got {shown(given[len(by_place)])} without one."
        )
    filled = by_place[: len(given)]
    twice = [name for name in filled if name in named]
    if twice:
        return TypeError(
            f"`{twice[0]}` must be given to `{callee}` once, got {shown(named[twice[0]])} by name as well."
        )
    missing = [name for name, one in known.items() if one.default is one.empty and name not in (*filled, *named)]
    return TypeError(f"`{missing[0]}` must be given to `{callee}`.") if missing else None


def explain_unknown(
    callee: str, name: str, value: Any, known: Collection[str], elsewhere: Mapping[str, Collection[str]]
) -> str:
    """Return the sentence on an argument that `callee` does not have: what it is called here, or the nearest ones."""
    words, got = [name, *ours(name)], f"`{callee}` has no argument `{name}`"
    for own in words:
        if own in known:
            return f"{got}; it is `{own}` here{_note(own, name)}, got {shown(value)}."
        place = next((place for place, names in elsewhere.items() if own in names), None)
        if place is not None:
            return f"{got}; give `{own}`{_note(own, name)} {place}, got {shown(value)}."
    field = next((own for own in words if own in FIELDS), None)
    encoding = next((argument for argument in ("encoding", "position") if argument in known), None)
    if field is not None and encoding is not None:
        return f"{got}; it is `{field}` of its `{encoding}`, an encoding such as `Rotary`, got {shown(value)}."
    near = get_close_matches(name, known, n=3, cutoff=0.6) or known
    return f"{got}, but {', '.join(near)}; got {shown(value)}."


def _note(own: str, name: str) -> str:
    return f" ({NOTES[own]})" if own in NOTES and own != name else ""
