"""Measure time and memory against length, batch, heads and width, and the power that each grows by.

    python benchmarks/growth.py [--backend numpy] [--only WORD ...] [--largest SIZE] [--rounds N] [-o FILE]

One thread, NumPy. Time is the median of some rounds; memory is the peak of a call, with its result and without its
arguments. The power is the slope of a line through the larger half of the sizes, on logarithmic scales; the result has
the expected power beside it. For sequence layers, products and sequential steps are counted as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
from growing import Curve, curves
from harness import CLOCKS, time_interleaved
from sequence_layers import LAYERS, count


def measure_curve(definition: Curve, *, largest: int = 2**20, rounds: int = 5, clock: str = "wall") -> dict[str, Any]:
    """Return seconds and bytes at each size, and the powers that they grow by."""
    sizes = [size for size in definition.sizes if size <= largest]
    seconds, memory = [], []
    for size in sizes:
        call = definition.make(size)
        memory.append(peak_memory(call))
        seconds.append(statistics.median(time_interleaved({"": call}, rounds, clock=clock)[""]) if rounds else None)
        del call
        gc.collect()
    result = {"kind": definition.kind, "name": definition.name, "axis": definition.axis, "sizes": sizes}
    result |= {"bytes": memory, "bytes grow by": slope(sizes, memory), "bytes should grow by": definition.memory}
    if rounds:
        result |= {
            "clock": clock,
            "seconds": seconds,
            "seconds grow by": slope(sizes, seconds),
            "seconds should grow by": definition.time,
        }
    return result


def peak_memory(call: Callable[[], Any]) -> int:
    """Return the most memory that NumPy has allocated at once during a call, its result included."""
    call()  # fill caches
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def slope(sizes: list[int], found: list[Any]) -> float:
    """Return the slope of a line through the larger half of the points, on logarithmic scales."""
    half = len(sizes) // 2
    x, y = np.log2(sizes[half:]), np.log2(np.asarray(found[half:], float))
    return round(float(np.polyfit(x, y, 1)[0]), 2) if len(x) > 1 else float("nan")


def counts() -> list[dict[str, Any]]:
    """Return the products and steps of the sequence layers, at several lengths and widths."""
    found = []
    for name, layer in LAYERS.items():
        for axis, sizes in {"length": (16, 32, 64, 128), "width": (16, 32, 64, 128)}.items():
            each = [count(layer.run, *((size, 64) if axis == "length" else (64, size))) for size in sizes]
            products, steps = ([*column] for column in zip(*each, strict=True))
            powers = {"products grow by": slope([*sizes], products), "steps grow by": slope([*sizes], steps)}
            found.append({"name": name, "axis": axis, "sizes": sizes, "products": products, "steps": steps} | powers)
    return found


def main() -> None:
    """Measure in a process with one thread, and write the result."""
    parser = argparse.ArgumentParser(description="Time and memory against size, as JSON.")
    parser.add_argument(
        "--backend", choices=["numpy"], default="numpy", help="the only one whose memory is known to the byte"
    )
    parser.add_argument("--only", nargs="+", default=[], help="curves with all these words in kind, name and axis")
    parser.add_argument("--largest", type=int, default=2**20, help="the largest size of any kind")
    parser.add_argument("--rounds", type=int, default=5, help="of time; 0 measures memory alone")
    parser.add_argument("--clock", choices=CLOCKS, default="processor", help="wall time, or that of the processor")
    parser.add_argument("-o", "--output", help="a file for the result; else it is printed")
    options = parser.parse_args()
    if not machine.is_subprocess():
        machine.rerun_in_subprocess(options.output)
        return
    result = {"benchmark": "growth", "backend": "numpy", "machine": machine.machine(), "versions": machine.versions()}
    found: list[dict[str, Any]] = []
    for one in curves():
        if all(word in f"{one.kind}, {one.name}, {one.axis}" for word in options.only):
            found.append(measure_curve(one, largest=options.largest, rounds=options.rounds, clock=options.clock))
            powers = {name: number for name, number in found[-1].items() if "grow by" in name and "should" not in name}
            print(one.kind, one.name, one.axis, powers, file=sys.stderr, flush=True)
    text = json.dumps(result | {"layers": counts(), "curves": found}, indent=1)
    Path(options.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
