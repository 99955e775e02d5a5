"""Mistakes of biases that depend on positions alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_core.analysis.precision import ROUNDED
from posenc_core.attention.bias import SIDES, SLOPE_ORDERS
from posenc_core.encodings import Alibi, Encoding

from .candidates import Sketch, Tables

Mistake = tuple[str, str, Callable[[Sketch], Iterable[Sketch]]]


def bias_mistakes(encoding: Encoding) -> Iterator[Mistake]:
    """Name, words and change of each."""
    yield "sign flipped", "the bias has the other sign", partial(_then, change=_negative)
    yield "heads reversed", "the heads come in the other order", partial(_then, change=_upside_down)
    if isinstance(encoding, Alibi):
        for order in SLOPE_ORDERS:
            yield "slopes of another order", f"the slopes are those of {order!r}", partial(_but, slopes=order)
        yield "max_bias ignored", "the slope of the last head is 2 ** -8", partial(_but, max_bias=8)
        for sides in SIDES:
            yield "side swapped", f"the sides are {sides!r}", partial(_but, sides=sides)
    for step in (1, -1):
        told = f"queries stand {'later' if step > 0 else 'earlier'} by 1"
        yield "positions off by one", told, partial(_moved, step=step)
    yield "positions ignored", "queries are counted from 0", partial(_counted, keys=False)
    yield "positions ignored", "queries and keys are counted from 0", partial(_counted, keys=True)
    yield "not relative", "a key has the same bias for all queries, by its own position", _absolute
    for dtype in ("bfloat16", "float16"):
        yield f"{dtype} positions", f"positions are rounded to {dtype}", partial(_rounded, dtype=dtype)
        told = f"the bias is rounded to {dtype}"
        yield f"{dtype} tables", told, partial(_then, change=partial(_narrow, dtype=dtype))


def _but(sketch: Sketch, **fields: Any) -> list[Sketch]:
    return [sketch.but(**fields)]


def _then(sketch: Sketch, change: Callable[..., Tables]) -> list[Sketch]:
    return [sketch.then(change)]


def _negative(bias: Any) -> Tables:
    return (-bias,)


def _upside_down(bias: Any) -> Tables:
    return (bias[::-1],)


def _narrow(bias: Any, *, dtype: str) -> Tables:
    return (ROUNDED[dtype](bias).astype(np.float64),)


def _moved(sketch: Sketch, step: int) -> list[Sketch]:
    return [replace(sketch, positions=sketch.positions + step * (np.arange(sketch.positions.size) < sketch.queries))]


def _counted(sketch: Sketch, *, keys: bool) -> list[Sketch]:
    positions = sketch.positions.copy()
    for part in (slice(sketch.queries), slice(sketch.queries, None))[: 1 + keys]:
        positions[part] = np.arange(positions[part].size)
    return [replace(sketch, positions=positions)]


def _absolute(sketch: Sketch) -> list[Sketch]:
    """As Bloom has it: only softmax does not see the difference."""
    positions = sketch.positions.copy()
    positions[: sketch.queries] = 0
    return [replace(sketch, positions=positions).then(_negative), replace(sketch, positions=positions)]


def _rounded(sketch: Sketch, dtype: str) -> list[Sketch]:
    return [replace(sketch, positions=ROUNDED[dtype](sketch.positions).astype(np.float64))]
