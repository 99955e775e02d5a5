"""Time QK-norm and RoPE of queries in one pass of the kernel against operators, and against a copy.

    python benchmarks/qk_norm.py --backend numpy --threads 1

Backends: numpy, torch, paddle, mxnet. "without the kernel" is what a process does that has no compiled library.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib import import_module

import numpy as np
from harness import Case, Implementation, main
from rotation import without_the_kernel

from posenc_core import Rotary, normalize_and_rotate

SHAPES = {"prefill": (1, 32, 2048, 128), "decode": (8, 32, 1, 128)}
ORDERS = ("norm_first", "rope_first")
WITHIN = {"float32": 6e-5, "float16": 2e-2, "bfloat16": 1.5e-1}


def cases(backend: str, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Iterator[Case]:
    """Yield a case for every shape, dtype and order."""
    implementations = import_module(f"implementations.{backend}")
    generator = np.random.default_rng(0)
    for name, dtype, order in itertools.product(shapes, implementations.DTYPES, ORDERS):
        x = implementations.array(generator.standard_normal(shapes[name], np.float32), dtype)
        weight = implementations.array(generator.standard_normal(shapes[name][-1:], np.float32), dtype)
        rotary = Rotary(head_dim=shapes[name][-1], layout="half")
        cos, sin = (implementations.array(np.asarray(t), "float32") for t in rotary.cos_sin(range(shapes[name][2])))

        def fused(x=x, weight=weight, cos=cos, sin=sin, order=order):  # type: ignore[no-untyped-def]
            return implementations.ready([normalize_and_rotate(x, cos, sin, layout="half", weight=weight, order=order)])

        calls = {"copy": lambda x=x: implementations.ready([implementations.copy(x)]), "posenc": fused}
        calls["posenc, without the kernel"] = without_the_kernel(fused)
        found = {
            name: Implementation(call, None if name == "copy" else lambda both: implementations.to_numpy(both[0]))
            for name, call in calls.items()
        }
        yield Case(f"{name}, {dtype}, {order}", lambda found=found: found, WITHIN[dtype])


if __name__ == "__main__":
    main("qk_norm", cases)
