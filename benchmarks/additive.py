"""What `PositionalEncoding` costs beside the framework's own addition of a table that is at hand, `x + table`.

    python benchmarks/additive.py --backend torch --threads 1

Tokens are `(8, 1024, 512)`, float32. Columns are appended beside a concatenation with an operand that is as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Form, main

from posenc_backends.conformance.cases import backend_under_test
from posenc_core import Sinusoidal, namespace_of

SHAPE = (8, 1024, 512)
WITHIN = 1e-6
COMPILED = ("jax", "keras")  # rooms whose users compile what they call


def cases(backend: str, shape: tuple[int, int, int] = SHAPE) -> Iterator[Case]:
    """Addition, with dropout that does nothing and in training, where a layer knows that; and concatenation."""
    forms, on, (batch, length, width) = import_module(f"implementations.{backend}"), backend_under_test(backend), shape
    x = forms.array(np.random.default_rng(0).normal(size=shape).astype(np.float32), "float32")
    host = Sinusoidal(dim=width).table(range(length))
    table, wide, appended = (
        forms.array(array, "float32") for array in (host, host[None], np.repeat(host[None], batch, axis=0))
    )

    def layer(training: bool = False, **options: Any) -> Callable[..., Any]:
        made = on.testing.eval_mode(on.backend.PositionalEncoding(width, max_len=length, **options))
        if training:
            made.train()
        return made

    def beside(other: Callable[..., Any], **ours: Callable[..., Any]) -> Callable[[], dict[str, Form]]:
        calls = {"at hand": other, **ours}
        return lambda: {name: _form(forms, partial(call, x)) for name, call in calls.items()}

    def added(x: Any) -> Any:
        return x + table

    yield Case("add", beside(added, posenc=layer(), **{"table of one more axis": lambda x: x + wide}), WITHIN)
    if backend in COMPILED:
        compiled = forms.COMPILERS["compiled"]
        yield Case("add, compiled", beside(compiled(added), posenc=compiled(layer())), WITHIN)
    yield Case("add, dropout 0.1, evaluated", beside(added, posenc=layer(dropout=0.1)), WITHIN)
    if hasattr(on.backend.PositionalEncoding, "train"):
        yield Case("add, training", beside(added, posenc=layer(training=True)), WITHIN)
    joined = beside(lambda x: namespace_of(x).concat([x, appended], axis=-1), posenc=layer(combine="concat"))
    yield Case("concat", joined, WITHIN)


def _form(forms: Any, call: Callable[[], Any]) -> Form:
    return Form(lambda: forms.ready([call()])[0], forms.shown)


if __name__ == "__main__":
    main("additive", cases)
