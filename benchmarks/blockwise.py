"""Measure attention of long sequences, block by block: seconds, and memory besides input and output.

    python benchmarks/blockwise.py [--backend BACKEND] [--length LENGTH] [--block BLOCK] [-o FILE]

One head, 64 wide, float32, `Alibi` with a causal mask. Memory is the peak of the process less its peak before. Some
rows are compared with the plain formula in float64. The result is JSON; it runs in a process with one thread.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np

from posenc_backends import load
from posenc_core import Alibi, attend_by_block, causal
from posenc_core.encodings import Placed

WIDTH, SLOPE = 64, 2.0**-8


def peak() -> int:
    """Return the peak memory of this process, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10


def error(q: np.ndarray, k: np.ndarray, v: np.ndarray, got: np.ndarray) -> float:
    """Return the worst error of some rows."""
    worst = 0.0
    for row in (0, 1, len(q) // 3, len(q) - 1):
        scores = k[: row + 1].astype(np.float64) @ q[row] / WIDTH**0.5 - SLOPE * np.arange(row, -1, -1)
        weights = np.exp(scores - scores.max())
        worst = max(worst, np.abs(weights @ v[: row + 1] / weights.sum() - got[row]).max())
    return worst


def main() -> None:
    """Measure, and write or print the result."""
    parser = argparse.ArgumentParser(description="Attention of long sequences, block by block: time and memory.")
    parser.add_argument("--backend", default="numpy", help="the backend to measure; numpy by default")
    parser.add_argument("--length", type=int, default=65536, help="how many queries and keys")
    parser.add_argument("--block", type=int, default=512, help="how many of them at a time")
    parser.add_argument("-o", "--output", help="a file for the result; else it is printed")
    options = parser.parse_args()
    if not machine.is_subprocess():
        machine.rerun_in_subprocess(options.output)
        return
    result = {"benchmark": "blockwise", "backend": options.backend, "machine": machine.machine()}
    result |= measure(options.backend, options.length, options.block) | {"versions": machine.versions()}
    Path(options.output).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measure(name: str, length: int, block: int) -> dict[str, Any]:
    """Return seconds, memory, and the worst error of some rows."""
    backend, rng = load(name), np.random.default_rng(0)
    host = [rng.normal(size=(1, 1, length, WIDTH)).astype(np.float32) for _ in "qkv"]
    q, k, v = (backend.from_numpy(each) for each in host)
    position = Placed(Alibi(num_heads=1), range(length), range(length))
    some = Placed(Alibi(num_heads=1), range(block), range(block))
    attend_by_block(*(x[..., :block, :] for x in (q, k, v)), position=some, mask=causal, block=block)
    before, began = peak(), time.perf_counter()
    got = backend.to_numpy(attend_by_block(q, k, v, position=position, mask=causal, block=block))
    seconds = time.perf_counter() - began
    result = {"length": length, "block": block, "seconds": round(seconds, 1)}
    result |= {"peak over before, MiB": peak() - before, "scores, MiB": length**2 * 4 // 2**20}
    return result | {"worst error": error(*(each[0, 0] for each in host), got[0, 0])}


if __name__ == "__main__":
    main()
