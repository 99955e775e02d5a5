"""Time biases of plain sequences against filling an array of their size with one number, and layers of few tokens.

    python benchmarks/biases.py --backend numpy --threads 1

32 heads, 4096 queries and keys. `growth.py` measures their memory. A call of `AttentionBias` for 1 or 16 tokens, with
8 heads and 16 keys, is timed against the same formula in plain operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main

from posenc_backends import load
from posenc_backends.conformance.cases import backend_under_test
from posenc_core import Alibi, Kerple, T5Bias, namespace_of
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Placed, PositionScoring

FEW = (1, 16)  # tokens of a call of a layer; the last is the number of keys
WITHIN = 1e-6


def cases(backend: str, heads: int = 32, length: int = 4096) -> Iterator[Case]:
    """Yield the encodings whose bias depends on distances alone."""
    implementations = import_module(f"implementations.{backend}")
    scores = load(backend).from_numpy(np.zeros((heads, length, length), np.float32))
    for encoding in (Alibi(num_heads=heads), T5Bias(num_heads=heads), Kerple(num_heads=heads)):
        bias = make_bias(load(backend), encoding, length)
        calls = {"filled": lambda: namespace_of(scores).full_like(scores, 1.5), "posenc": bias}
        found = {name: Implementation(_wait_for(implementations, call)) for name, call in calls.items()}
        yield Case(type(encoding).__name__, lambda found=found: found)
    for tokens in FEW:
        yield from layer_cases(backend, tokens)


def layer_cases(backend: str, tokens: int, heads: int = 8) -> Iterator[Case]:
    """Yield the layers of `Alibi` and `T5Bias` against plain operators, for so many queries, the last of the keys."""
    implementations, on = import_module(f"implementations.{backend}"), backend_under_test(backend).backend
    xp, start = on.namespace, FEW[-1] - tokens
    scores = on.from_numpy(np.zeros((1, heads, tokens, FEW[-1]), np.float32))
    alibi, t5 = on.AttentionBias(Alibi(num_heads=heads)), on.AttentionBias(T5Bias(num_heads=heads))
    slopes = on.from_numpy(Alibi(num_heads=heads).constants(0)["slopes"][:, None, None])
    buckets, reach = on.from_numpy(T5Bias(num_heads=heads).constants(0)["buckets"]), t5.encoding.max_distance

    def offsets() -> Any:
        return xp.arange(FEW[-1])[None, :] - (xp.arange(tokens) + start)[:, None]

    def plain_alibi() -> Any:
        return scores - slopes * xp.astype(xp.abs(offsets()), xp.float32)

    def plain_t5() -> Any:
        rows = xp.take(buckets, xp.reshape(offsets() + reach, (-1,)), axis=0)
        by_pair = xp.reshape(xp.take(t5.arrays["table"], rows, axis=0), (tokens, FEW[-1], heads))
        return scores + xp.permute_dims(by_pair, (2, 0, 1))

    for layer, plain in ((alibi, plain_alibi), (t5, plain_t5)):
        calls = {"plain operators": plain, "posenc": partial(layer, scores, start)}
        found = {
            name: Implementation(_wait_for(implementations, call), lambda given: implementations.to_numpy(given[0]))
            for name, call in calls.items()
        }
        name = f"{type(layer.encoding).__name__}, layer, {tokens} token{'s' * (tokens > 1)}"
        yield Case(name, lambda found=found: found, WITHIN)


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
