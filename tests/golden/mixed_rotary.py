"""Golden rotations by learned frequencies on several axes (RoPE-Mixed), from the definition of the paper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mpmath as mp
from fope import rotated
from numbers_of import drawn, rounded


def mixed_rotary() -> Iterator[dict[str, Any]]:
    """Yield queries of each head rotated by learned frequencies, and the gradient of these."""
    numbers = random.Random(20240320)
    mixed = {"kind": "MixedRotary", "head_dim": 8, "layout": "interleaved", "num_heads": 2}
    rows, columns = [k // 3 for k in range(6)], [k % 3 for k in range(6)]
    for encoding, positions in (
        (mixed, [rows, columns]),
        (mixed | {"layout": "half", "direction": "inverse"}, [[-0.75, 0.25, 1.5], [2.0, -1.5, 0.125]]),
        (mixed | {"num_heads": 1, "num_axes": 3, "rotary_dim": 6}, [rows, columns, [2, 1, 0, 2, 1, 0]]),
    ):
        heads, pairs = encoding["num_heads"], encoding.get("rotary_dim", 8) // 2
        frequencies = _array(numbers, (len(positions), heads, pairs), size=mp.mpf(1) / 8)
        x, weights = (_array(numbers, (heads, len(positions[0]), 8)) for _ in "xw")
        places = list(zip(*positions, strict=True))
        result = [
            [rotated(x[h][p], table(encoding, frequencies, h, place), encoding) for p, place in enumerate(places)]
            for h in range(heads)
        ]
        name = ", ".join(f"{key} {value}" for key, value in encoding.items() if key != "kind")
        yield {
            "name": f"MixedRotary, {name}",
            "encoding": encoding,
            "positions": positions,
            "parameters": {"frequencies": frequencies},
            "x": x,
            "weights": weights,
            "result": [[[float(number) for number in row] for row in head] for head in result],
            "gradients": {"frequencies": _gradient(encoding, positions, weights, result)},
        }


def table(encoding: dict[str, Any], frequencies: Any, head: int, place: Any) -> list[tuple[Any, Any]]:
    """Return cosine and sine of each pair, whose angle is a sum over the axes."""
    sign = -1 if encoding.get("direction") == "inverse" else 1
    pairs = zip(*(axis[head] for axis in frequencies), strict=True)
    angles = [mp.fsum(mp.mpf(p) * f for p, f in zip(place, pair, strict=True)) for pair in pairs]
    return [(mp.cos(angle), sign * mp.sin(angle)) for angle in angles]


def _gradient(encoding: dict[str, Any], positions: Any, weights: Any, result: Any) -> Any:
    """Return the gradient of `sum(result * weights)` with respect to the frequencies."""
    sign = -1 if encoding.get("direction") == "inverse" else 1
    pairs = encoding.get("rotary_dim", 8) // 2
    half = encoding["layout"] == "half"
    ways = [(j, j + pairs) if half else (2 * j, 2 * j + 1) for j in range(pairs)]
    return [
        [
            [
                float(
                    sign * mp.fsum(p * (w[b] * r[a] - w[a] * r[b]) for p, w, r in zip(axis, wanted, got, strict=True))
                )
                for a, b in ways
            ]
            for wanted, got in zip(weights, result, strict=True)
        ]
        for axis in positions
    ]


def _array(numbers: random.Random, shape: tuple[int, ...], size: Any = 1) -> Any:
    return [_array(numbers, shape[1:], size) for _ in range(shape[0])] if shape else rounded(drawn(numbers, 24) * size)
