"""Time what the host does for one rotation on a GPU, ours and others', without one: no kernel runs.

    python benchmarks/launches.py [--rounds N] [-o FILE]

Triton compiles its kernels for an H100, and takes its usual way to a launch, which does nothing: a driver says so. The
tensors lie on the CPU. Times are of the processor, in one process, in turns; ratios are taken within a round. The
operators of transformers are given tensors of two numbers a head, so that their time is that of the calls alone. On a
GPU each of them, and each launch, takes one or two microseconds more. "calls" counts the Python functions of one call.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import machine
import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget

import posenc_backends
from posenc_backends.torch import RotaryEmbedding, apply_rotary, apply_rotary_transformers, backend
from posenc_backends.torch.rotation import gpu
from posenc_core import Rotary

HEADS, KEY_HEADS, WIDTH, ROWS, LENGTHS = 32, 8, 128, 4096, {"one token": 1, "16 tokens": 16}
REPEATS = 200  # calls of each implementation in a round
OURS = str(Path(posenc_backends.__file__).parents[1])


class Launcher:
    """Launches nothing."""

    def __init__(self, source: Any, metadata: Any) -> None: ...

    def __call__(self, *arguments: Any) -> None: ...


class Driver:
    """Says that there is an H100, whose launches do nothing."""

    launcher_cls = Launcher
    utils = SimpleNamespace(
        load_binary=lambda *_: (0, 0, 0, 0, 1024), get_device_properties=lambda _: {"max_shared_mem": 2**17}
    )

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


def backward(call: Callable[[], Any], leaves: list[Any]) -> Callable[[], Any]:
    """Return the backward pass of a call."""
    with torch.enable_grad():
        results = call()
    gradients = [torch.ones_like(x) for x in results]
    return lambda: torch.autograd.grad(results, leaves, gradients, retain_graph=True)


def calls(length: int) -> dict[str, Callable[[], Any]]:
    """Return a call of each implementation for so many tokens."""
    start, dtype = 5 if length == 1 else 0, torch.bfloat16
    q, k = (torch.ones(1, length, heads, WIDTH, dtype=dtype).transpose(1, 2) for heads in (HEADS, KEY_HEADS))
    tables = (np.asarray(table) for table in Rotary(head_dim=WIDTH, layout="half").cos_sin(np.arange(ROWS)))
    cos, sin = map(torch.from_numpy, tables)
    doubled = [torch.cat([table[start : start + length]] * 2, -1)[None].to(dtype) for table in (cos, sin)]
    positions = torch.arange(start, start + length)[None]
    layer = RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half"), max_len=ROWS)
    rotate = import_module("transformers.models.llama.modeling_llama").apply_rotary_pos_emb
    rotate = getattr(rotate, "__wrapped__", rotate)
    small = (
        [torch.ones(1, 1, 1, 2, dtype=dtype) for _ in range(2)],
        [torch.ones(1, 1, 2, dtype=dtype) for _ in range(2)],
    )
    leaves, small_leaves = ([x.clone().requires_grad_() for x in each] for each in ((q, k), small[0]))

    def ours() -> Any:
        return apply_rotary(*leaves, cos, sin, layout="half", start=start)

    def theirs() -> Any:
        return rotate(*small_leaves, *small[1])

    found = {
        "apply_rotary, start": lambda: apply_rotary(q, k, cos, sin, layout="half", start=start),
        "apply_rotary, positions": lambda: apply_rotary(q, k, cos, sin, layout="half", positions=positions),
        "apply_rotary, out": lambda: apply_rotary(q, k, cos, sin, layout="half", start=start, out=(q, k)),
        "RotaryEmbedding, start": lambda: layer(q, k, start=start),
        "RotaryEmbedding, positions": lambda: layer(q, k, positions=positions),
        "apply_rotary_transformers": lambda: apply_rotary_transformers(q, k, *doubled),
        "apply_rotary, gradient": torch.enable_grad()(ours),
        "transformers, gradient": torch.enable_grad()(theirs),
        "apply_rotary, backward": backward(ours, leaves),
        "transformers, backward": backward(theirs, small_leaves),
        "transformers": lambda: rotate(*small[0], *small[1]),
    }
    try:
        liger = import_module("liger_kernel.ops.rope").rope_forward
    except ModuleNotFoundError:
        return found
    return found | {"Liger": lambda: liger(q, k, *doubled)}


def count(call: Callable[[], Any]) -> dict[str, int]:
    """Return how many Python functions one call calls, and how many of them are ours."""
    files: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    ours = [file for file in files if file.startswith(OURS) and not file.startswith(__file__)]
    return {"all": len(files) - 1, "ours": len(ours)}


def measure(found: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, Any]]:
    """Return of each call its microseconds, its calls, and its ratios to transformers and to Liger, medians."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for call in found.values():
        call(), call()
    order, shuffle = [*found], random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            call, began = found[name], time.process_time()
            for _ in range(REPEATS):
                call()
            times[name].append((time.process_time() - began) / REPEATS)

    def ratio(name: str, other: str) -> float | None:
        pairs = zip(times[name], times.get(other, []), strict=False)
        ratios = [one / two for one, two in pairs]
        return round(statistics.median(ratios), 2) if ratios else None

    return {
        name: {
            "microseconds": round(1e6 * statistics.median(times[name]), 1),
            "of transformers": ratio(name, "transformers"),
            "of Liger": ratio(name, "Liger"),
            "calls": count(call),
        }
        for name, call in found.items()
    }


@torch.no_grad()
def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Host time of a launch on a GPU, without one.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path, help="a file for the result, as JSON")
    options = parser.parse_args()
    triton.runtime.driver.set_active(Driver())
    gpu.IS_INTERPRETED = True  # tensors on the CPU are rotated by Triton
    backend.is_remote = lambda array: True  # and positions are not read
    result = {name: measure(calls(length), options.rounds) for name, length in LENGTHS.items()}
    for name, rows in result.items():
        print(f"{name:30}      µs   × transformers   × Liger   calls: all, ours")
        for call, row in rows.items():
            ratios = row["of transformers"], row["of Liger"] or "-"
            print(f"{call:30} {row['microseconds']:7} {ratios[0]:16} {ratios[1]:>9}", *row["calls"].values(), sep="   ")
    if options.output:
        found = {"benchmark": "launches", "machine": machine.machine(), "versions": machine.versions(), "cases": result}
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
