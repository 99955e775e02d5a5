"""Measure the architecture: the path of a call, its cost over the plain operators, and the structure of the code.

    python benchmarks/architecture.py [--only way|cost|structure] [--rounds N] [--json FILE]

The tree that Python imports `posenc_core` from is measured, in PyTorch: eager, float32, one thread, default arguments.

* way: how many Python functions of ours a call passes through, and in how many files, counted by `sys.setprofile` after
  two calls that fill caches: with the compiled kernel, and with `POSENC_KERNEL=off`.
* cost: the time of a layer over that of the plain operators it runs, without the kernel; both run in each round.
* structure: for each folder the lines of code (without docstrings, comments and blank lines), functions, and types that
  are `Any`; checks of concrete encodings outside of `encodings/`, by class and by file; files that import each other.

Tables are printed; `--json` names a file for the result. Calls run in processes with one thread and one core.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import harness
import machine
import numpy as np
from call_path import way
from counting import PACKAGES, folder_of, structure

from posenc_backends._kernels import level

PARTS = ("way", "cost", "structure")
WIDTH, HEADS = 64, 8
SIZES = (512, 1024, 2048, 4096, 8192)  # numbers in the tokens
BASE = 10_000.0
WITHIN = 1e-5  # plain tables are computed in float64 and cast; ours are exact
Layout = Literal["half", "interleaved"]


def cases() -> Iterator[harness.Case]:
    """Yield a case for each layout and size: the plain operators, which are the yardstick, and the layer."""
    layouts: tuple[Layout, ...] = ("half", "interleaved")
    for layout in layouts:
        for size in SIZES:
            yield harness.Case(f"rope(q), {layout}, {size}", partial(_rotation, layout, size), WITHIN)
    for size in SIZES:
        yield harness.Case(f"PositionalEncoding(64)(x), {size}", partial(_addition, size), WITHIN)


def _rotation(layout: Layout, size: int) -> dict[str, harness.Implementation]:
    import torch

    from posenc_backends.torch import RotaryEmbedding
    from posenc_core import Rotary

    rope = RotaryEmbedding(Rotary(head_dim=WIDTH, layout=layout))
    q = torch.from_numpy(_random(1, HEADS, size // (HEADS * WIDTH), WIDTH))
    angles = _angles(2048)
    cosines, sines = (torch.from_numpy(table.astype(np.float32)) for table in (np.cos(angles), np.sin(angles)))
    start, stop = 0, q.shape[-2]

    def half() -> Any:
        cos, sin = cosines[start:stop], sines[start:stop]
        first, second = q.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    def interleaved() -> Any:
        cos, sin = cosines[start:stop], sines[start:stop]
        first, second = q[..., 0::2], q[..., 1::2]
        return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)

    plain = half if layout == "half" else interleaved
    return {
        "plain": harness.Implementation(plain, np.asarray),
        harness.OURS: harness.Implementation(lambda: rope(q), np.asarray),
    }


def _addition(size: int) -> dict[str, harness.Implementation]:
    import torch

    from posenc_backends.torch import PositionalEncoding

    layer, x = PositionalEncoding(WIDTH), torch.from_numpy(_random(1, size // WIDTH, WIDTH))
    angles = _angles(1000)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), WIDTH)
    table, start, stop = torch.from_numpy(waves.astype(np.float32)), 0, x.shape[-2]
    plain = harness.Implementation(lambda: x + table[start:stop], np.asarray)
    return {"plain": plain, harness.OURS: harness.Implementation(lambda: layer(x), np.asarray)}


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _angles(length: int) -> np.ndarray:
    """Return the angles of positions, one column for each pair: `(length, WIDTH / 2)`."""
    return np.arange(length)[:, None] * BASE ** (-np.arange(0, WIDTH, 2) / WIDTH)


def cost(rounds: int) -> dict[str, Any]:
    """Return for each case the quartiles of the ratio to the plain operators, and medians in µs.

    Processor time is taken, which stands still while others use the machine.
    """
    found = []
    for case in cases():
        implementations, _, _ = harness.check(case)
        times = harness.time_interleaved(
            {name: one.call for name, one in implementations.items()}, rounds, clock="processor"
        )
        ours, plain = times[harness.OURS], times["plain"]
        call, _, size = case.name.rpartition(", ")
        found.append(
            {
                "call": call,
                "numbers": int(size),
                "over plain": harness.ratios(times)["ratios"][harness.OURS],
                "µs": round(1e6 * statistics.median(ours), 2),
                "µs, plain": round(1e6 * statistics.median(plain), 2),
            }
        )
    return {"rounds": rounds, "clock": "processor", "kernel": level(), "cases": found}


def measure(parts: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """Measure the parts, each in a process of its own; return the result that `--json` writes."""
    command = shlex.join(["python", "benchmarks/architecture.py", *sys.argv[1:]])
    result: dict[str, Any] = {"benchmark": "architecture", "command": command, "commit": commit()}
    result |= {"machine": machine.machine() | {"commit": result["commit"]}, "versions": machine.versions()}
    for part in parts:
        if part == "way":
            result[part] = {
                "as installed": in_subprocess(part),
                "without the kernel": in_subprocess(part, kernel="off"),
            }
        elif part == "cost":
            result[part] = in_subprocess(part, rounds, kernel="off")
        else:
            result[part] = structure()
    return result


def commit() -> str:
    """Return the commit of the tree that is measured, which need not be that of this file."""
    command = ["git", "describe", "--always", "--dirty"]
    folder = folder_of(PACKAGES[0])
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def in_subprocess(part: str, rounds: int = 0, *, kernel: str = "") -> Any:
    """Measure one part in a process with one thread and this `POSENC_KERNEL`; return its result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.json")
        arguments = [__file__, "--only", part, "--rounds", str(rounds), "--json", str(path)]
        if not machine.run_in_subprocess(arguments, 1, POSENC_KERNEL=kernel):
            raise RuntimeError(f"The measurement of `{part}` ended early.")
        return json.loads(path.read_text(encoding="utf-8"))


def print_tables(result: dict[str, Any]) -> None:
    """Print the tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    for title, heads, rows in _tables(result):
        table = Table(*heads, title=f"{title}; commit {result['commit']}", title_justify="left")
        for row in rows:
            table.add_row(*map(str, row))
        console.print(table)


def _tables(result: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    counts = ("calls", "calls, all packages", "functions", "files", "changes of file")
    for kernel, calls in result.get("way", {}).items():
        yield (
            f"way, {kernel}",
            ("call", *counts),
            [(name, *(one[key] for key in counts)) for name, one in calls.items()],
        )
    if "cost" in result:
        heads = ("call", "numbers", "over plain", "quartiles", "µs", "µs, plain")
        yield "cost", heads, [_cost_row(one) for one in result["cost"]["cases"]]
    if "structure" in result:
        yield from _structure(result["structure"])


def _structure(found: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    packages, folders = found["packages"], found["folders"]
    keys = next(iter(packages.values()))
    yield "packages", ("", *packages), [(key, *(_plain(one[key]) for one in packages.values())) for key in keys]
    heads = ("files", "code lines", "functions", "Any per function")
    yield "folders", ("folder", *heads), [(name, *(one[key] for key in heads)) for name, one in folders.items()]
    for key in ("checks by class", "checks by file"):
        yield f"{key}, {sum(found['checks by file'].values())} in all", ("", "checks"), [*found[key].items()]
    groups = [(", ".join(group),) for group in found["circles of imports"]] or [("none",)]
    yield "circles of imports", ("files",), groups
    yield "tests", ("code lines",), [(found["code lines of tests"],)]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cost_row(one: dict[str, Any]) -> tuple[Any, ...]:
    low, median, high = one["over plain"]
    return one["call"], one["numbers"], f"{median:.2f}", f"{low:.2f} to {high:.2f}", one["µs"], one["µs, plain"]


def main() -> None:
    """Measure what the command line asks for, print it, and write it to a file."""
    parser = argparse.ArgumentParser(description="The path of a call, its cost, and the structure of the code.")
    parser.add_argument("--only", choices=PARTS, help="one part; by default all are measured")
    parser.add_argument("--rounds", type=int, default=400, help="rounds of the cost")
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument("--backend", choices=("torch",), default="torch", help="the only one that is measured")
    options = parser.parse_args()
    if machine.is_subprocess():
        part = way() if options.only == "way" else cost(options.rounds)
        options.json.write_text(json.dumps(part), encoding="utf-8")
        return
    result = measure((options.only,) if options.only else PARTS, options.rounds)
    print_tables(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
