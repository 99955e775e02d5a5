"""Time compiled rotations on a GPU by each way to compile them: alone, with gradients, and between their neighbours.

    python benchmarks/gpu_compiled.py [--device cuda] [--rounds N] [-o FILE]

A ratio is the time over that of a copy of queries and keys on the device; the time of a call is that of the host and
the device together, in calls behind each other.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path
from typing import Any

import machine
import torch
from gpu import Device, gpu_name
from implementations.torch_compiled import compiled, rotations, step
from implementations.torch_gpu import Shape, tokens_of

SHAPES = {"prefill": Shape(1, 4096, 32, 8), "decode": Shape(8, 1, 32, 8, start=4095)}
TINY = {"prefill": Shape(1, 5, 4, 2, width=8), "decode": Shape(2, 1, 4, 2, width=8, start=6)}


def calls_of(shape: Shape, layout: str, device: str) -> dict[str, Any]:
    """Return what is timed, by its name, the copy first."""
    given = tokens_of(shape, "bfloat16", layout, device)
    ways = rotations(given)
    rotate = ways["operator"]
    source = torch.cat([given.q.flatten(), given.k.flatten()])
    target, cotangents = torch.empty_like(source), (given.q.clone(), given.k.clone())
    leaves = tuple(x.clone().requires_grad_() for x in (given.q, given.k))
    found: dict[str, Any] = {"copy": lambda: target.copy_(source), "rotation, eager": lambda: rotate(given.q, given.k)}
    neighbours = step(given, rotate)
    found["step, eager"] = lambda: neighbours(given.q, given.k)
    for way, function in ways.items():
        run, whole = compiled(function), compiled(step(given, function))
        found[f"rotation, {way}"] = lambda run=run: run(given.q, given.k)
        found[f"step, {way}"] = lambda whole=whole: whole(given.q, given.k)
        if shape.length > 1:
            found[f"gradients, {way}"] = lambda run=run: torch.autograd.grad(run(*leaves), leaves, cotangents)
    return found


def measure(calls: dict[str, Any], device: Device, rounds: int) -> dict[str, Any]:
    """Return the medians of times over the copy's, and microseconds of calls behind each other."""
    broken = {}
    for key in [*calls]:
        try:
            calls[key]()
            calls[key]()
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            broken[key] = f"{type(error).__name__}: {error}"[:600]
            del calls[key]
    if not rounds:
        return {"broken": broken}
    times: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key in random.sample([*calls], len(calls)):
            times[key].append(device.seconds(calls[key]))
    ratios = {
        key: statistics.median(a / b for a, b in zip(mine, times["copy"], strict=True)) for key, mine in times.items()
    }
    together = {key: 1e6 * device.seconds_of_calls(call, 100) for key, call in calls.items()}
    return {
        "broken": broken,
        "of the copy": {key: float(f"{ratio:.4g}") for key, ratio in ratios.items()},
        "microseconds of a call": {key: float(f"{each:.4g}") for key, each in together.items()},
    }


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Compiled rotations on a GPU, as JSON.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a trial with tiny sizes")
    parser.add_argument("--rounds", type=int, default=30, help="0 only compiles")
    parser.add_argument("-o", "--output", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args()
    name, device, cases = gpu_name(options.device), Device(options.device), []
    shapes = TINY if options.device == "cpu" else SHAPES
    for shape, layout in (("prefill", "half"), ("prefill", "interleaved"), ("decode", "half")):
        torch.compiler.reset()
        case = measure(calls_of(shapes[shape], layout, options.device), device, options.rounds)
        case = {"name": f"{shape}, {layout}"} | case
        print(json.dumps(case, indent=1), flush=True)
        cases.append(case)
    circumstances = {"machine": machine.machine() | {"GPU": name}, "versions": machine.versions()}
    found = {"benchmark": "gpu_compiled", **circumstances, "cases": cases}
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
