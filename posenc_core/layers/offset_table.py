"""The table of a relative bias, by offset, which a layer looks up in calls that run at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend import Tensor

LEAST = 64  # the last offset of a new table


class OffsetTable:
    """Terms of scores by offset (key less query), from -n to n; n grows with the calls.

    Traced code does not read it: a compiler computes the formula, for any length. A state does not have it, nor has a
    copy of the layer, where it grows again; two of them are equal, whatever their lengths.
    """

    def __init__(self) -> None:
        self.tables: tuple[Tensor, ...] = ()  # one for each device

    def get(self, layer: Any, x: Tensor, queries: range, keys: range) -> Tensor:
        """Return a table that has the offsets of these positions, beside `x`; None without any, or if it wasted memory.

        It doubles, or follows a call that is at least half as long; a lone far position is not worth a table. Tables
        are read once, as other threads may replace them.
        """
        if not (queries and keys):
            return None
        tables, encoding, reach = self.tables, layer.encoding, LEAST // 2
        last = max(queries.stop - 1 - keys.start, keys.stop - 1 - queries.start)
        before = [table for table in tables if layer.backend.is_beside(table, x)]
        if before:
            reach = before[0].shape[-1] // 2
            if last <= reach:
                return before[0]
        if last > 2 * max(reach, len(queries) + len(keys)):
            return None
        reach = min(max(last, 2 * reach), encoding.limit - 1)
        learned, arrays = encoding.parameters(), layer.arrays
        weights = {name: layer.backend.to_numpy(arrays[name]) for name in arrays if name not in learned}
        host = encoding.offset_table(weights, np.arange(-reach, reach + 1))
        table = layer.backend.from_numpy(host, like=x)
        self.tables = (table, *[one for one in tables if not layer.backend.is_beside(one, x)])
        return table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetTable)

    def __hash__(self) -> int:
        return hash(OffsetTable)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return OffsetTable, ()
