"""Time `PositionalEncoding` against the framework's own `x + table`, with a table that exists already.

    python benchmarks/additive.py --backend torch --threads 1

Tokens are `(8, 1024, 512)`, float32; `(1, 1, 512)` and `(1, 16, 512)` against `x + table[:length]`, in PyTorch also
against the least `nn.Module` of that formula ("module"), since calling any module takes longer than to add one token.
`combine="concat"` is timed against a concatenation with as large an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main

from posenc_backends.conformance.cases import backend_under_test
from posenc_core import Sinusoidal, namespace_of

SHAPE = (8, 1024, 512)
FEW = (1, 16)
WITHIN = 1e-6
COMPILED = ("jax", "keras")  # users of these compile their calls


def cases(backend: str, shape: tuple[int, int, int] = SHAPE) -> Iterator[Case]:
    """Yield addition, alone, with dropout that is off, and in training mode if a layer has one; and concatenation."""
    implementations, on = import_module(f"implementations.{backend}"), backend_under_test(backend)
    batch, length, width = shape
    x = implementations.array(np.random.default_rng(0).normal(size=shape).astype(np.float32), "float32")
    host = Sinusoidal(dim=width).table(range(length))
    table, wide, appended = (
        implementations.array(array, "float32") for array in (host, host[None], np.repeat(host[None], batch, axis=0))
    )

    def make(training: bool = False, **options: Any) -> Callable[..., Any]:
        layer = on.testing.eval_mode(on.backend.PositionalEncoding(width, max_len=length, **options))
        if training:
            layer.train()
        return layer

    def against(
        plain: Callable[..., Any], x: Any = x, **ours: Callable[..., Any]
    ) -> Callable[[], dict[str, Implementation]]:
        calls = {"at hand": plain, **ours}
        return lambda: {name: _implementation(implementations, partial(call, x)) for name, call in calls.items()}

    def add(x: Any) -> Any:
        return x + table

    yield Case("add", against(add, posenc=make(), **{"table of one more axis": lambda x: x + wide}), WITHIN)
    if backend in COMPILED:
        compiled = implementations.COMPILERS["compiled"]
        yield Case("add, compiled", against(compiled(add), posenc=compiled(make())), WITHIN)
    yield Case("add, dropout 0.1, evaluated", against(add, posenc=make(dropout=0.1)), WITHIN)
    if hasattr(on.backend.PositionalEncoding, "train"):
        yield Case("add, training", against(add, posenc=make(training=True)), WITHIN)
    concatenated = against(lambda x: namespace_of(x).concat([x, appended], axis=-1), posenc=make(combine="concat"))
    yield Case("concat", concatenated, WITHIN)
    first = implementations.array(Sinusoidal(dim=width).table(range(1000)), "float32")
    for tokens in FEW:
        few = implementations.array(np.ones((1, tokens, width), np.float32), "float32")
        name = f"add, {tokens} token{'s' * (tokens > 1)}"
        ours = {"posenc": make()}
        if hasattr(implementations, "AdditionModule"):
            ours["module"] = implementations.AdditionModule(first)
        yield Case(name, against(lambda x, tokens=tokens: x + first[:tokens], few, **ours), WITHIN)


def _implementation(implementations: Any, call: Callable[[], Any]) -> Implementation:
    return Implementation(lambda: implementations.ready([call()])[0], implementations.to_numpy)


if __name__ == "__main__":
    main("additive", cases)
