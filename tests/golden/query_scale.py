"""Golden factors of queries, from the formulas of the models that have them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import drawn, rounded

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


def learned_query_scale() -> Iterator[dict[str, Any]]:
    """Yield queries times learned factors, and the gradients of slopes and intercepts."""
    numbers = random.Random(20260901)
    for heads, positions in ((2, [0, 1, 2, 3, 4]), (3, [5, *FAR])):
        encoding = {"kind": "LearnedQueryScale", "num_heads": heads}
        learned = {name: [drawn(numbers, 24) / 4 for _ in range(heads)] for name in ("slope", "intercept")}
        x, weights = ([[[drawn(numbers, 24) for _ in range(2)] for _ in positions] for _ in range(heads)] for _ in "xw")
        result, gradients = [], {"slope": [], "intercept": []}
        for h in range(heads):
            factors = [factor_of(encoding, p, learned, h) for p in positions]
            result.append([[float(f * a) for a in row] for f, row in zip(factors, x[h], strict=True)])
            arrived = [
                mp.fsum(mp.mpf(a) * w for a, w in zip(*rows, strict=True))
                for rows in zip(x[h], weights[h], strict=True)
            ]
            gradients["intercept"].append(float(mp.fsum(arrived)))
            terms = (a * mp.log(p + 1) for a, p in zip(arrived, positions, strict=True))
            gradients["slope"].append(float(mp.fsum(terms)))
        name = f"LearnedQueryScale, {heads} heads" + ", far positions" * (FAR[-1] in positions)
        case = {"name": name, "encoding": encoding, "positions": positions, "parameters": learned}
        yield case | {"x": x, "weights": weights, "result": result, "gradients": gradients}


def factor_of(encoding: dict[str, Any], p: int, learned: dict[str, Any] | None = None, head: int = 0) -> Any:
    """Return the factor of a query at `p`, with all digits."""
    if encoding["kind"] == "LearnedQueryScale":
        slope, intercept = ((learned or {})[name][head] for name in ("slope", "intercept"))
        return slope * mp.log(p + 1) + intercept
    n, length = p + encoding.get("start", 1), encoding["length"]
    growth, scale = encoding.get("growth", "steps"), mp.mpf(encoding.get("scale", 0)) or 1 / mp.log(length)
    if growth == "power":
        return (1 + mp.mpf(n) / length) ** scale
    return 1 + scale * mp.log(1 + n // length if growth == "steps" else max(mp.mpf(n) / length, 1))
