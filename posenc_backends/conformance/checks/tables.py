"""What the cases of the conformance suite measure: one native result against golden numbers, in units in the last place."""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from posenc_core.encodings import Encoding
from posenc_core.weights.resize import resize_bias_table, resize_table

from ..errors import (
    EXACT,
    RESIZED,
    Entry,
    Outcome,
    Subject,
    batch,
    layer_of,
    near,
    off,
    rotated,
    tokens,
    ulps,
    zeros,
)


def additive_table(on: Subject, entry: Entry) -> Outcome:
    """The rows that a `PositionalEncoding` adds to zeros, bit for bit."""
    layer = layer_of(on, entry)
    zeros = np.zeros((1, len(entry["positions"]), layer.encoding.dim), np.float32)
    rows = on.room.to_numpy(layer(on.room.from_numpy(zeros), positions=np.array(entry["positions"])))
    return Outcome(ulps(rows[0], np.array(entry["table"]).astype(np.float32)), EXACT)


def rotary_table(on: Subject, entry: Entry, layer: Any = None) -> Outcome:
    """What a `RotaryEmbedding`, that of the entry or another, makes of pairs (1, 0): cosine and sine, bit for bit; and frequencies and factor."""
    layer, seq_len = layer_of(on, entry) if layer is None else layer, entry["seq_len"]
    ends = np.array(entry["channels"])  # of each pair: both channels as they come in, and as they go out
    x = np.zeros((1, 1, len(entry["cos_sin"]), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Position .* lies past")  # as positions do of which no length is told
        turned = layer(on.room.from_numpy(x), positions=np.array(entry["positions"]), seq_len=seq_len)
    got = on.room.to_numpy(turned)[0, 0][:, ends[:, 2:]]
    apart = ulps(layer.encoding.frequencies(seq_len), entry["frequencies"], dtype="float64")
    factor = ulps(layer.encoding.at(seq_len).attention_factor, entry["attention_factor"], dtype="float64")
    return Outcome(max(apart, factor, ulps(got, np.array(entry["cos_sin"]).astype(np.float32))), EXACT)


def forward(on: Subject, entry: Entry) -> Outcome:
    """A layer's result at the positions given, bit for bit."""
    layer = on.harness.evaluated(layer_of(on, entry), entry.get("dtype", "float32"))
    got = layer(tokens(on, entry, "x"), positions=np.array(entry["positions"]))
    return Outcome(off(on, got, entry, "result"), EXACT)


def gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of a layer's result with respect to its tokens, bit for bit."""
    layer = on.harness.evaluated(layer_of(on, entry), entry.get("dtype", "float32"))
    call = partial(layer, positions=np.array(entry["positions"]))
    got = on.harness.gradient(call, tokens(on, entry, "x"), tokens(on, entry, "weights"))
    return Outcome(off(on, got, entry, "gradient"), EXACT)


def compiled(on: Subject, entry: Entry) -> Outcome:
    """A layer's result from position 0 on, compiled by its framework."""
    layer = on.harness.evaluated(layer_of(on, entry), entry["dtype"])
    return rotated(on, on.harness.compiled(layer)(tokens(on, entry, "x")), entry)


def compiled_positions(on: Subject, entry: Entry) -> Outcome:
    """Positions that only the running program knows: right where the table has them, and NaN if not right elsewhere."""
    layer = on.harness.evaluated(layer_of(on, entry), entry["dtype"])
    positions = np.array(entry["positions"], np.int32)
    got = on.harness.compiled(layer)(tokens(on, entry, "x"), positions=on.room.from_numpy(positions))
    inside = (positions >= 0) & (positions < layer.tables[0].shape[0])
    held = inside.reshape(-1, inside.shape[-1]).all(axis=0)  # on every axis
    missing = np.isnan(on.room.to_numpy(got)).any(axis=-1)[0] & ~held
    return rotated(on, got, entry, rows=~missing)


def compiled_past_the_table(on: Subject, entry: Entry) -> Outcome:
    """More tokens than the table has rows: an error that names `max_len`, or the right result."""
    layer = on.room.RotaryEmbedding(Encoding.from_dict(entry["encoding"]), max_len=3)
    try:
        got = on.harness.compiled(on.harness.evaluated(layer, entry["dtype"]))(tokens(on, entry, "x"))
    except Exception as error:  # compilers wrap what they meet in errors of their own
        if "`max_len` is 3" not in str(error):
            raise
        return Outcome(EXACT, EXACT)
    return rotated(on, got, entry)


def bias(on: Subject, entry: Entry) -> Outcome:
    """What an `AttentionBias` adds to zeros, bit for bit."""
    layer = on.harness.evaluated(layer_of(on, entry), entry["dtype"])
    return Outcome(off(on, layer(zeros(on, entry)), entry, "bias"), EXACT)


def compiled_bias(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework."""
    layer = on.harness.compiled(on.harness.evaluated(layer_of(on, entry), entry["dtype"]))
    return Outcome(off(on, layer(zeros(on, entry)), entry, "bias"), EXACT)


def bias_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of an `AttentionBias` with respect to the scores, which is 1."""
    weights = np.arange(np.size(entry["bias"]), dtype=np.float32).reshape(1, *np.shape(entry["bias"]))
    scores, cotangent = on.room.from_numpy(np.zeros_like(weights)), on.room.from_numpy(weights)
    got = on.harness.gradient(layer_of(on, entry), scores, cotangent)
    return Outcome(ulps(on.room.to_numpy(got), weights), EXACT)


def learned(on: Subject, entry: Entry) -> Outcome:
    """What a `Learned` encoding adds to zeros from position 1 on: the rows that it holds, bit for bit."""
    layer = on.harness.evaluated(layer_of(on, entry))
    got = layer(on.room.from_numpy(np.array(entry["x"], np.float32)), start=1)
    rows = on.room.to_numpy(layer.P)[:, 1 : 1 + np.shape(entry["x"])[1]]
    return Outcome(ulps(on.room.to_numpy(got), np.broadcast_to(rows, got.shape)), EXACT)


def learned_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of a `Learned` table: the sum of what arrived at each row."""
    layer = on.harness.evaluated(layer_of(on, entry), entry.get("dtype", "float32"))
    x, weights = (on.room.from_numpy(np.array(entry[name], np.float32)) for name in ("x", "weights"))
    got = on.harness.parameter_gradient(layer, "table", x, weights)
    return Outcome(ulps(on.room.to_numpy(got), entry["gradient"]), EXACT)


def resized(on: Subject, entry: Entry) -> Outcome:
    """A learned table carried over to other sizes, in units in the last place of its largest number."""
    resize = resize_bias_table if "window" in entry["arguments"] else resize_table
    got = resize(tokens(on, entry, "table"), **entry["arguments"])
    largest = np.full(np.shape(entry["result"]), np.max(np.abs(entry["table"])))
    return Outcome(off(on, got, entry, "result", scale=largest), RESIZED[entry["dtype"]])


def learned_rotary(on: Subject, entry: Entry) -> Outcome:
    """What learned frequencies give before they learn, in units in the last place of the largest number."""
    layer = on.harness.evaluated(layer_of(on, entry))
    return near(on, layer(batch(on, entry, "x")), [entry["result"]])


def compiled_learned_rotary(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework."""
    layer = on.harness.compiled(on.harness.evaluated(layer_of(on, entry)))
    return near(on, layer(batch(on, entry, "x")), [entry["result"]])


def learned_rotary_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of the numbers that multiply the frequencies."""
    layer = on.harness.evaluated(layer_of(on, entry))
    batches = batch(on, entry, "x"), batch(on, entry, "weights")
    return near(on, on.harness.parameter_gradient(layer, "alpha", *batches), entry["gradient"])


def saved(on: Subject, entry: Entry) -> Outcome:
    """What a layer gives after it is saved and loaded into a new one, bit for bit."""
    layer = on.harness.evaluated(layer_of(on, entry), entry.get("dtype", "float32"))
    x = on.room.from_numpy(np.array(entry["x"], np.float32))
    with tempfile.TemporaryDirectory() as folder:
        fresh = on.harness.reloaded(layer, partial(layer_of, on, entry), Path(folder))
        after = on.room.to_numpy(on.harness.evaluated(fresh)(x))
    return Outcome(ulps(after, on.room.to_numpy(layer(x))), EXACT)
