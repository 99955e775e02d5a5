"""Pictures of the tutorial, drawn when the pages are built: a module for each page, a function for each picture."""

from __future__ import annotations

import pkgutil
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from inspect import getdoc, getmembers, isfunction
from pathlib import Path

from drawn import FOLDER, picture

LICENSE = FOLDER.parents[1] / "LICENSE"


def pictures() -> Iterator[tuple[str, str]]:
    """Draw all of them: names like `order-masks`, and the Markdown that shows them.

    A function draws into a figure and may set its size. The first paragraph of its docstring is the caption, with the
    parameters that the picture is drawn with; the others are the alternative text.
    """
    for found in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{found.name}")
        for name, draw in getmembers(module, partial(_draws, module.__name__)):
            caption, _, alt = (" ".join(part.split()) for part in str(getdoc(draw)).partition("\n\n"))
            name = f"{found.name}-{name}"  # noqa: PLW2901
            yield name, picture(name, alt, draw, (7, 2.6), caption=caption, in_chinese=True)


def write_figures(markdown: Iterable[tuple[str, str]], path: Path = FOLDER / "figures.zip") -> None:
    """Write a ZIP file with the files of all pictures, their captions and the licence.

    Args:
        markdown: what `pictures` yields.
        path: the file.
    """
    captions = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in markdown:
            caption = text.rstrip("`\n").rpartition("\n\n")[2]
            captions.append(f"{name}: {caption}")
            for file in sorted(FOLDER.glob(f"{name}[-.]*[gG]")):
                archive.write(file, file.name)
        archive.writestr("captions.txt", "\n\n".join(captions) + "\n")
        archive.write(LICENSE, LICENSE.name)


def _draws(module: str, member: object) -> bool:
    return isfunction(member) and member.__module__ == module and not member.__name__.startswith("_")
