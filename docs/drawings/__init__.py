"""Pictures of the tutorial, drawn when the pages are built: a module for each page, a function for each picture."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from inspect import getdoc, getmembers, isfunction

from drawn import picture


def pictures() -> Iterator[tuple[str, str]]:
    """Draw all of them: names like `order-masks`, and the Markdown that shows them.

    The alternative text is the docstring of the function, which draws into a figure and may set its size.
    """
    for found in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        for name, draw in getmembers(module, partial(_draws, module.__name__)):
            alt = " ".join(str(getdoc(draw)).split())
            yield f"{found.name}-{name}", picture(f"{found.name}-{name}", alt, draw, (7, 2.6))


def _draws(module: str, member: object) -> bool:
    return isfunction(member) and member.__module__ == module and not member.__name__.startswith("_")
