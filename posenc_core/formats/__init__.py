"""Formats: configs that are not Hugging Face's, translated into its dict, and written from an encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._array_api.checks import shown
from .export import to_gguf, to_megatron, to_params
from .gguf_file import DamagedError, is_gguf, read_gguf

__all__ = ["DamagedError", "read_file", "to_gguf", "to_megatron", "to_params"]
MAX_SIZE = 2**26  # bytes of a file of text


def read_file(path: Path) -> dict[str, Any] | str:
    """Return the metadata of a GGUF file, or the text of another file.

    Raises:
        DamagedError: if it is a GGUF file that is damaged, or too large for a config.
        UnicodeDecodeError: if it is not text.
        OSError: if it cannot be read.
    """
    if is_gguf(path):
        return read_gguf(path)
    if (size := path.stat().st_size) > MAX_SIZE:
        raise DamagedError(f"a GGUF file or a small one, but {shown(path.name)} has {size} bytes")
    return path.read_text(encoding="utf-8-sig")
