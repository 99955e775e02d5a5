"""What grows: every encoding against length, batch and heads, in NumPy; the layers that encode a sequence against length and width."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sequence_layers import LAYERS

import posenc_core as p
from posenc_backends.numpy import AttentionBias, PositionalEncoding, RotaryEmbedding
from posenc_core.encodings import ContentScoring, Placed

WIDTH = 32
LONG, SHORT = range(8, 21), range(6, 12)  # powers of two: for what is linear in the length, for what is quadratic
FEW = range(7)  # of batches and heads
LENGTH = 256  # where batch or heads grow


class Growing(NamedTuple):
    """A computation against one size, and the powers of it that time and memory should grow by."""

    kind: str
    name: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], Callable[[], Any]]
    time: float = 1
    memory: float = 1


TABLES = {
    "Integer": p.Integer(dim=WIDTH),
    "Normalized": p.Normalized(dim=WIDTH, length=2**20),
    "Binary": p.Binary(dim=WIDTH),
    "Sine": p.Sine(dim=WIDTH, frequencies="endpoint"),
    "Sinusoidal": p.Sinusoidal(dim=WIDTH),
    "Timestep": p.Timestep(dim=WIDTH),
    "FourierFeatures": p.FourierFeatures(dim=WIDTH, num_axes=1),
    "RandomFourierFeatures": p.RandomFourierFeatures(dim=WIDTH, scale=1.0, seed=0, num_axes=1),
    "GridSinusoidal": p.GridSinusoidal(dim=WIDTH, convention="mae"),
}
TURNING = {
    "Rotary": p.Rotary(head_dim=WIDTH, layout="half"),
    "Rotary, YaRN": p.Rotary(
        head_dim=WIDTH, layout="half", scaling=p.YaRN(factor=4.0, original_max_position_embeddings=4096)
    ),
    "XPos": p.XPos(head_dim=WIDTH, layout="half", scale_base=2**14),  # whose powers stay finite to 2**20 positions
    "MultimodalRotary": p.MultimodalRotary(head_dim=WIDTH, layout="half", sections=(8, 4, 4)),
    "AxialRotary": p.AxialRotary(head_dim=WIDTH, layout="half", axes_dims=(16, 16)),
}
TURNED = TURNING | {"LearnedRotary": p.LearnedRotary(head_dim=WIDTH, layout="half")}
ADDED = {
    "Sinusoidal": p.Sinusoidal(dim=WIDTH),
    "LearnedSinusoidal": p.LearnedSinusoidal(dim=WIDTH),
    "Learned": p.Learned(dim=WIDTH, length=2**20),
}


def _scoring(heads: int) -> dict[str, Any]:
    """The encodings of scores."""
    return {
        "Alibi": p.Alibi(num_heads=heads),
        "T5Bias": p.T5Bias(num_heads=heads),
        "Kerple": p.Kerple(num_heads=heads),
        "Fire": p.Fire(num_heads=heads),
        "ShawBias": p.ShawBias(num_heads=heads, head_dim=WIDTH, max_distance=16),
        "TransformerXLBias": p.TransformerXLBias(num_heads=heads, head_dim=WIDTH, max_distance=2 * 2**11),
        "Cope": p.Cope(num_heads=heads, head_dim=WIDTH, max_position=16),
    }


def curves() -> Iterator[Growing]:
    """All of them."""
    for name, encoding in TABLES.items():
        yield Growing("table", name, "length", _powers(LONG), partial(_table, encoding))
    for name, rotary in TURNING.items():
        yield Growing("table of rotations", name, "length", _powers(LONG), partial(_cos_sin, rotary))
    for axis, sizes in {"length": LONG, "batch": FEW, "heads": FEW}.items():
        for name in TURNED:
            yield Growing("rotation", name, axis, _powers(sizes), partial(_along, axis, partial(_rotation, name)))
        for name in ADDED if axis != "heads" else ():
            yield Growing("addition", name, axis, _powers(sizes), partial(_along, axis, partial(_addition, name)))
    for axis, sizes in {"length": SHORT, "batch": FEW, "heads": FEW}.items():
        power = 2 if axis == "length" else 1
        for name in _scoring(1):
            make = partial(_along, axis, partial(_bias, name))
            yield Growing("bias", name, axis, _powers(sizes), make, power, power)
        for name in ("none", *_scoring(1), "Rotary"):
            make = partial(_along, axis, partial(_attention, name))
            yield Growing("attention", name, axis, _powers(sizes), make, power, power)
    squares = tuple(size for size in _powers(SHORT) if math.isqrt(size) ** 2 == size)
    yield Growing("bias", "SwinBias", "length", squares, _window, 2, 2)
    for name, layer in LAYERS.items():
        for axis, sizes in {"length": range(6, 13), "width": range(5, 11)}.items():
            make = partial(_layer, layer.run, axis)
            powers = getattr(layer, f"time_by_{axis}"), getattr(layer, f"memory_by_{axis}")
            yield Growing("layer", name, axis, _powers(sizes), make, *powers)


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
    layer = RotaryEmbedding(TURNED[name], max_len=length)
    x, places = _normal(batch, heads, length, WIDTH), {}
    if layer.encoding.num_axes > 1:
        places["positions"] = _positions(layer.encoding, length)
    return lambda: layer(x, **places)


def _addition(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    layer = PositionalEncoding(WIDTH, max_len=length, encoding=ADDED[name])
    x = _normal(batch, length, WIDTH)
    return lambda: layer(x)


def _bias(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    layer = AttentionBias(_scoring(heads)[name])
    scores, x = _normal(batch, heads, length, length), _normal(batch, heads, length, WIDTH)
    content = {"q": x, "k": x} if isinstance(layer.encoding, ContentScoring) else {}
    return lambda: layer(scores, **content)


def _window(length: int) -> Callable[[], Any]:
    """A square window of so many tokens."""
    side = math.isqrt(length)
    layer = AttentionBias(p.SwinBias(num_heads=1, window=(side, side)))
    scores = _normal(1, 1, length, length)
    return lambda: layer(scores)


def _attention(name: str, batch: int, heads: int, length: int) -> Callable[[], Any]:
    x = _normal(batch, heads, length, WIDTH)
    if name == "none":
        return lambda: p.attend(x, x, x)
    encoding = TURNING[name] if name in TURNING else _scoring(heads)[name]
    weights = {part: _normal(*one.shape) for part, one in encoding.parameters().items()}
    return lambda: p.attend(x, x, x, position=Placed(encoding, range(length), range(length), weights or None))


def _layer(run: Callable[..., Any], axis: str, size: int) -> Callable[[], Any]:
    length, width = (size, 64) if axis == "length" else (64, size)
    tokens, matrices = _normal(length, width), [_normal(width, width) / width for _ in range(3)]
    return lambda: run(tokens, *matrices)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)
