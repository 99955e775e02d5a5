"""Modules of one's own, by their names or files, and the encodings that they define."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from posenc_core.encodings import Encoding
from posenc_core.encodings.notation import parse

ENCODING = re.compile(r"(?:(?P<module>[^():'\"]+):)?(?P<call>\w+\(.*)", re.DOTALL)


def read_encoding(text: str) -> Encoding:
    """Return an encoding that is written as `repr` writes it; before one of your own stands its module and a colon.

    Args:
        text: such as "Alibi(num_heads=8)", "mine:Window(num_heads=8)" or "mine.py:Window(num_heads=8)".
    Raises:
        ImportError: if the module cannot be imported.
        ValueError: if the encoding does not exist.
    """
    found = ENCODING.fullmatch(text.strip())
    if found is None or found["module"] is None:
        return parse(text)
    load_module(found["module"])
    return parse(found["call"])


def load_module(name: str) -> Any:
    """Import a module, by a name that is searched in the current folder too, or by the name of its file.

    Raises:
        ImportError: if it cannot be imported.
    """
    try:
        if name.endswith(".py"):
            return _module_of_file(Path(name))
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ImportError(f"`{name}` cannot be imported: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> Any:
    """Import a file under a name that no other module has."""
    name = f"checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.absolute().parent))  # of modules that it imports, as when Python runs it
    spec.loader.exec_module(module)
    return module
