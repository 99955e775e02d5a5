"""Time QK-norm and RoPE on a GPU: in one launch, apart, and compiled, against a copy of queries and keys there.

    python benchmarks/gpu_qk_norm.py [--device cuda] [--rounds N] [-o FILE]

A ratio is the time over that of a copy of the same bytes on the device: of the tokens forward, of one and a half times
as many backward, which reads two tensors for each that it writes; see `gpu_compiled.py`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import machine
import torch
from gpu import Device, gpu_name
from gpu_compiled import measure
from implementations.torch_gpu import Shape, Tokens, tokens_of
from torch._functorch import config as functorch_config
from torch.nn.functional import rms_norm

from posenc_backends.torch import apply_qk_norm_rotary, apply_rotary

SHAPES = {"prefill": Shape(1, 8192, 32, 8), "decode": Shape(8, 1, 32, 8, start=4095)}
TINY = {"prefill": Shape(1, 5, 4, 2, width=8), "decode": Shape(2, 1, 4, 2, width=8, start=6)}
CASES = (
    ("prefill", "norm_first", "half"),
    ("prefill", "rope_first", "interleaved"),
    ("decode", "norm_first", "half"),
)


def norms(width: int) -> dict[str, Callable[..., Any]]:
    """Return the norms of others that are installed."""
    found: dict[str, Callable[..., Any]] = {"rms_norm": lambda x, weight: rms_norm(x, (width,), weight, 1e-6)}
    if find_spec("liger_kernel"):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction

        found["Liger's norm"] = lambda x, weight: LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False)
    return found


def functions(given: Tokens, order: Any) -> dict[str, Callable[..., Any]]:
    """Return what normalizes and rotates queries and keys by weights, by its name."""
    options: Any = {"layout": given.layout, "seq_axis": -3, "start": given.shape.start}

    def rotated(q: Any, k: Any) -> Any:
        return apply_rotary(q, k, given.cos, given.sin, **options)

    def fused(q: Any, k: Any, *weights: Any) -> Any:
        return apply_qk_norm_rotary(q, k, given.cos, given.sin, *weights, order=order, **options)

    def apart(norm: Any) -> Callable[..., Any]:
        def run(q: Any, k: Any, q_weight: Any, k_weight: Any) -> Any:
            if order == "norm_first":
                return rotated(norm(q, q_weight), norm(k, k_weight))
            q, k = rotated(q, k)
            return norm(q, q_weight), norm(k, k_weight)

        return run

    found: dict[str, Callable[..., Any]] = {"fused": fused}
    found |= {f"{name} and rotation": apart(norm) for name, norm in norms(given.shape.width).items()}
    return found | {"compiled": torch.compile(fused, fullgraph=True, dynamic=False)}


def calls_of(shape: Shape, order: str, layout: str, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is timed forward and backward, by its name, the copy first."""
    given = tokens_of(shape, "bfloat16", layout, device)
    weights = [torch.randn(shape.width, device=device).to(given.q.dtype) for _ in "qk"]
    leaves = [x.clone().requires_grad_() for x in (given.q, given.k, *weights)]
    count, cotangents = given.q.numel() + given.k.numel(), [torch.randn_like(x) for x in (given.q, given.k)]
    sources = [torch.ones(size, dtype=given.q.dtype, device=device) for size in (count, 3 * count // 2)]
    forward, backward = ({"copy": partial(torch.empty_like(x).copy_, x)} for x in sources)
    for name, function in functions(given, order).items():
        forward[name] = lambda function=function: function(given.q, given.k, *weights)
        if shape.length > 1:
            try:
                results = function(*leaves)
            except Exception as error:  # noqa: BLE001 - the others are measured all the same; `forward` names it
                print(f"{name}: {type(error).__name__}: {error}"[:300], flush=True)
                continue
            backward[name] = lambda results=results: torch.autograd.grad(results, leaves, cotangents, retain_graph=True)
    return forward, backward


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="QK-norm and RoPE on a GPU, as JSON.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a trial with tiny sizes")
    parser.add_argument("--rounds", type=int, default=30, help="0 only compiles")
    parser.add_argument("-o", "--output", type=Path, help="a file for the result; else it is printed")
    options = parser.parse_args()
    name, device, cases = gpu_name(options.device), Device(options.device), []
    functorch_config.donated_buffer = False  # backward passes are repeated
    shapes = TINY if options.device == "cpu" else SHAPES
    for shape, order, layout in CASES:
        torch.compiler.reset()
        both = calls_of(shapes[shape], order, layout, options.device)
        for way, calls in zip(("forward", "backward"), both, strict=True):
            if len(calls) > 1:
                case = {"name": f"{shape}, {order}, {layout}, {way}"} | measure(calls, device, options.rounds)
                print(json.dumps(case, indent=1), flush=True)
                cases.append(case)
    circumstances = {"machine": machine.machine() | {"GPU": name}, "versions": machine.versions()}
    if options.output:
        found = {"benchmark": "gpu_qk_norm", **circumstances, "cases": cases}
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
