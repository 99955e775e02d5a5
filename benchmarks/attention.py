"""Time `MultiHeadAttention` against the same four projections, rotation and softmax in plain operators.

    python benchmarks/attention.py --backend torch --threads 1

Eight heads of 64 channels, float32, one row; PyTorch and JAX, eager, and compiled in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main

from posenc_backends import load
from posenc_backends.conformance.cases import backend_under_test
from posenc_core import Rotary

WIDTH, HEADS = 512, 8
WITHIN = 1e-5
OPERATORS = {"torch": ("torch", "cat", "torch.nn.functional"), "jax": ("jax.numpy", "concatenate", "jax.nn")}
COMPILED = ("jax",)  # users of it compile their calls


def cases(backend: str, lengths: tuple[int, ...] = (1, 16, 128)) -> Iterator[Case]:
    """Yield attention of one sequence without positions, rotated, and rotated and causal."""
    implementations = import_module(f"implementations.{backend}")
    for length in lengths:
        x = implementations.array(
            np.random.default_rng(0).normal(size=(1, length, WIDTH)).astype(np.float32), "float32"
        )
        for name, position, causal in (
            ("plain", None, False),
            ("rotary", ROTARY, False),
            ("rotary, causal", ROTARY, True),
        ):
            layer = backend_under_test(backend).backend.MultiHeadAttention(WIDTH, HEADS, position=position)
            calls = {
                "by hand": by_hand(backend, layer, position, causal, length),
                "posenc": lambda x, layer=layer, causal=causal: layer(x, x, x, causal=causal),
            }
            yield _case(implementations, f"{name}, {length} tokens", calls, x)
            if backend in COMPILED:
                compiled = {name: implementations.COMPILERS["compiled"](call) for name, call in calls.items()}
                yield _case(implementations, f"{name}, {length} tokens, compiled", compiled, x)


ROTARY = Rotary(head_dim=WIDTH // HEADS, layout="half")


def by_hand(backend: str, layer: Any, position: Rotary | None, causal: bool, length: int) -> Callable[[Any], Any]:
    """Return attention in plain operators, with the projections of a layer and tables that exist already."""
    library, concat, functions = OPERATORS[backend]
    concat, softmax = getattr(import_module(library), concat), import_module(functions).softmax
    where, from_numpy = import_module(library).where, load(backend).from_numpy
    cos, sin = (from_numpy(np.tile(table, 2)) for table in ROTARY.cos_sin(range(length)))
    seen = from_numpy(np.tri(length, dtype=bool))

    def rotate(x: Any) -> Any:
        if position is None:
            return x
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return x * cos + concat([-second, first], -1) * sin

    def attend(x: Any) -> Any:
        q, k, v = (
            project(x).reshape(1, length, HEADS, -1).swapaxes(1, 2) for project in (layer.W_q, layer.W_k, layer.W_v)
        )
        scores = rotate(q) @ rotate(k).swapaxes(-1, -2) / (WIDTH // HEADS) ** 0.5
        scores = where(seen, scores, -np.inf) if causal else scores
        return layer.W_o((softmax(scores, -1) @ v).swapaxes(1, 2).reshape(1, length, WIDTH))

    return attend


def _case(implementations: Any, name: str, calls: dict[str, Callable[[Any], Any]], x: Any) -> Case:
    def implementation(call: Callable[[Any], Any]) -> Implementation:
        return Implementation(lambda: implementations.ready([call(x)])[0], implementations.to_numpy)

    return Case(name, lambda: {name: implementation(call) for name, call in calls.items()}, WITHIN)


if __name__ == "__main__":
    main("attention", cases)
