"""Time the rotation of queries and keys on a GPU, ours and others', against a copy of the same bytes there.

    python benchmarks/gpu.py [--device cuda] [--rounds N] [--only WORD ...] [--few] [-o FILE]

Times are those between two events on the device, which waits while the host launches what is timed; before each call
its L2 cache is overwritten. Implementations take turns in each round, in a random order, and ratios are taken
within it. "microseconds of a call" is the time of the host and the device together in calls behind each other: for one
token the host takes most of it; "microseconds in a graph" that of a call among others in a CUDA graph, where the host
has no part. "launches" counts the kernels of one call. With a backward pass, the copy has twice the bytes. Peers that
are not installed, or fail, are named in the result.

`--device cpu` tries the program with tiny sizes where there is no GPU; its times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import machine
import torch
from harness import Case, Implementation, check, ratios
from implementations.torch_gpu import WITHIN, Peer, Shape, Tokens, implementations, missing, tokens_of

SHAPES = {
    "prefill 4096": Shape(1, 4096, 32, 8),
    "prefill 16384": Shape(1, 16384, 32, 8),
    "training": Shape(4, 2048, 32, 8),
    "packed": Shape(8, 1024, 32, 8, packed=True),
    "decode 32 key heads": Shape(8, 1, 32, 32, start=4095),
    "decode 8 key heads": Shape(8, 1, 32, 8, start=4095),
    "decode one row": Shape(1, 1, 32, 8, start=4095),
}
FEW = {  # cases that tell most, for a machine that is lent for minutes
    *(f"{shape}, bfloat16, half, forward" for shape in SHAPES),
    "training, bfloat16, half, forward and backward",
    "prefill 4096, bfloat16, interleaved, forward",
    "prefill 4096, float32, half, forward",
}
TINY = {
    "prefill": Shape(1, 5, 4, 2, width=8),
    "training": Shape(2, 3, 4, 2, width=8),
    "packed": Shape(3, 2, 4, 2, width=8, packed=True),
    "decode 2 key heads": Shape(2, 1, 4, 2, width=8, start=6),
}
DTYPES = ("bfloat16", "float16", "float32")
LAYOUTS = ("half", "interleaved")
COMPARED = 20  # the logarithm of how many numbers of a result are compared with ours
FLUSHED = 2**28  # bytes: more than any L2 cache has
AHEAD = 2_000_000  # cycles that the device waits, about a millisecond, while the host launches what is timed
CALLS = 100  # behind each other, for the time with the host
LAYERS = 32  # calls of a graph


def cases(device: str, shapes: dict[str, Shape] = SHAPES) -> Iterator[Case]:
    """Yield a case for every shape, dtype, layout and pass."""
    for shape, dtype, layout in product(shapes, DTYPES, LAYOUTS):
        passes = ("forward", "forward and backward") if shape == "training" else ("forward",)
        for way in passes:
            build = partial(_implementations, shapes[shape], dtype, layout, way, device)
            yield Case(f"{shape}, {dtype}, {layout}, {way}", build, WITHIN[dtype])


def _implementations(shape: Shape, dtype: str, layout: str, way: str, device: str) -> dict[str, Implementation]:
    """Return the copy, and each implementation, eager and compiled."""
    given = tokens_of(shape, dtype, layout, device)
    gradients = way != "forward"
    source = torch.ones((2 if gradients else 1) * shape.numbers, dtype=given.q.dtype, device=device)
    target = torch.empty_like(source)
    found = {"copy": Implementation(lambda: target.copy_(source))}
    for name, peer in implementations(given).items():
        if gradients and not peer.gradients:
            continue
        found[name] = _implementation(given, peer, peer.function, gradients)
        if peer.compiled:
            compiled = torch.compile(peer.function, fullgraph=True, dynamic=False)
            found[f"{name}, compiled"] = _implementation(given, peer, compiled, gradients)
    return found


def _implementation(given: Tokens, peer: Peer, function: Callable[..., Any], gradients: bool) -> Implementation:
    """Return the call to time, on arrays of its own, as some rotate in place, gradients as well."""
    q, k = given.q.clone(), given.k.clone()
    if not gradients:
        return Implementation(lambda: function(q, k), _to_numpy)
    leaves, cotangents = (q.requires_grad_(), k.requires_grad_()), (given.q.clone(), given.k.clone())
    return Implementation(lambda: torch.autograd.grad(function(*leaves), leaves, cotangents), _to_numpy)


def _to_numpy(both: Any) -> Any:
    """Return about a million numbers: at odd steps, so that they are of all channels."""
    return torch.cat([x.detach().flatten()[:: x.numel() >> COMPARED | 1] for x in both]).float().cpu().numpy()


class Device:
    """Times calls on a device: on a GPU between two events, on a processor by its clock."""

    def __init__(self, name: str) -> None:
        self.is_gpu = torch.device(name).type != "cpu"
        self.flushed = torch.empty(FLUSHED if self.is_gpu else 1, dtype=torch.int8, device=name)

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the time of one call, with nothing of its arguments in the L2 cache."""
        self.flushed.zero_()
        if not self.is_gpu:
            began = time.perf_counter()
            call()
            return time.perf_counter() - began
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(AHEAD)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def seconds_of_calls(self, call: Callable[[], Any], count: int) -> float:
        """Return the time of a call among others behind each other, until the device is done."""
        self.wait()
        began = time.perf_counter()
        for _ in range(count):
            call()
        self.wait()
        return (time.perf_counter() - began) / count

    def seconds_in_a_graph(self, call: Callable[[], Any], count: int) -> float | None:
        """Return the time of a call among those of a CUDA graph; None on a processor."""
        if not self.is_gpu:
            return None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LAYERS):
                call()
        return self.seconds_of_calls(graph.replay, count) / LAYERS

    def wait(self) -> None:
        """Wait until the device is done."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def launches(self, call: Callable[[], Any]) -> int | None:
        """Return how many kernels and copies a call starts; None on a processor."""
        if not self.is_gpu:
            return None
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            call()
            self.wait()
        return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profiled.events())


def measure(case: Case, device: Device, rounds: int, calls: int = CALLS) -> dict[str, Any]:
    """Return the result of a case: ratios to the copy as first quartile, median and third quartile."""
    torch.compiler.reset()
    working, differences, failed = check(case)
    result: dict[str, Any] = {"name": case.name, "threads": 1, "differences": differences, "failed": failed}
    if not rounds:
        return result
    order, times = [*working], {name: [] for name in working}  # type: dict[str, list[float]]
    shuffle = random.Random(0).shuffle
    for name in order:
        device.seconds_of_calls(working[name].call, 5)
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            times[name].append(device.seconds(working[name].call))
    together = {name: device.seconds_of_calls(one.call, calls) for name, one in working.items()}
    graphs = _in_graphs(working, device, calls) if case.name.startswith("decode") else {}
    return result | {
        "clock": "device",
        **ratios(times),
        "microseconds of a call": {name: _microseconds(each) for name, each in together.items()},
        "microseconds in a graph": {name: _microseconds(each) for name, each in graphs.items()},
        "launches": {name: device.launches(one.call) for name, one in working.items()},
    }


def _in_graphs(working: dict[str, Implementation], device: Device, calls: int) -> dict[str, float]:
    """Return the time of a call in a CUDA graph, of the implementations that one can hold."""
    found = {}
    for name, one in working.items():
        try:
            seconds = device.seconds_in_a_graph(one.call, calls)
        except RuntimeError:  # what waits for the device, or copies to the host
            device.wait()
            continue
        if seconds is not None:
            found[name] = seconds
    return found


def _microseconds(seconds: float) -> float:
    return float(f"{1e6 * seconds:.4g}")


def gpu_name(device: str) -> str:
    """Return the name of the GPU.

    Raises:
        SystemExit: if PyTorch finds none.
    """
    if torch.device(device).type == "cpu":
        return "none: tiny sizes on the processor"
    try:
        properties = torch.cuda.get_device_properties(device)
    except (AssertionError, RuntimeError) as error:
        why = str(error).strip().partition("\n")[0]
        sys.exit(f"This benchmark needs a GPU that PyTorch finds, and there is none: {why}.")
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"


def bandwidth(result: dict[str, Any], shapes: dict[str, Shape]) -> float:
    """Return the gigabytes that the copy reads and writes in a second."""
    shape, dtype, _, way = result["name"].split(", ")
    size = 4 if dtype == "float32" else 2
    factor = 2 if way == "forward" else 4
    return factor * size * shapes[shape].numbers / result["seconds of the yardstick"] / 1e9


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Rotation on a GPU. Ratios of time, as JSON.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a trial with tiny sizes")
    parser.add_argument("--rounds", type=int, default=50, help="0 only checks")
    parser.add_argument("--only", nargs="+", default=[], help="cases with all these words in their names")
    parser.add_argument("--few", action="store_true", help="the cases that tell most")
    parser.add_argument("--check", action="store_true", help="only say which GPU would be measured")
    parser.add_argument("-o", "--output", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args()
    name = gpu_name(options.device)
    if options.check:
        print(name)
        return
    shapes, device = TINY if options.device == "cpu" else SHAPES, Device(options.device)
    versions = machine.versions() | {"CUDA": torch.version.cuda or "none"}
    found: dict[str, Any] = {
        "benchmark": "gpu",
        "backend": "torch",
        "machine": machine.machine() | {"GPU": name},
        "versions": versions,
        "left out": missing(),
        "cases": [],
    }
    broken: dict[str, str] = {}
    for case in cases(options.device, shapes):
        if not all(word in case.name for word in options.only) or (options.few and case.name not in FEW):
            continue
        try:
            result = measure(case, device, options.rounds)
        except Exception as error:  # noqa: BLE001 - the other cases are measured all the same
            broken[case.name] = f"{type(error).__name__}: {error}"[:2000]
            print(f"{case.name} is broken: {broken[case.name]}", file=sys.stderr, flush=True)
            continue
        if options.rounds:
            result["gigabytes per second of the copy"] = float(f"{bandwidth(result, shapes):.4g}")
        found["cases"].append(result)
        medians = {one: three[1] for one, three in result.get("ratios", {}).items()}
        print(f"{case.name}: {medians or 'checked'}; failed: {[*result['failed']]}", file=sys.stderr, flush=True)
        if options.output:
            options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not options.output:
        print(json.dumps(found, indent=1))
    if broken:
        sys.exit(f"{len(broken)} cases are broken: {[*broken]}")


if __name__ == "__main__":
    main()
