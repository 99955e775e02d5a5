"""The rotary module of a model of transformers, with exact tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from posenc_core._array_api.checks import check_known, shown
from posenc_core.encodings import RotaryEncoding

from ..backend import BACKEND
from ..layers import RotaryEmbedding
from .apply_rotary import written

TableColumns: TypeAlias = Literal["half", "interleaved", "pairs", "complex"]
TABLE_COLUMNS: tuple[TableColumns, ...] = ("half", "interleaved", "pairs", "complex")
ALL = "all"  # layers, where these are of one type


class RotaryTables(nn.Module):
    """Computes cosines and sines of positions, in place of the rotary module of a model of transformers.

    Its tables are exact, and no cast reaches them. It adds nothing to the state of a model, unless its frequencies are
    learned. The tables are those of a forward rotation: the functions of models contain their direction.

    Args:
        encoding: a rotary encoding, or a dict with one for each layer type.
        columns: how cosines and sines are written: the columns of all pairs twice, one after the other (`"half"`, as in
            most models), each column twice (`"interleaved"`: Cohere), one column per pair (`"pairs"`: gpt-oss), or one
            complex number per pair (`"complex"`: Llama 4, DeepSeek-V2).
        dtype: of the result; the default is that of `x`. Complex numbers are always `torch.complex64`.
        max_len: as in `RotaryEmbedding`.
    Raises:
        TypeError: if an encoding is not rotary.
        ValueError: if `columns` is unknown, or there is no encoding.

    >>> from posenc_core import Rotary
    >>> rotary = RotaryTables(Rotary(head_dim=4, layout="half"))
    >>> rotary(torch.zeros(1, 1, 4), torch.tensor([[3]]))[0]
    tensor([[[-0.9900,  0.9996, -0.9900,  0.9996]]])
    """

    def __init__(
        self,
        encoding: RotaryEncoding | Mapping[str, RotaryEncoding],
        *,
        columns: TableColumns = "half",
        dtype: torch.dtype | None = None,
        max_len: int | None = None,
    ) -> None:
        super().__init__()
        check_known("columns", columns, TABLE_COLUMNS)
        encodings = dict(encoding) if isinstance(encoding, Mapping) else {ALL: encoding}
        if not encodings:
            raise ValueError("`encoding` must have an encoding for a layer type, got an empty dict.")
        self.columns: TableColumns = columns
        self.names: dict[str, tuple[str, str]] = {}  # of `replace_rotary`
        self.dtype: torch.dtype | None = dtype
        self.layers: nn.ModuleDict = nn.ModuleDict()
        self.long_layers: nn.ModuleDict = nn.ModuleDict()
        for name, one in encodings.items():
            self._add(name, forward(one), max_len)

    def _add(self, name: str, encoding: RotaryEncoding, max_len: int | None) -> None:
        self.layers[name] = RotaryEmbedding(encoding, max_len=max_len)
        if encoding.keys_differ or encoding.table_heads:
            raise ValueError(
                f"`encoding` must have one table for queries and keys of all heads, got {shown(encoding)}."
            )
        long = None if encoding.max_seq_len is None else encoding.at(encoding.max_seq_len + 1)
        if long is not None and long.max_seq_len is None:  # the frequencies of LongRoPE, which are two sets
            self.long_layers[name] = RotaryEmbedding(long, max_len=max_len)

    def keep_state(self, buffers: Mapping[str, Tensor]) -> None:
        """Hold the buffers that the module before had in its state, so that the state of the model does not change."""
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.register_load_state_dict_pre_hook(_refuse_other_state)

    @property
    def encodings(self) -> dict[str, RotaryEncoding]:
        """The encoding of each layer type; of `"all"` if there is one."""
        return {name: layer.encoding for name, layer in self.layers.items()}

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        """Return cosines and sines, or complex numbers, of positions.

        Args:
            x: any tensor of the device and dtype of the result; its numbers are not used.
            position_ids: `(batch, length)`, or `(axes, batch, length)` for an encoding of several axes. Past the
                tables, known positions of a CPU get exact rows, and those of compiled code and of other devices NaN.
            layer_type: which encoding to use, where there are several.
        Returns:
            Two tensors `(batch, length, columns)`, or a complex one.
        Raises:
            ValueError: if there is no such layer type.
        """
        name = ALL if ALL in self.layers else layer_type
        if name is None or name not in self.layers:
            raise ValueError(f"`layer_type` must be one of {sorted(self.layers)}, got {shown(layer_type)}.")
        cos, sin = self._rows(name, position_ids.to(x.device))
        if self.columns == "complex":
            return torch.complex(cos, sin)
        dtype = x.dtype if self.dtype is None else self.dtype
        return tuple([written(table.to(dtype), self.columns) for table in (cos, sin)])

    def _rows(self, name: str, positions: Tensor) -> tuple[Tensor, Tensor]:
        layer = self.layers[name]
        encoding, limit = layer.encoding, layer.encoding.max_seq_len
        if encoding.num_axes > 1 and positions.ndim < 3:
            positions = positions.expand(encoding.num_axes, -1, -1)
        if limit is None:
            return _pairs(layer, positions)
        if name not in self.long_layers:
            return BACKEND.eager(_pairs_by_length, layer, positions)
        long, is_long = self.long_layers[name], positions.max() >= limit
        if not BACKEND.is_unread(positions):
            return _pairs(long if is_long else layer, positions)
        both = zip(_pairs(long, positions), _pairs(layer, positions), strict=True)
        cos, sin = [torch.where(is_long, one, other) for one, other in both]
        return cos, sin

    def extra_repr(self) -> str:
        return f"columns={self.columns!r}" + (f", dtype={self.dtype}" if self.dtype else "")


def _refuse_other_state(
    tables: nn.Module, state: Mapping[str, Any], prefix: str, _metadata: Any, _strict: bool, *errors: list[str]
) -> None:
    """Add an error if a state has other frequencies than those that the tables are for."""
    for name, kept in tables.named_buffers(recurse=False):
        given = state.get(prefix + name, kept)
        if not torch.equal(given.to(kept), kept):
            errors[-1].append(f"`{prefix}{name}` would change the replaced tables; load it before `replace_rotary`.")


def forward(encoding: RotaryEncoding) -> RotaryEncoding:
    """Return the encoding with the tables of a forward rotation."""
    is_inverse = getattr(encoding, "direction", None) == "inverse"
    return replace(encoding, direction="forward") if is_inverse else encoding


def _pairs(layer: RotaryEmbedding, positions: Tensor, seq_len: int | None = None) -> tuple[Tensor, Tensor]:
    """Return cosines and sines with a column for each pair, also for those of frequency 0."""
    cos, sin = layer.cos_sin(positions, seq_len=seq_len)
    still = layer.encoding.rotary_channels // 2 - layer.encoding.pairs
    if not still:
        return cos, sin
    return pad(cos, (0, still), value=layer.encoding.attention_factor), pad(sin, (0, still))


def _pairs_by_length(layer: RotaryEmbedding, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return them for frequencies that change with the largest of the positions (dynamic NTK)."""
    return _pairs(layer, positions, seq_len=int(positions.max()) + 1)
