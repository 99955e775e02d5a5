"""What exact tables cost, and what others lose.

    python benchmarks/tables.py [ROUNDS]

Time is given as quartiles of ratios to plain float64-then-cast, from rounds that run both, one after the other; memory as a
ratio to the result. The errors of the usual forms are those at 65,536 positions that end at 2**20. Printed as JSON.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_core import Rotary
from posenc_core.frequencies import as_float64, geometric

LENGTH, HEAD_DIM = 131072, 128


def plain() -> tuple[Any, Any]:
    """The usual form: angles, cosine and sine in float64, then a cast."""
    angles = np.arange(LENGTH)[:, None] * as_float64(geometric(HEAD_DIM, base=10000))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def exact() -> tuple[Any, Any]:
    """Ours: every entry correctly rounded."""
    return Rotary(head_dim=HEAD_DIM, layout="half").cos_sin(np.arange(LENGTH))


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def importing(module: str) -> Callable[[], object]:
    """A new process that imports a module."""
    return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def ratios(ours: Callable[[], object], other: Callable[[], object], rounds: int) -> dict[str, float]:
    """Quartiles of time over time, round by round; the two take turns in going first."""
    found = []
    for number in range(rounds):
        if number % 2:
            mine, theirs = seconds(ours), seconds(other)
        else:
            theirs, mine = seconds(other), seconds(ours)
        found.append(mine / theirs)
    low, median, high = statistics.quantiles(found, n=4)
    return {"first quartile": low, "median": median, "third quartile": high}


def peak() -> float:
    """The most memory that building a table holds at once, over the size of the table."""
    tracemalloc.start()
    size = sum(table.nbytes for table in exact())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / size


def errors() -> dict[str, float]:
    """The usual tables against the exact one, just before position 2**20."""
    positions = np.arange(2**20 - 2**16, 2**20)
    frequencies = as_float64(geometric(HEAD_DIM, base=10000))
    cos, sin = Rotary(head_dim=HEAD_DIM, layout="half").cos_sin(positions)
    single = positions[:, None].astype(np.float32) * frequencies.astype(np.float32)
    double = positions[:, None] * frequencies
    return {
        "float32 angles, worst error": float(np.abs(np.cos(single) - cos).max()),
        "float64-then-cast, share of entries not correctly rounded": float(
            np.mean([np.cos(double).astype(np.float32) != cos, np.sin(double).astype(np.float32) != sin])
        ),
    }


def main(rounds: int) -> None:
    """Measure and print."""
    result = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rounds": rounds,
        "table of 131072 x 128, time over float64-then-cast": ratios(exact, plain, rounds),
        "table of 131072 x 128, peak memory over the result": peak(),
        "tables of others, before position 2**20": errors(),
        "import posenc_core, time over import numpy": ratios(importing("posenc_core"), importing("numpy"), rounds),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
