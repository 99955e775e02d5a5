"""The command `posenc check`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from posenc_core.encodings import Encoding
from posenc_core.encodings.notation import parse

from .verdict import DEFAULT, IMPOSSIBLE, check


def run(
    target: str,
    *,
    spec: str | None = None,
    config: Path | None = None,
    layer_type: str | None = None,
    path: Path | None = None,
    **options: Any,
) -> int:
    """Check the callable of this name, print the verdict, and write it to `path` as JSON.

    Args:
        target: `module:function`, or `file.py:function`; the function may be an attribute of an object.
        spec: the encoding as `repr` writes it; or
        config: a Hugging Face config that describes it, of the layers of `layer_type`.
        path: a file of JSON.
        options: as in `check`.
    Returns:
        The exit status: 0 conforms, 1 does not, 2 the callable failed, 3 the check could not run.
    """
    try:
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"`--json` {path} needs a folder that exists, {path.parent} does not.")
        verdict = check(_found(target), _encoding(spec, config, layer_type), **options)
        if path is not None:
            told = json.dumps(verdict.to_dict() | {"function": target}, indent=1, allow_nan=False, ensure_ascii=False)
            path.write_text(told + "\n", encoding="utf-8")
        print(f"{target} {verdict}", flush=True)  # noqa: T201
    except Exception as error:  # noqa: BLE001 - whatever it is, a traceback's status of 1 would say that it does not conform
        print(f"posenc: {_sentence(error)}", file=sys.stderr)  # noqa: T201
        return IMPOSSIBLE
    return verdict.status


def _encoding(spec: str | None, config: Path | None, layer_type: str | None) -> Encoding:
    """The encoding that is asked for, in one way or the other.

    Raises:
        ValueError: if it is asked for in two, or the layers do not turn.
    """
    if spec is not None and config is not None:
        raise ValueError("`--spec` and `--config` both say which encoding is meant: give one of them.")
    if config is None:
        return DEFAULT if spec is None else parse(spec)
    from posenc_core.huggingface import load_rope

    rotary = load_rope(config, layer_type=layer_type)
    if rotary is None:
        raise ValueError(f"`--config` must describe a rotation, but by {config} queries and keys are not turned.")
    return rotary


def _found(target: str) -> Callable[..., Any]:
    """The callable of this name.

    Raises:
        ImportError: if its module cannot be imported, for whatever reason, or has no such attribute.
        ValueError: if it is no name of a callable.
    """
    name, colon, attribute = target.rpartition(":")
    if not (name and colon and attribute):
        raise ValueError(f"`target` must be written like 'package.module:function', got {target!r}.")
    try:
        module = _of_file(Path(name)) if name.endswith(".py") else _of_name(name)
    except (Exception, SystemExit) as error:
        raise ImportError(f"`{name}` cannot be imported: {type(error).__name__}: {error}") from error
    try:
        found: Callable[..., Any] = reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        raise ImportError(f"`{name}` has no `{attribute}`: {error}.") from error
    return found


def _of_name(name: str) -> Any:
    """The module, also one in the folder that the command is run in."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _of_file(path: Path) -> Any:
    """The module that a file is, by a name that no other module has."""
    name = f"checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _sentence(error: Exception) -> str:
    told = " ".join(str(error).split())
    return told if told and isinstance(error, ImportError | OSError | TypeError | ValueError) else f"{error!r}"
