"""Formats: configs that are not Hugging Face's, translated into its dict, and written from an encoding."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._array_api.checks import shown
from .export import to_gguf, to_megatron, to_params
from .gguf import ARCHITECTURE, from_gguf
from .gguf_file import DamagedError, is_gguf, read_gguf
from .megatron import from_megatron, is_command_line, is_megatron
from .params import from_params, is_params

__all__ = ["DamagedError", "is_command_line", "read_file", "to_gguf", "to_megatron", "to_params", "translate"]
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


def translate(content: Any) -> Any:
    """Return the config of Hugging Face that the content of another format describes; other content as it is.

    Raises:
        TypeError, ValueError: if the content cannot be translated, with the name of the key.
    """
    if isinstance(content, Namespace | list | tuple | str):
        return from_megatron(content)
    if not isinstance(content, Mapping):
        return content
    if not content.keys() & {"model_type", "rope_parameters"} and is_megatron(content):
        return from_megatron(content)
    if ARCHITECTURE in content:
        return from_gguf(content)
    from_mistral = content.get("model_type", "transformer") == "transformer"  # that of no model in transformers
    return from_params(content) if from_mistral and is_params(content) else content
