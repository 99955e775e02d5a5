"""Time biases of plain sequences against filling an array of their size with one number.

    python benchmarks/biases.py --backend numpy --threads 1

32 heads, 4096 queries and keys. `growth.py` measures their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main

from posenc_backends import load
from posenc_core import Alibi, Kerple, T5Bias, namespace_of
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Placed, PositionScoring


def cases(backend: str, heads: int = 32, length: int = 4096) -> Iterator[Case]:
    """Yield the encodings whose bias depends on distances alone."""
    implementations = import_module(f"implementations.{backend}")
    scores = load(backend).from_numpy(np.zeros((heads, length, length), np.float32))
    for encoding in (Alibi(num_heads=heads), T5Bias(num_heads=heads), Kerple(num_heads=heads)):
        bias = make_bias(load(backend), encoding, length)
        calls = {"filled": lambda: namespace_of(scores).full_like(scores, 1.5), "posenc": bias}
        found = {name: Implementation(_wait_for(implementations, call)) for name, call in calls.items()}
        yield Case(type(encoding).__name__, lambda found=found: found)


def make_bias(backend: Any, encoding: PositionScoring, length: int) -> Callable[[], Any]:
    """Return a function that computes the bias as `attend` does."""
    rng, like = np.random.default_rng(0), backend.from_numpy(np.zeros((1, 1), np.float32))
    weights = {
        name: backend.from_numpy(rng.normal(size=each.shape).astype(np.float32))
        for name, each in encoding.parameters().items()
    }
    placed = Placed(encoding, range(length), range(length), weights).with_weights(like)
    return lambda: placed.scores(AttentionInputs(like, like, like))


def _wait_for(implementations: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: implementations.ready([call()])


if __name__ == "__main__":
    main("biases", cases)
