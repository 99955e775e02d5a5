"""The tables that attention holds itself, in GPT-J and CodeGen, which have no rotary module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import RotaryEncoding

from . import table_forms
from .tables import ALL, RotaryTables

BUFFER = "embed_positions"  # sines, then cosines, one column per pair, `(positions, 2 * pairs)`


class BufferTables(nn.Module):
    """Looks up positions in the buffer of a module of attention, as that does."""

    def __init__(self, attention: nn.Module, config: Any) -> None:
        super().__init__()
        self.config: Any = config
        self.table: Tensor = getattr(attention, BUFFER)

    def forward(self, x: Tensor, position_ids: Tensor) -> Any:
        """Return cosines and sines, in the dtype of `x`."""
        sin, cos = self.table[position_ids].to(x.dtype).chunk(2, dim=-1)
        return cos, sin


def has_tables(module: nn.Module) -> bool:
    """Return whether a module holds tables of sines and cosines."""
    return hasattr(module, "pos_embd_dim") and isinstance(getattr(module, BUFFER, None), Tensor)


def exact_table(
    attention: nn.Module, config: Any, encoding: Any
) -> tuple[RotaryEncoding, table_forms.Difference, Tensor]:
    """Return the encoding of a module of attention, how far its table is from the exact one, and that one.

    Args:
        attention: a module that has tables.
        config: of the model.
        encoding: returns the encoding to use in place of its own.
    Raises:
        UnknownModuleError: if its table is not that of its config.
    """
    reader = BufferTables(attention, config)
    if reader.table.is_meta:
        raise table_forms.UnknownModuleError("its table is on the meta device; load its weights before")
    length = len(reader.table)
    found = table_forms.match(reader, table_forms.encodings_of(reader), "pairs", table_forms.HALF, length)
    chosen = encoding(found[ALL], ALL)
    exact = RotaryTables(chosen, columns="pairs", max_len=length)
    cos, sin = exact(torch.empty(0), torch.arange(length)[None])
    table = torch.cat([sin[0], cos[0]], dim=-1).to(reader.table)
    return chosen, table_forms.difference(reader, exact, ALL, length), table
