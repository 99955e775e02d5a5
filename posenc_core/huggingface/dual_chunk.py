"""Dual chunk attention: the chunks in which a config counts the positions of its RoPE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._array_api.checks import check_type, shown
from ..encodings import AxialRotary, DualChunk, FoPE, Rotary
from ..formats.values import warn
from .config import check_size

KEY = "dual_chunk_attention_config"
SIZES = ("chunk_size", "local_size")
ORIGINAL = "original_max_position_embeddings"
SPARSE = "sparse_attention"  # how the keys begin that choose which scores are computed


def add_chunks(
    rotary: Rotary | AxialRotary | FoPE, config: Mapping[str, Any]
) -> Rotary | AxialRotary | FoPE | DualChunk:
    """Return the encoding, in chunks if the config has their sizes.

    Raises:
        TypeError, ValueError: with the key, if a size is missing, unknown or out of range, or there is a scaling.
    """
    chunks = config.get(KEY)
    if not chunks:
        return rotary
    check_type(KEY, chunks, Mapping, "a dict")
    for key, value in chunks.items():
        if key not in (*SIZES, ORIGINAL) and not str(key).startswith(SPARSE):
            raise ValueError(
                f"`{KEY}` has the unknown key {shown(key)} with {shown(value)}: leave it out if it changes no angle."
            )
    for key in SIZES:
        if chunks.get(key) is None:
            raise ValueError(f"`{KEY}.{key}` is missing: dual chunk attention needs it.")
        check_size(f"{KEY}.{key}", chunks[key])
    if rotary.num_axes > 1 or rotary.mixes_rows or rotary.unscaled() != rotary:
        raise ValueError(f"`{KEY}` must be left out beside {shown(rotary)}: chunks are known for plain RoPE alone.")
    if original := chunks.get(ORIGINAL):
        check_size(f"{KEY}.{ORIGINAL}", original)
        warn(
            f"`{KEY}.{ORIGINAL}` is not used in the rotation: vLLM multiplies all queries of a sequence of n > "
            f"{original} tokens by 1 + 0.1 ln(n / {original})."
        )
    try:
        return DualChunk(rotary=rotary, **{key: chunks[key] for key in SIZES})
    except (TypeError, ValueError) as error:
        raise type(error)(f"`{KEY}`: {error}") from error
