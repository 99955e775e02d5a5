"""Time our kernel on a GPU against a copy of the same bytes: by tile, and by width, layout, dtype and rows.

    python benchmarks/gpu_tiles.py [--device cuda] [--rounds N] [--part K/N] [-o FILE]

A ratio is the time of a copy over ours, so 1 is the speed of a copy. `--rounds 0` only compiles the kernels, and checks
each against our operators on the processor; `--part` does a part of them, so that several processes share the work.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import machine
import torch
from gpu import Device, gpu_name

from posenc_backends.torch import apply_rotary
from posenc_backends.torch.rotation import gpu, triton_launch
from posenc_backends.torch.rotation.plans import Plans

TOKENS, HEADS = 8192, (32, 8)
CHECKED = 64  # the first and the last tokens, which are compared


class Tile(NamedTuple):
    """The numbers that choose a tile.

    Attributes:
        threads: of a program.
        read_ahead: bytes of tokens that a thread reads before it computes.
        registers: the most that a thread may have; None for what the compiler takes.
    """

    threads: int = triton_launch.THREADS
    read_ahead: int = triton_launch.READ_AHEAD
    registers: int | None = 64

    def use(self) -> None:
        """Let launches have this tile from now on."""
        triton_launch.THREADS, triton_launch.READ_AHEAD, gpu.PLANS = self.threads, self.read_ahead, Plans()
        triton_launch.OPTIONS["num_warps"] = self.threads // 32
        triton_launch.OPTIONS.pop("maxnreg", None)
        if self.registers:
            triton_launch.OPTIONS["maxnreg"] = self.registers


class Variant(NamedTuple):
    """What is rotated; `order` has the axes as they lie in memory."""

    dtype: str = "bfloat16"
    layout: Any = "half"
    width: int = 128
    order: str = "BSHD"
    rows: str = "start"
    inverse: bool = False
    tile: Tile = Tile()


def variants() -> Iterator[Variant]:
    """Yield the sweep of tiles, and for the tile that is built in each width, layout, dtype and kind of rows."""
    tiles = [Tile(*each) for each in product((128, 256), (32, 64, 128), (64, 96, None))]
    for layout, order, tile in product(("half",), ("BSHD", "BHSD"), tiles):
        yield Variant(layout=layout, order=order, tile=tile)
    for layout, width in product(("half", "interleaved", "interleaved_to_half"), (64, 72, 80, 96, 192, 256)):
        yield Variant(layout=layout, width=width)
    for layout in ("interleaved", "interleaved_to_half"):
        yield Variant(layout=layout, order="BHSD")
    for layout, dtype in product(("half", "interleaved"), ("float32", "float16")):
        yield Variant(layout=layout, dtype=dtype)
    yield Variant(layout="interleaved_to_half")
    yield Variant(inverse=True)
    for rows, order in product(("positions", "positions of each", "start of each", "packed", "axes"), ("BSHD", "BHSD")):
        if (rows, order) != ("packed", "BHSD"):
            yield Variant(rows=rows, order=order)
    for tile in tiles:
        yield Variant(rows="axes", tile=tile)


def call_of(variant: Variant, device: str, tokens: int) -> tuple[Any, ...]:
    """Return `(call, results, arguments)`: a function that rotates into `results` by these arguments."""
    dtype, pairs, count = getattr(torch, variant.dtype), variant.width // 2, 2 * tokens
    by_head = variant.order == "BHSD"
    sizes = [(1, heads, tokens) if by_head else (1, tokens, heads) for heads in HEADS]
    q, k = (torch.randn(*size, variant.width, device=device).to(dtype) for size in sizes)
    cos, sin = (torch.randn(count, pairs, device=device) for _ in range(2))
    position = torch.randint(0, count, (3, 1, tokens), device=device)
    given: dict[str, Any] = {
        "start": {"start": 7},
        "start of each": {"start": position[0, :, 0] % tokens},
        "positions": {"positions": position[0, 0]},
        "positions of each": {"positions": position[0]},
        "packed": {"cu_seqlens": torch.arange(0, tokens + 1, tokens // 8, dtype=torch.int32, device=device)},
        "axes": {"positions": position, "axes": tuple(i % 3 for i in range(pairs))},
    }[variant.rows]
    if variant.rows == "packed":
        q, k = q[0], k[0]
    given |= {"layout": variant.layout, "inverse": variant.inverse, "seq_axis": -2 if by_head else -3}
    results = tuple(torch.full_like(x, float("nan")) for x in (q, k))
    return lambda: apply_rotary(q, k, cos, sin, **given, out=results), results, ((q, k, cos, sin), given)


def same_bits(results: Any, arguments: Any) -> bool:
    """Return whether results are those of the processor."""
    tensors, given = arguments
    there = {name: one.cpu() if isinstance(one, torch.Tensor) else one for name, one in given.items()}
    wanted = apply_rotary(*(one.cpu() for one in tensors), **there)
    return all(torch.equal(one.cpu(), other) for one, other in zip(results, wanted, strict=True))


def name_of(variant: Variant) -> str:
    """Return what differs from the usual, with the tile."""
    parts = [f"{name} {value}" for name, value in variant._asdict().items() if name != "tile"]
    return ", ".join([*parts, "tile " + "/".join(map(str, variant.tile))])


def measure(variant: Variant, device: Device, name: str, rounds: int, tokens: int) -> dict[str, Any]:
    """Return whether the results have the right bits, and the quartiles of a copy's time over ours."""
    variant.tile.use()
    call, results, arguments = call_of(variant, name, tokens)
    call()
    *what, tile = variant
    fields = dict(zip(variant._fields, what, strict=False))
    found: dict[str, Any] = {"name": name_of(variant), "variant": fields, "tile": tile}
    if not rounds:
        return found | {"same bits": same_bits(results, arguments)}
    source = torch.cat([one.flatten() for one in results])
    target = torch.empty_like(source)
    times: dict[str, list[float]] = {"copy": [], "ours": []}
    calls = {"copy": lambda: target.copy_(source), "ours": call}
    for _ in range(rounds):
        for key in random.sample([*calls], 2):
            times[key].append(device.seconds(calls[key]))
    ratios = [copy / ours for copy, ours in zip(times["copy"], times["ours"], strict=True)]
    quartiles = [float(f"{each:.4g}") for each in statistics.quantiles(ratios, n=4, method="inclusive")]
    speed = 2 * source.numel() * source.element_size() / statistics.median(times["copy"]) / 1e9
    return found | {"of a copy": quartiles, "gigabytes per second of the copy": float(f"{speed:.4g}")}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Tiles of our kernel on a GPU, as JSON.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a trial with tiny sizes")
    parser.add_argument("--rounds", type=int, default=30, help="0 only compiles and checks")
    parser.add_argument("--part", default="1/1", help="the part of the variants, like 2/3")
    parser.add_argument("-o", "--output", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args()
    name, (part, parts) = gpu_name(options.device), map(int, options.part.split("/"))
    device, tokens = Device(options.device), TOKENS if options.device != "cpu" else CHECKED
    tokens = tokens if options.rounds else CHECKED
    cases = []
    for number, variant in enumerate(variants(), start=1):
        if number % parts != part % parts:
            continue
        try:
            case = measure(variant, device, options.device, options.rounds, tokens)
        except Exception as error:  # noqa: BLE001 - the others are measured all the same
            case = {"name": name_of(variant), "broken": f"{type(error).__name__}: {error}"[:300]}
        cases.append(case)
        if "of a copy" in case:
            print(f"{case['of a copy'][1]:.3f} {case['name']}", flush=True)
    circumstances = {"machine": machine.machine() | {"GPU": name}, "versions": machine.versions()}
    found = {"benchmark": "gpu_tiles", **circumstances, "cases": cases}
    wrong = [case for case in cases if "broken" in case or not case.get("same bits", True)]
    print(f"{len(cases)} variants, {len(wrong)} wrong or broken: {wrong[:5]}")
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
