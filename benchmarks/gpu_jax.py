"""Time JAX's rotation on a GPU, compiled, against a pass over the same bytes there.

    python benchmarks/gpu_jax.py [--device gpu] [--rounds N] [-o FILE]

A ratio is the time over that of a compiled function that changes the sign of queries and keys: it reads and writes each
number once. Times are of the host and the device together, in calls behind each other.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import machine
import numpy as np

from posenc_core import Rotary, rotate

SHAPES = {"prefill 4096": (1, 4096), "prefill 16384": (1, 16384), "decode": (8, 1)}
HEADS, WIDTH, CALLS = (32, 8), 128, 20


def calls_of(batch: int, length: int, dtype: str, layout: Any) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by its name, the pass over the bytes first."""
    keys = jax.random.split(jax.random.key(0), 2)
    sizes = [(batch, heads, length, WIDTH) for heads in HEADS]
    q, k = (jax.random.normal(key, size).astype(dtype) for key, size in zip(keys, sizes, strict=True))
    cos, sin = (jnp.asarray(table) for table in Rotary(head_dim=WIDTH, layout=layout).cos_sin(np.arange(length)))
    both = jax.jit(lambda q, k: (-q, -k))
    ours = jax.jit(lambda q, k: tuple(rotate(x, cos, sin, layout=layout) for x in (q, k)))
    cotangents = both(q, k)
    back = jax.jit(lambda q, k, ct: jax.vjp(ours, q, k)[1](ct))
    return {"pass": lambda: both(q, k), "rotation": lambda: ours(q, k), "gradient": lambda: back(q, k, cotangents)}


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of a call among others behind each other."""
    began = time.perf_counter()
    for _ in range(CALLS):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - began) / CALLS


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="JAX's rotation on a GPU, as JSON.")
    parser.add_argument("--device", default="gpu", help="gpu, or cpu for a trial with tiny sizes")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu" if options.device == "cpu" else "cuda")
    shapes = {"tiny": (1, 8)} if options.device == "cpu" else SHAPES
    cases = []
    for (name, sizes), dtype, layout in product(shapes.items(), ("bfloat16", "float32"), ("half", "interleaved")):
        calls = calls_of(*sizes, dtype, layout)
        times: dict[str, list[float]] = {key: [] for key in calls}
        for call in calls.values():
            jax.block_until_ready(call())
        for _ in range(options.rounds):
            for key in random.sample([*calls], len(calls)):
                times[key].append(seconds(calls[key]))
        ratios = {}
        for key, mine in times.items():
            ratios[key] = statistics.median(a / b for a, b in zip(mine, times["pass"], strict=True))
        case = {
            "name": f"{name}, {dtype}, {layout}",
            "of the pass": {key: float(f"{ratio:.4g}") for key, ratio in ratios.items()},
            "microseconds of the pass": float(f"{1e6 * statistics.median(times['pass']):.4g}"),
        }
        print(json.dumps(case), flush=True)
        cases.append(case)
    described = machine.machine() | {"GPU": jax.devices()[0].device_kind}
    versions = machine.versions()
    found = {"benchmark": "gpu_jax", "backend": "jax", "machine": described, "versions": versions, "cases": cases}
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
