"""Golden rotations by Fourier position embedding (FoPE), from the definition of the paper."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import drawn, power
from rope import channels

FAR = [0, 1, 255, 65537, 1048575]
NAMES = ("cos_mixing", "sin_mixing")


def fope() -> Iterator[dict[str, Any]]:
    """Yield queries of each head rotated by sums of frequencies, and the gradients of both matrices."""
    numbers = random.Random(20241223)
    half = {"kind": "FoPE", "head_dim": 8, "layout": "half"}
    for encoding, positions in (
        (half | {"length": 1024}, [0, 1, 2, 3, 4]),
        (half | {"length": 1024, "num_heads": 2}, FAR),
        (half | {"num_terms": 4, "base": 500000, "num_heads": 2}, [5, 6, 7]),
        (half | {"layout": "interleaved", "num_terms": 2, "floor_sine": 0, "direction": "inverse"}, FAR),
    ):
        terms = len(frequencies(encoding))
        shape = (*([encoding["num_heads"]] if "num_heads" in encoding else []), terms, terms)
        learned = {name: _array(numbers, shape) for name in NAMES}
        x, weights = (_array(numbers, (2, len(positions), 8)) for _ in "xw")
        result = [
            [rotated(row, table(encoding, learned, h, p), encoding) for row, p in zip(x[h], positions, strict=True)]
            for h in range(2)
        ]
        name = ", ".join(["FoPE", *(f"{key} {value}" for key, value in encoding.items() if key != "kind")])
        case = {"name": name, "encoding": encoding, "positions": positions, "parameters": learned}
        case |= {"x": x, "weights": weights, "result": [[list(map(float, row)) for row in head] for head in result]}
        yield case | {"gradients": _gradients(encoding, positions, x, weights)}


def frequencies(encoding: dict[str, Any]) -> list[Any]:
    """Return the frequencies that complete a period within the training length, or as many as are given."""
    dim = encoding["head_dim"]
    f = [power(encoding.get("base", 10000), 2 * i, dim) for i in range(dim // 2)]
    if "num_terms" in encoding:
        return f[: encoding["num_terms"]]
    return [w for w in f if w > 2 * mp.pi / encoding["length"]]


def table(encoding: dict[str, Any], learned: dict[str, Any], head: int, p: int) -> list[tuple[Any, Any]]:
    """Return cosine and sine of each pair: sums over the frequencies, and constants below the floor."""
    f, sign = frequencies(encoding), -1 if encoding.get("direction") == "inverse" else 1
    both = []
    for name, function in zip(NAMES, (mp.cos, mp.sin), strict=True):
        matrix = learned[name][head] if "num_heads" in encoding else learned[name]
        own = [function(p * w) for w in f]
        both.append([c + mp.fsum(t * row[j] for t, row in zip(own, matrix, strict=True)) for j, c in enumerate(own)])
    still = (mp.mpf(1), mp.mpf(encoding.get("floor_sine", 1)))
    rest = [still] * (encoding["head_dim"] // 2 - len(f))
    return [(cos, sign * sin) for cos, sin in (*zip(*both, strict=True), *rest)]


def rotated(row: list[float], cos_sin: list[tuple[Any, Any]], encoding: dict[str, Any]) -> list[Any]:
    """Return a token with each pair multiplied by the matrix of its cosine and sine, with all digits."""
    result = [mp.mpf(number) for number in row]
    for (cos, sin), (a, b, _, _) in zip(cos_sin, channels(encoding, len(cos_sin)), strict=True):
        result[a], result[b] = row[a] * cos - row[b] * sin, row[b] * cos + row[a] * sin
    return result


def _gradients(encoding: dict[str, Any], positions: list[int], x: Any, weights: Any) -> dict[str, Any]:
    """Return the gradient of `sum(result * weights)` with respect to each matrix."""
    f, sign = frequencies(encoding), -1 if encoding.get("direction") == "inverse" else 1
    ways = channels(encoding, encoding["head_dim"] // 2)[: len(f)]
    gradients = {}
    for name, function in zip(NAMES, (mp.cos, mp.sin), strict=True):
        heads = []
        for tokens, wanted in zip(x, weights, strict=True):
            arrived = [
                [
                    mp.mpf(w[a]) * t[a] + w[b] * t[b]
                    if name == NAMES[0]
                    else sign * (mp.mpf(w[b]) * t[a] - w[a] * t[b])
                    for a, b, _, _ in ways
                ]
                for t, w in zip(tokens, wanted, strict=True)
            ]
            terms = [[function(p * w) for w in f] for p in positions]
            heads.append(
                [
                    [mp.fsum(t[i] * a[j] for t, a in zip(terms, arrived, strict=True)) for j in range(len(f))]
                    for i in range(len(f))
                ]
            )
        both = (
            heads
            if "num_heads" in encoding
            else [[[a + b for a, b in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]]
        )
        numbers = [[[float(value) for value in row] for row in matrix] for matrix in both]
        gradients[name] = numbers if "num_heads" in encoding else numbers[0]
    return gradients


def _array(numbers: random.Random, shape: tuple[int, ...]) -> Any:
    return [_array(numbers, shape[1:]) for _ in range(shape[0])] if shape else drawn(numbers, 24) / 4
