"""What `PositionalEncoding` costs beside the framework's own addition of a table that is at hand, `x + table`.

    python benchmarks/additive.py [ROOM [LENGTH [ROUNDS]]]

Quartiles of ratios of processor time, which other programs on the machine do not add to, from rounds that run both, one after the other;
run it with one thread. Tokens are `(8, length, 512)`, float32. Printed as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_backends.conformance import subject
from posenc_core import Sinusoidal, namespace_of

WIDTH = 512


def seconds(call: Callable[[], Any]) -> float:
    """How long the processor works on one call, until its result is there."""
    began = time.process_time()
    result = call()
    for wait in ("block_until_ready", "wait_to_read"):
        getattr(result, wait, lambda: None)()
    return time.process_time() - began


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


def main(name: str = "numpy", length: int = 1024, rounds: int = 25) -> None:
    """Measure and print."""
    on = subject(name)
    x = on.room.from_numpy(np.random.default_rng(0).normal(size=(8, length, WIDTH)).astype(np.float32))
    host = Sinusoidal(dim=WIDTH).table(range(length))
    table, wide = on.room.from_numpy(host), on.room.from_numpy(host[None])
    appended = on.room.from_numpy(np.repeat(host[None], 8, axis=0))
    xp = namespace_of(x)

    def made(**options: Any) -> Any:
        layer = on.harness.evaluated(on.room.PositionalEncoding(WIDTH, max_len=length, **options))
        layer(x)
        return layer

    plain, dropping, concat = made(), made(dropout=0.1), made(combine="concat")
    found = {
        "table of one more axis": ratios(lambda: x + wide, lambda: x + table, rounds),
        "add": ratios(lambda: plain(x), lambda: x + table, rounds),
        "add, dropout 0.1, evaluated": ratios(lambda: dropping(x), lambda: x + table, rounds),
        "concat, over that of an operand as large": ratios(
            lambda: concat(x), lambda: xp.concat([x, appended], axis=-1), rounds
        ),
    }
    if hasattr(plain, "train"):
        plain.train()
        found["add, training"] = ratios(lambda: plain(x), lambda: x + table, rounds)
    print(json.dumps({"room": name, "length": length, "rounds": rounds} | found))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
