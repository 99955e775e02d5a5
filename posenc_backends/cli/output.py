"""Streams and files of commands: a full disk or a closed pipe destroys nothing, and ends in one sentence."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that replaces `path` at the end; after an exception the earlier file is as it was.

    Devices and pipes are written as they are.

    Raises:
        OSError: naming `path`, if it cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()  # the file that a link names
    try:
        with TemporaryDirectory(prefix=".posenc-", dir=target.parent) as folder:
            written = Path(folder, path.name)
            yield written
            if target.exists():
                shutil.copymode(target, written)
            written.replace(target)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 into `path`, in place of an earlier file or not at all."""
    with replace_file(path) as written:
        written.write_text(text, encoding="utf-8", newline="\n")


class _StandardError:
    """Standard error that may be full or closed: what cannot be written is left out, and the status says the rest."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Give the process streams that can be written inside a `with` block, whatever was closed or is not in UTF-8.

    Letters that the encoding of standard output lacks become `?`.
    """
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stdout = before[0] or nowhere  # None: it was closed before the start
        sys.stderr = _StandardError(before[1] or nowhere)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def flush_output() -> OSError | ValueError | None:
    """Flush standard output; return the error if it is full or closed, after which Python can end without another."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    return None
