"""What the cases of the conformance suite measure: one native result against golden numbers, in units in the last place."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from posenc_core.encodings import Additive, Encoding, Rotary
from posenc_core.rotation import partners

Entry = dict[str, Any]

DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
EXACT = 0.0
CONTRACTED = 1.0  # of the length of the pair: a fused multiply-add leaves out one rounding of a product
ATTENTION = 8.0  # some forty roundings, in an order that each framework chooses


class Subject(NamedTuple):
    """A room, with what the suite asks of its framework."""

    room: ModuleType
    harness: ModuleType


class Outcome(NamedTuple):
    """The worst error of a case and what is allowed, in units in the last place."""

    worst: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is within what is allowed; NaN is not."""
        return self.worst <= self.limit


def ulps(native: Any, golden: Any, *, dtype: str = "float32", scale: Any = None) -> float:
    """The worst difference, in units in the last place of the golden numbers, or of `scale`, in this dtype."""
    got, wanted = np.asarray(native, np.float64), np.asarray(golden, np.float64)
    if got.shape != wanted.shape:
        raise ValueError(f"Expected shape {wanted.shape}, got {got.shape}.")
    size = np.maximum(np.abs(wanted if scale is None else scale), np.finfo(np.float32).tiny)
    unit = 2.0 ** (np.floor(np.log2(size)) + 1 - DIGITS[dtype])
    return float(np.max(np.abs(got - wanted) / unit, initial=0))


def additive_table(on: Subject, entry: Entry) -> Outcome:
    """The rows that a `PositionalEncoding` adds to zeros, bit for bit."""
    layer = _layer(on, entry)
    zeros = np.zeros((1, len(entry["positions"]), layer.encoding.dim), np.float32)
    rows = on.room.to_numpy(layer(on.room.from_numpy(zeros), positions=np.array(entry["positions"])))
    return Outcome(ulps(rows[0], np.array(entry["table"]).astype(np.float32)), EXACT)


def rotary_table(on: Subject, entry: Entry) -> Outcome:
    """What a `RotaryEmbedding` makes of pairs (1, 0): cosine and sine, bit for bit; and the frequencies."""
    layer = _layer(on, entry)
    encoding: Rotary = layer.encoding
    second = partners(encoding.head_dim, len(entry["frequencies"]), layout=encoding.layout)
    first = np.flatnonzero(second > np.arange(encoding.head_dim))
    x = np.zeros((1, 1, len(entry["positions"]), encoding.head_dim), np.float32)
    x[..., first] = 1
    turned = on.room.to_numpy(layer(on.room.from_numpy(x), positions=np.array(entry["positions"])))[0, 0]
    got = np.stack([turned[:, first], turned[:, second[first]]], axis=-1)[:, entry["columns"]]
    off = ulps(encoding.frequencies(), entry["frequencies"], dtype="float64")
    return Outcome(max(off, ulps(got, np.array(entry["cos_sin"]).astype(np.float32))), EXACT)


def forward(on: Subject, entry: Entry) -> Outcome:
    """A layer's result at the positions given, bit for bit."""
    layer = on.harness.evaluated(_layer(on, entry), entry.get("dtype", "float32"))
    got = layer(_tokens(on, entry, "x"), positions=np.array(entry["positions"]))
    return Outcome(_off(on, got, entry, "result"), EXACT)


def gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of a layer's result with respect to its tokens, bit for bit."""
    layer = on.harness.evaluated(_layer(on, entry), entry.get("dtype", "float32"))
    call = partial(layer, positions=np.array(entry["positions"]))
    got = on.harness.gradient(call, _tokens(on, entry, "x"), _tokens(on, entry, "weights"))
    return Outcome(_off(on, got, entry, "gradient"), EXACT)


def compiled(on: Subject, entry: Entry) -> Outcome:
    """A layer's result from position 0 on, compiled by its framework."""
    layer = on.harness.evaluated(_layer(on, entry), entry["dtype"])
    return _rotated(on, on.harness.compiled(layer)(_tokens(on, entry, "x")), entry)


def compiled_positions(on: Subject, entry: Entry) -> Outcome:
    """Positions that only the running program knows: right where the table has them, and NaN if not right elsewhere."""
    layer = on.harness.evaluated(_layer(on, entry), entry["dtype"])
    positions = np.array(entry["positions"], np.int32)
    got = on.harness.compiled(layer)(_tokens(on, entry, "x"), positions=on.room.from_numpy(positions))
    held = (positions >= 0) & (positions < layer.tables[0].shape[0])
    missing = np.isnan(on.room.to_numpy(got)).any(axis=-1)[0] & ~held
    return _rotated(on, got, entry, rows=~missing)


def compiled_past_the_table(on: Subject, entry: Entry) -> Outcome:
    """More tokens than the table has rows: an error that names `max_len`, or the right result."""
    layer = on.room.RotaryEmbedding(Encoding.from_dict(entry["encoding"]), max_len=3)
    try:
        got = on.harness.compiled(on.harness.evaluated(layer, entry["dtype"]))(_tokens(on, entry, "x"))
    except Exception as error:  # compilers wrap what they meet in errors of their own
        if "`max_len` is 3" not in str(error):
            raise
        return Outcome(EXACT, EXACT)
    return _rotated(on, got, entry)


def bias(on: Subject, entry: Entry) -> Outcome:
    """What an `AttentionBias` adds to zeros, bit for bit."""
    layer = on.harness.evaluated(_layer(on, entry), entry["dtype"])
    return Outcome(_off(on, layer(_zeros(on, entry)), entry, "bias"), EXACT)


def compiled_bias(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework."""
    layer = on.harness.compiled(on.harness.evaluated(_layer(on, entry), entry["dtype"]))
    return Outcome(_off(on, layer(_zeros(on, entry)), entry, "bias"), EXACT)


def bias_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of an `AttentionBias` with respect to the scores, which is 1."""
    weights = np.arange(np.size(entry["bias"]), dtype=np.float32).reshape(1, *np.shape(entry["bias"]))
    scores, cotangent = on.room.from_numpy(np.zeros_like(weights)), on.room.from_numpy(weights)
    got = on.harness.gradient(_layer(on, entry), scores, cotangent)
    return Outcome(ulps(on.room.to_numpy(got), weights), EXACT)


def attention(on: Subject, entry: Entry) -> Outcome:
    """A `MultiHeadAttention` with the projections given, in units in the last place of its largest number."""
    layer = _attention(on, entry)
    return _attended(on, layer, entry)


def compiled_attention(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework."""
    return _attended(on, on.harness.compiled(_attention(on, entry)), entry)


def learned(on: Subject, entry: Entry) -> Outcome:
    """What a `Learned` encoding adds to zeros from position 1 on: the rows that it holds, bit for bit."""
    layer = on.harness.evaluated(_layer(on, entry))
    got = layer(on.room.from_numpy(np.array(entry["x"], np.float32)), start=1)
    rows = on.room.to_numpy(layer.P)[:, 1 : 1 + np.shape(entry["x"])[1]]
    return Outcome(ulps(on.room.to_numpy(got), np.broadcast_to(rows, got.shape)), EXACT)


def learned_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of a `Learned` table: the sum of what arrived at each row."""
    layer = on.harness.evaluated(_layer(on, entry), entry.get("dtype", "float32"))
    x, weights = (on.room.from_numpy(np.array(entry[name], np.float32)) for name in ("x", "weights"))
    got = on.harness.parameter_gradient(layer, "table", x, weights)
    return Outcome(ulps(on.room.to_numpy(got), entry["gradient"]), EXACT)


def saved(on: Subject, entry: Entry) -> Outcome:
    """What a layer gives after it is saved and loaded into a new one, bit for bit."""
    layer = on.harness.evaluated(_layer(on, entry), entry.get("dtype", "float32"))
    x = on.room.from_numpy(np.array(entry["x"], np.float32))
    with tempfile.TemporaryDirectory() as folder:
        fresh = on.harness.reloaded(layer, partial(_layer, on, entry), Path(folder))
        after = on.room.to_numpy(on.harness.evaluated(fresh)(x))
    return Outcome(ulps(after, on.room.to_numpy(layer(x))), EXACT)


def _layer(on: Subject, entry: Entry) -> Any:
    """The room's layer for the encoding of an entry."""
    encoding = Encoding.from_dict(entry["encoding"])
    if isinstance(encoding, Additive):
        return on.room.PositionalEncoding(encoding.dim, encoding=encoding)
    return (on.room.RotaryEmbedding if isinstance(encoding, Rotary) else on.room.AttentionBias)(encoding)


def _attention(on: Subject, entry: Entry) -> Any:
    position = Encoding.from_dict(entry["position"]) if entry["position"] else None
    layer = on.harness.evaluated(on.room.MultiHeadAttention(4, 2, position=position))
    return on.harness.filled(layer, {name: np.array(w, np.float32) for name, w in entry["matrices"].items()})


def _attended(on: Subject, layer: Any, entry: Entry) -> Outcome:
    tokens = (np.array(entry[name], np.float32) for name in ("queries", "keys", "values"))
    lengths = () if entry["valid_lens"] is None else (np.array(entry["valid_lens"], np.int32),)
    got = on.room.to_numpy(layer(*(on.room.from_numpy(array) for array in (*tokens, *lengths))))
    largest = np.full(np.shape(entry["result"]), np.max(np.abs(entry["result"])))
    return Outcome(ulps(got, entry["result"], scale=largest), ATTENTION)


def _zeros(on: Subject, entry: Entry) -> Any:
    """Scores of zero, `(1, heads, queries, keys)`, in the dtype of an entry."""
    return on.harness.cast(on.room.from_numpy(np.zeros((1, *np.shape(entry["bias"])), np.float32)), entry["dtype"])


def _tokens(on: Subject, entry: Entry, name: str) -> Any:
    """Tokens `(1, …, length, width)` in the dtype of an entry, made from float64 without a second rounding."""
    array = np.array(entry[name])[None]
    wide = array if entry["dtype"] == "float64" else array.astype(np.float32)
    return on.harness.cast(on.room.from_numpy(wide), entry["dtype"])


def _rotated(on: Subject, got: Any, entry: Entry, rows: Any = slice(None)) -> Outcome:
    """How far tokens are off that compiled code may have rotated with contracted products; sums have none."""
    if not on.harness.CONTRACTS or entry["encoding"]["kind"] != "Rotary":
        return Outcome(_off(on, got, entry, "result", rows), EXACT)
    encoding = Rotary.from_dict(entry["encoding"])
    x = np.array(entry["x"])
    pairs = partners(encoding.head_dim, len(encoding.frequencies()), layout=encoding.layout)
    return Outcome(_off(on, got, entry, "result", rows, np.hypot(x, x[..., pairs])[rows]), CONTRACTED)


def _off(on: Subject, got: Any, entry: Entry, name: str, rows: Any = slice(None), scale: Any = None) -> float:
    if str(entry["dtype"]) not in str(got.dtype):
        raise TypeError(f"Expected {entry['dtype']}, got {got.dtype}.")
    wanted = np.array(entry[name])[rows]
    return ulps(on.room.to_numpy(got)[0][rows], wanted, dtype=entry["dtype"], scale=scale)
