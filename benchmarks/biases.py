"""What biases of plain sequences cost beside an array of their size that is filled with one number.

    python benchmarks/biases.py [ROOM [HEADS [LENGTH [ROUNDS]]]]

Quartiles of ratios of time, from rounds that run both, one after the other; and the most that making one has held in memory
at once, over the size of the result, as NumPy counts it. Printed as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_backends import load
from posenc_core import Alibi, Kerple, T5Bias, namespace_of
from posenc_core.attention import Content
from posenc_core.encodings import Placed, PositionScoring


def seconds(call: Callable[[], Any]) -> float:
    """How long one call takes, its result there."""
    began = time.perf_counter()
    result = call()
    for wait in ("block_until_ready", "wait_to_read"):
        getattr(result, wait, lambda: None)()
    return time.perf_counter() - began


def ratios(ours: Callable[[], Any], other: Callable[[], Any], rounds: int) -> list[float]:
    """Quartiles of time over time, round by round; the two take turns in going first."""
    found = []
    for number in range(rounds):
        if number % 2:
            mine, theirs = seconds(ours), seconds(other)
        else:
            theirs, mine = seconds(other), seconds(ours)
        found.append(mine / theirs)
    return [round(each, 2) for each in statistics.quantiles(found, n=4)]


def making(room: Any, encoding: PositionScoring, length: int) -> Callable[[], Any]:
    """Makes the bias, as `attend` does."""
    rng, like = np.random.default_rng(0), room.from_numpy(np.zeros((1, 1), np.float32))
    weights = {
        name: room.from_numpy(rng.normal(size=each.shape).astype(np.float32))
        for name, each in encoding.parameters().items()
    }
    placed = Placed(encoding, range(length), range(length), weights).equipped(like)
    return lambda: placed.scores(Content(like, like, like))


def peak(call: Callable[[], Any]) -> float:
    """The most memory that a call holds, over the size of its result."""
    tracemalloc.start()
    result = call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(most / result.nbytes, 3)


def main(name: str = "numpy", heads: int = 32, length: int = 4096, rounds: int = 15) -> None:
    """Measure and print."""
    room = load(name)
    row = room.from_numpy(np.zeros((heads, length, length), np.float32))
    found: dict[str, Any] = {"room": name, "heads": heads, "length": length, "rounds": rounds}
    for encoding in (Alibi(num_heads=heads), T5Bias(num_heads=heads), Kerple(num_heads=heads)):
        make = making(room, encoding, length)
        kind = type(encoding).__name__
        found[f"{kind}, time over filling"] = ratios(make, lambda: namespace_of(row).full_like(row, 1.5), rounds)
        if name == "numpy":
            found[f"{kind}, peak memory over the result"] = peak(make)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
