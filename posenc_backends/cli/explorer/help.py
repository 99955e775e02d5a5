"""Help: one line about each field, from the docstrings of the encodings and scalings."""

from __future__ import annotations

import re
from functools import cache
from inspect import cleandoc

from posenc_core._values import Value
from posenc_core.encodings import Learned, Rotary, Sinusoidal

_ARGUMENTS = re.compile(r"^Args:\n((?: .*\n?|\n)*)", re.MULTILINE)
_ARGUMENT = re.compile(r"^    (\w[\w, ]*): ((?:.|\n(?!    \w[\w, ]*: ))*)", re.MULTILINE)
_ELSEWHERE = (Rotary, Sinusoidal, Learned)  # describe fields that other encodings have in common with them


def help_of(cls: type[Value], name: str, *, whole: bool = False) -> str:
    """Return one line about a field: the first clause of its description in the docstring, or "" if it has none.

    Args:
        cls: an encoding or a scaling.
        name: the field.
        whole: whether to return the first sentence, which has all the words of a choice.

    >>> help_of(Rotary, "base")
    'the geometric base of the frequencies, rope_theta'
    """
    found = next((lines[name] for each in (*cls.__mro__, *_ELSEWHERE) if name in (lines := _lines(each))), "")
    return found if whole else re.split("; ", found)[0]


@cache
def _lines(cls: type) -> dict[str, str]:
    arguments = _ARGUMENTS.search(cleandoc(cls.__dict__.get("__doc__") or ""))
    found = _ARGUMENT.finditer(arguments[1]) if arguments else ()
    return {name: _first_sentence(each[2]) for each in found for name in each[1].split(", ")}


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"\. |[.:]$", paragraph)[0].replace("`", "").replace('"', "")
