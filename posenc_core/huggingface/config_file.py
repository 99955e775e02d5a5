"""Files of configs: JSON, the command line of Megatron-LM, or one of the other formats."""

from __future__ import annotations

import errno
import json
from collections import Counter
from pathlib import Path
from typing import Any

from ..formats import DamagedError, read_file
from ..formats.megatron import is_command_line
from ..formats.values import quote


def read_config_file(path: Path) -> Any:
    """Return the content of a file, or of the config in a folder.

    Raises:
        FileNotFoundError: if there is no such file.
        TypeError, ValueError: if it is not a config.
    """
    try:
        if path.is_dir():
            found = (path / name for name in ("config.json", "params.json") if (path / name).exists())
            path = next(found, path / "config.json")
        content = read_file(path)
        if isinstance(content, str) and not is_command_line(content):
            content = json.loads(content, object_pairs_hook=_each_key_once)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
            raise
        raise FileNotFoundError(
            f"`config` must be a path to config.json, its folder, a dict or a config object: there is no file "
            f"{_shorten_path(path)}, and nothing is downloaded from the Hub."
        ) from error
    except DamagedError as error:
        raise ValueError(f"`config` must be {error}.") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`config` must be a file of JSON, but {_shorten_path(path)} is not: {error}.") from error
    if not isinstance(content, dict | str):
        raise TypeError(f"`config` must hold a JSON object, but {_shorten_path(path)} holds {type(content).__name__}.")
    return content


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; of a key that it has twice, programs read one or the other value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {quote(twice)} stands twice in an object")
    return found


def _shorten_path(path: Path) -> str:
    """Return a path for a message, whose last part says most."""
    text = repr(str(path))[1:-1]
    return text if len(text) <= 150 else f"…{text[-149:]}"
