"""Define the curves of `growth.py`: computations against one size, in NumPy.

Every encoding against length, batch and heads; sequence layers against length and width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sequence_layers import LAYERS

import posenc_core as p
from posenc_backends.numpy import AttentionBias, PositionalEncoding, RotaryEmbedding
from posenc_core.encodings import Additive, ContentScoring, Placed, RotaryEncoding, Scoring
from posenc_core.encodings.examples import example, examples

WIDTH = 32
LONG, SHORT = range(8, 21), range(6, 12)  # exponents of 2, for linear and for quadratic costs
FEW = range(7)  # of batches and heads
LENGTH = 256  # of the curves against batch or heads


class Curve(NamedTuple):
    """A computation against one size, and the powers of it that time and memory should grow by."""

    kind: str
    name: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], Callable[[], Any]]
    time: float = 1
    memory: float = 1


def _by_name(encodings: list[Any]) -> dict[str, Any]:
    return {type(encoding).__name__: encoding for encoding in encodings}


# powers of XPos stay finite up to position 2**20
_ROTARY = examples(RotaryEncoding, head_dim=WIDTH, num_heads=1, scale_base=2**14)
_ADDITIVE = examples(Additive, dim=WIDTH, length=2**20, frequencies="endpoint")
TABLES = _by_name([encoding for encoding in _ADDITIVE if not encoding.parameters()])
FIXED_ROTARY = _by_name([encoding for encoding in _ROTARY if not encoding.parameters()]) | {
    "Rotary, YaRN": p.Rotary(
        head_dim=WIDTH, layout="half", scaling=p.YaRN(factor=4.0, original_max_position_embeddings=4096)
    ),
}
ROTARY = FIXED_ROTARY | _by_name(_ROTARY)
ADDITIVE = _by_name([p.Sinusoidal(dim=WIDTH), *(encoding for encoding in _ADDITIVE if encoding.parameters())])


def _scoring(heads: int) -> dict[str, Any]:
    """Return the scoring encodings of sequences; tables for each distance reach as far as the longest."""
    found = _by_name(examples(Scoring, num_heads=heads, head_dim=WIDTH, max_distance=16, num_buckets=8, hidden=32))
    found = {name: encoding for name, encoding in found.items() if not hasattr(encoding, "window")}
    far = {"num_heads": heads, "head_dim": WIDTH, "max_distance": 2 * 2**11}
    return found | {name: example(name, **far) for name in ("Sandwich", "TransformerXLBias")}


WINDOWS = [name for name, encoding in _by_name(examples(Scoring)).items() if hasattr(encoding, "window")]


def curves() -> Iterator[Curve]:
    """Yield all curves."""
    for name, encoding in TABLES.items():
        yield Curve("table", name, "length", _powers(LONG), partial(_table, encoding))
    for name, rotary in FIXED_ROTARY.items():
        yield Curve("table of rotations", name, "length", _powers(LONG), partial(_cos_sin, rotary))
    yield from _curves_of_tokens()
    yield from _curves_of_scores()
    for name, layer in LAYERS.items():
        for axis, sizes in {"length": range(6, 13), "width": range(5, 11)}.items():
            make = partial(_layer, layer.run, axis)
            powers = getattr(layer, f"time_by_{axis}"), getattr(layer, f"memory_by_{axis}")
            yield Curve("layer", name, axis, _powers(sizes), make, *powers)


def _curves_of_tokens() -> Iterator[Curve]:
    for axis, sizes in {"length": LONG, "batch": FEW, "heads": FEW}.items():
        for name in ROTARY:
            yield Curve("rotation", name, axis, _powers(sizes), partial(_along, axis, partial(_rotation, name)))
        for name in ADDITIVE if axis != "heads" else ():
            yield Curve("addition", name, axis, _powers(sizes), partial(_along, axis, partial(_addition, name)))


def _curves_of_scores() -> Iterator[Curve]:
    for axis, sizes in {"length": SHORT, "batch": FEW, "heads": FEW}.items():
        power = 2 if axis == "length" else 1
        for name in _scoring(1):
            make = partial(_along, axis, partial(_bias, name))
            yield Curve("bias", name, axis, _powers(sizes), make, power, power)
        for name in ("none", *_scoring(1), "Rotary"):
            make = partial(_along, axis, partial(_attention, name))
            yield Curve("attention", name, axis, _powers(sizes), make, power, power)
    squares = tuple(size for size in _powers(SHORT) if math.isqrt(size) ** 2 == size)
    for name in WINDOWS:
        yield Curve("bias", name, "length", squares, partial(_window, name), 2, 2)


def _powers(exponents: range) -> tuple[int, ...]:
    return tuple(2**exponent for exponent in exponents)


def _along(axis: str, make: Callable[..., Callable[[], Any]], size: int) -> Callable[[], Any]:
    sizes = {"length": LENGTH, "batch": 1, "heads": 1} | {axis: size}
    return make(sizes["batch"], sizes["heads"], sizes["length"])


def _table(encoding: Any, length: int) -> Callable[[], Any]:
    positions = np.arange(length) if encoding.num_axes == 1 else p.grid(2, length // 2)
    if isinstance(encoding, (p.FourierFeatures, p.RandomFourierFeatures)):
        positions = positions / 2**20  # coordinates, from 0 to 1
    return lambda: encoding.table(positions)


def _cos_sin(encoding: Any, length: int) -> Callable[[], Any]:
    positions = _positions(encoding, length)
    return lambda: encoding.cos_sin(positions)


def _positions(encoding: Any, length: int) -> Any:
    return np.arange(length) if encoding.num_axes == 1 else np.stack([np.arange(length)] * encoding.num_axes)


def _rotation(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    layer = RotaryEmbedding(ROTARY[name], max_len=length)
    x, options = _normal(batch, heads, length, WIDTH), {}
    if layer.encoding.num_axes > 1:
        options["positions"] = _positions(layer.encoding, length)
    return lambda: layer(x, **options)


def _addition(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    layer = PositionalEncoding(WIDTH, max_len=length, encoding=ADDITIVE[name])
    x = _normal(batch, length, WIDTH)
    return lambda: layer(x)


def _bias(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    layer = AttentionBias(_scoring(heads)[name])
    scores, x = _normal(batch, heads, length, length), _normal(batch, heads, length, WIDTH)
    content = {"q": x, "k": x} if isinstance(layer.encoding, ContentScoring) else {}
    return lambda: layer(scores, **content)


def _window(name: str, length: int) -> Callable[[], Any]:
    """Return a call on a square window of `length` tokens."""
    side = math.isqrt(length)
    encoding = example(name, num_heads=1, head_dim=WIDTH, window=(side, side), hidden=32)
    layer, scores = AttentionBias(encoding), _normal(1, 1, length, length)
    x = _normal(1, 1, length, WIDTH)
    content = {"q": x, "k": x} if isinstance(layer.encoding, ContentScoring) else {}
    return lambda: layer(scores, **content)


def _attention(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    x = _normal(batch, heads, length, WIDTH)
    if name == "none":
        return lambda: p.attend(x, x, x)
    encoding = FIXED_ROTARY[name] if name in FIXED_ROTARY else _scoring(heads)[name]
    weights = {part: _normal(*one.shape) for part, one in encoding.parameters().items()}
    return lambda: p.attend(x, x, x, position=Placed(encoding, range(length), range(length), weights or None))


def _layer(run: Callable[..., Any], axis: str, size: int) -> Callable[[], Any]:
    length, width = (size, 64) if axis == "length" else (64, size)
    tokens, matrices = _normal(length, width), [_normal(width, width) / width for _ in range(3)]
    return lambda: run(tokens, *matrices)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)
