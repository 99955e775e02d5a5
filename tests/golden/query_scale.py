"""Golden factors of queries, from the formulas of the models that have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import rounded

FAR = [0, 1, 1048575, 16777215, 2147483646]


def query_scale() -> Iterator[dict[str, Any]]:
    """Yield the factors of each formula at steps, before and after them, and at far positions."""
    for fields in (
        {"length": 8192, "scale": 0.1},
        {"length": 16384, "scale": 0.1, "start": 0},
        {"length": 128000, "scale": 0.1, "growth": "log"},
        {"length": 2048, "growth": "log"},
        {"length": 2048, "scale": 0.1, "growth": "power"},
        {"length": 3, "scale": 0.5, "growth": "power", "start": 0},
    ):
        encoding = {"kind": "QueryScale", **fields}
        near = [max(steps * fields["length"] + d, 0) for steps in (1, 2, 7) for d in (-2, -1, 0)]
        positions = sorted({*FAR, *near})
        name = ", ".join(["QueryScale", *(f"{key} {value}" for key, value in fields.items())])
        table = [[rounded(factor_of(encoding, p))] for p in positions]
        yield {"name": name, "encoding": encoding, "positions": positions, "table": table}


def factor_of(encoding: dict[str, Any], p: int) -> Any:
    """Return the factor of a query at `p`, with all digits."""
    n, length = p + encoding.get("start", 1), encoding["length"]
    growth, scale = encoding.get("growth", "steps"), mp.mpf(encoding.get("scale", 0)) or 1 / mp.log(length)
    if growth == "power":
        return (1 + mp.mpf(n) / length) ** scale
    return 1 + scale * mp.log(1 + n // length if growth == "steps" else max(mp.mpf(n) / length, 1))
