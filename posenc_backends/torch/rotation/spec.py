"""One rotation of queries and keys: which rows of the tables, which pairs; and the same by PyTorch's operators."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_core._array_api.namespace import aligned
from posenc_core.rotation import Pairing


class RotationSpec(NamedTuple):
    """One rotation.

    Attributes:
        pairing: which channels are pairs.
        back: whether to rotate by the opposite angle.
        seq_axis: the axis of the tokens.
        norm: how tokens are normalized as well, a `posenc_core.normalization.Norm`; None for the rotation alone.
    """

    pairing: Pairing
    back: bool
    seq_axis: int
    norm: Any = None

    @property
    def opposite(self) -> RotationSpec:
        """The rotation back."""
        return self._replace(pairing=self.pairing.inverse, back=not self.back)


class Rows(NamedTuple):
    """How a token finds its row of the tables.

    Attributes:
        find: `"rows"`, by its index; `"positions"`, by its position; `"starts"`, by its index behind the start of its
            batch row; `"packed"`, by its index within its sequence.
        given: int32 or int64, the positions `(axes or 1, batch or 1, tokens)`, the starts `(batch or 1,)`, or the
            bounds of the sequences `(sequences + 1,)`; None for `"rows"`.
        axes: integers, the axis of the positions of each pair, if there are several.
        start: the row of the first token by `"rows"`.
    """

    find: str
    given: Tensor | None = None
    axes: Tensor | None = None
    start: int = 0

    @property
    def strides(self) -> tuple[int, int, int]:
        """The strides of `given` by axis, batch row and token; 0 where all have the same."""
        if self.given is None:
            return 0, 0, 0
        steps = tuple(step if size > 1 else 0 for step, size in zip(self.given.stride(), self.given.shape, strict=True))
        return {"starts": (0, *steps, 0), "packed": (0, 0, *steps)}.get(self.find, steps)  # type: ignore[return-value]

    def select(self, tables: tuple[Tensor, Tensor], length: int) -> tuple[tuple[Tensor, Tensor], Rows]:
        """Return tables of the rows of `length` tokens, if these follow one another, and how a token finds its own."""
        if self.given is not None or tables[0].ndim == 3:
            return tables, self
        rows = slice(self.start, self.start + length)
        return (tables[0][rows], tables[1][rows]), Rows(self.find)

    @property
    def num_bounds(self) -> int:
        """The number of bounds of the sequences; 0 unless they are packed."""
        return len(self.given) if self.find == "packed" and self.given is not None else 0


def rows_of(table: Tensor, rows: Rows, length: int) -> Tensor:
    """Return the rows of `length` tokens, `(length, pairs)` or `(batch, length, pairs)`; NaN past the table."""
    given, axes = rows.given, rows.axes
    if given is None:
        return rows.select((table, table), length)[0][0]
    token = torch.arange(length, device=table.device)
    if rows.find == "packed":
        positions = packed_positions(given, length)[None]
    elif rows.find == "starts":
        positions = given.reshape(-1, 1) + token
    else:
        positions = given[0] if axes is None else given[axes].movedim(0, -1)
    positions = positions if axes is not None else positions[..., None]
    inside = (positions >= 0) & (positions < len(table))
    columns = torch.arange(table.shape[-1], device=table.device)
    found = table[positions.clamp(0, len(table) - 1), columns]
    return torch.where(inside, found, torch.nan)


def packed_positions(cu_seqlens: Tensor, length: int, start: Any = 0) -> Tensor:
    """Return the positions of packed tokens, `(length,)`, counted from `start` or from that of each sequence.

    Those after the last sequence are at 0, those before the first at -1.
    """
    token = torch.arange(length, device=cu_seqlens.device)
    begun = torch.searchsorted(cu_seqlens, token, right=True)  # how many sequences have begun
    sequence = (begun - 1).clamp(min=0)
    first = start[sequence.clamp(max=len(start) - 1)] if isinstance(start, Tensor) and start.ndim else start
    within = torch.where(begun < len(cu_seqlens), token - cu_seqlens[sequence] + first, 0)
    return torch.where(begun > 0, within, -1)


def aligned_rows(tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the tokens in `x` from both tables, with axes of size 1 where `x` has others."""
    cos, sin = (rows_of(table, rows, x.shape[spec.seq_axis]) for table in tables)
    cos, sin = (aligned(table, x, seq_axis=spec.seq_axis) for table in (cos, sin))
    return cos, -sin if spec.back else sin
