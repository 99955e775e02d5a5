"""Golden magnitudes at angles (PoPE), from the definition of the paper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import mpmath as mp
from numbers_of import drawn, power

FAR = [0, 1, 255, 65537, 1048575]


def pope() -> Iterator[dict[str, Any]]:
    """Yield queries and keys of two heads, and the gradient of the phases; some phases are out of bounds."""
    numbers = random.Random(20250910)
    for encoding, positions in (
        ({"kind": "PoPE", "head_dim": 4, "num_heads": 2}, [0, 1, 2, 3, 4]),
        ({"kind": "PoPE", "head_dim": 8, "num_heads": 2, "base": 500000}, FAR),
    ):
        heads, dim = 2, encoding["head_dim"]
        phase = [[drawn(numbers, 24) - 3 for _ in range(dim)] for _ in range(heads)]
        phase[0][0] = 0.0  # the first, at a bound, where it learns
        q, k = ([[[drawn(numbers, 24) for _ in range(dim)] for _ in positions] for _ in range(heads)] for _ in "qk")
        weights = [[[drawn(numbers, 24) for _ in range(2 * dim)] for _ in positions] for _ in range(heads)]
        of_queries = [[polar(encoding, x, p) for x, p in zip(rows, positions, strict=True)] for rows in q]
        of_keys = [
            [polar(encoding, x, p, own) for x, p in zip(rows, positions, strict=True)]
            for rows, own in zip(k, phase, strict=True)
        ]
        gradient = [
            [_slope(encoding, positions, c, *head) for c in range(dim)] for head in zip(k, phase, weights, strict=True)
        ]
        name = ", ".join(["PoPE", *(f"{key} {value}" for key, value in encoding.items() if key != "kind")])
        yield {
            "name": name,
            "encoding": encoding,
            "positions": positions,
            "parameters": {"phase": phase},
            "q": q,
            "k": k,
            "weights": weights,
            "result": [[[[float(x) for x in row] for row in rows] for rows in each] for each in (of_queries, of_keys)],
            "gradients": {"phase": gradient},
        }


def polar(encoding: dict[str, Any], x: list[Any], p: int, phase: list[float] | None = None) -> list[Any]:
    """Return a query, or a key with phases, as magnitudes times cosines and then times sines, with all digits."""
    magnitudes = [mp.log1p(mp.exp(number)) for number in x]
    base, dim = encoding.get("base", 10000), encoding["head_dim"]
    turns = [cos_sin(base, dim, c, p, 0.0 if phase is None else phase[c]) for c in range(dim)]
    return [m * turn[part] for part in (0, 1) for m, turn in zip(magnitudes, turns, strict=True)]


@cache
def cos_sin(base: float, head_dim: int, channel: int, p: int, phase: float) -> tuple[Any, Any]:
    """Return cosine and sine of the angle of a channel, with a phase within one turn below 0."""
    bounded = min(max(mp.mpf(phase), -2 * mp.pi), mp.mpf(0))
    angle = p * power(base, channel, head_dim) + bounded
    return mp.cos(angle), mp.sin(angle)


def _slope(encoding: dict[str, Any], positions: list[int], c: int, k: Any, phase: Any, weights: Any) -> float:
    """Return the gradient of `sum(result * weights)` of one phase; 0 beyond its bounds."""
    if not -2 * mp.pi <= phase[c] <= 0:
        return 0.0
    base, dim, terms = encoding.get("base", 10000), encoding["head_dim"], []
    for row, p, w in zip(k, positions, weights, strict=True):
        (cos, sin), magnitude = cos_sin(base, dim, c, p, phase[c]), mp.log1p(mp.exp(row[c]))
        terms.append(magnitude * (w[dim + c] * cos - w[c] * sin))
    return float(mp.fsum(terms))
