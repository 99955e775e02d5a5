"""Golden distances and tables of rotary encodings with remapped positions, from the definitions of the papers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import power, rounded

HEAD_DIM, BASE = 8, 10000
ROTARY = {"kind": "Rotary", "head_dim": HEAD_DIM, "layout": "half"}
KINDS = ("SelfExtend", "ReRoPE", "LeakyReRoPE", "DualChunk")


def remapping() -> Iterator[dict[str, Any]]:
    """Yield distances around every bound of a region, and tables at near and far positions."""
    for kind, fields in (
        ("SelfExtend", {"window": 1024, "group_size": 8}),
        ("SelfExtend", {"window": 7, "group_size": 3}),
        ("SelfExtend", {"window": 5, "group_size": 1}),
        ("ReRoPE", {"window": 512}),
        ("ReRoPE", {"window": 1}),
        ("LeakyReRoPE", {"window": 512, "factor": 16}),
        ("LeakyReRoPE", {"window": 6, "factor": 1.75}),
        ("DualChunk", {"chunk_size": 3072, "local_size": 512}),
        ("DualChunk", {"chunk_size": 8, "local_size": 3}),
        ("DualChunk", {"chunk_size": 8, "local_size": 6}),
        ("DualChunk", {"chunk_size": 262144, "local_size": 8192}),
    ):
        encoding = {"kind": kind, "rotary": ROTARY, **fields}
        bounds = {n for field in fields.values() for n in (int(field), 2 * int(field))}
        if kind == "DualChunk":
            length = fields["chunk_size"] - fields["local_size"]
            bounds |= {length, 2 * length, 3 * length}
        near = sorted({max(bound + d, 0) for bound in bounds for d in (-1, 0, 1)} | {0, 1048576, 1048577})
        pairs = [(p, n) for p in near for n in near if n <= p]
        far = {1048577, 16777215, 2147483646} if fields.get("factor") != 1.75 else set()  # quotients are rounded first
        positions = sorted({n for n in near[::3] if n < 2**19} | far)
        tables = [[_row(at) for at in remapped(encoding, p)] for p in positions]
        yield {
            "name": ", ".join([kind, *(f"{key} {value}" for key, value in fields.items())]),
            "encoding": encoding,
            "query_positions": [p for p, _ in pairs],
            "key_positions": [n for _, n in pairs],
            "distances": [float(of(encoding, p, n)) for p, n in pairs],
            "positions": positions,
            "tables": tables,
        }


def _row(at: Any) -> list[list[float]]:
    """Return cosines and sines of all pairs, rounded once to float32."""
    angles = [at * power(BASE, 2 * i, HEAD_DIM) for i in range(HEAD_DIM // 2)]
    return [[rounded(function(angle), 24) for angle in angles] for function in (mp.cos, mp.sin)]


def of(encoding: dict[str, Any], p: int, n: int) -> Any:
    """Return the distance by which a query at `p` and a key at `n`, not after it, are rotated."""
    if encoding["kind"] == "DualChunk":
        size, length = encoding["chunk_size"], encoding["chunk_size"] - encoding["local_size"]
        chunks = p // length - n // length
        if chunks == 0:
            return p - n
        at = min(p % length + length, size) if chunks == 1 else min(2 * length - 1, size)
        return at - n % length
    distance, window = p - n, encoding["window"]
    if distance < window:
        return distance
    if encoding["kind"] == "SelfExtend":
        group = encoding["group_size"]
        return p // group - n // group + window - window // group
    if encoding["kind"] == "ReRoPE":
        return window
    return window + mp.mpf(distance - window) / mp.mpf(encoding["factor"])


def remapped(encoding: dict[str, Any], p: int) -> tuple[Any, Any, Any]:
    """Return the positions by which a token at `p` is rotated: three that keys and queries choose from."""
    if encoding["kind"] == "DualChunk":
        size, length = encoding["chunk_size"], encoding["chunk_size"] - encoding["local_size"]
        return p % length, min(p % length + length, size), min(2 * length - 1, size)
    window = encoding["window"]
    if encoding["kind"] == "SelfExtend":
        group = encoding["group_size"]
        return p, p // group + window - window // group, p // group
    if encoding["kind"] == "ReRoPE":
        return p, window, 0
    factor = mp.mpf(encoding["factor"])
    return p, (p + window * (factor - 1)) / factor, p / factor
