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
    BackendUnderTest,
    GoldenCase,
    Measurement,
    batch,
    layer_of,
    near,
    off,
    rotated,
    tokens,
    ulps,
    zeros,
)


def additive_table(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The rows that a `PositionalEncoding` adds to zeros, bit for bit."""
    layer = layer_of(on, golden_case)
    zeros = np.zeros((1, len(golden_case["positions"]), layer.encoding.dim), np.float32)
    rows = on.backend.to_numpy(layer(on.backend.from_numpy(zeros), positions=np.array(golden_case["positions"])))
    return Measurement(ulps(rows[0], np.array(golden_case["table"]).astype(np.float32)), EXACT)


def rotary_table(on: BackendUnderTest, golden_case: GoldenCase, layer: Any = None) -> Measurement:
    """What a `RotaryEmbedding`, that of the entry or another, makes of pairs (1, 0): cosine and sine, bit for bit; and frequencies and factor."""
    layer, seq_len = layer_of(on, golden_case) if layer is None else layer, golden_case["seq_len"]
    ends = np.array(golden_case["channels"])  # of each pair: both channels as they come in, and as they go out
    x = np.zeros((1, 1, len(golden_case["cos_sin"]), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Position .* lies past")  # as positions do of which no length is told
        turned = layer(on.backend.from_numpy(x), positions=np.array(golden_case["positions"]), seq_len=seq_len)
    got = on.backend.to_numpy(turned)[0, 0][:, ends[:, 2:]]
    apart = ulps(layer.encoding.frequencies(seq_len), golden_case["frequencies"], dtype="float64")
    factor = ulps(layer.encoding.at(seq_len).attention_factor, golden_case["attention_factor"], dtype="float64")
    return Measurement(max(apart, factor, ulps(got, np.array(golden_case["cos_sin"]).astype(np.float32))), EXACT)


def forward(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """A layer's result at the positions given, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case.get("dtype", "float32"))
    got = layer(tokens(on, golden_case, "x"), positions=np.array(golden_case["positions"]))
    return Measurement(off(on, got, golden_case, "result"), EXACT)


def gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of a layer's result with respect to its tokens, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case.get("dtype", "float32"))
    call = partial(layer, positions=np.array(golden_case["positions"]))
    got = on.testing.gradient(call, tokens(on, golden_case, "x"), tokens(on, golden_case, "weights"))
    return Measurement(off(on, got, golden_case, "gradient"), EXACT)


def compiled(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """A layer's result from position 0 on, compiled by its framework."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"])
    return rotated(on, on.testing.compiled(layer)(tokens(on, golden_case, "x")), golden_case)


def compiled_positions(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Positions that only the running program knows: right where the table has them, and NaN if not right elsewhere."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"])
    positions = np.array(golden_case["positions"], np.int32)
    got = on.testing.compiled(layer)(tokens(on, golden_case, "x"), positions=on.backend.from_numpy(positions))
    inside = (positions >= 0) & (positions < layer.tables[0].shape[0])
    held = inside.reshape(-1, inside.shape[-1]).all(axis=0)  # on every axis
    missing = np.isnan(on.backend.to_numpy(got)).any(axis=-1)[0] & ~held
    return rotated(on, got, golden_case, rows=~missing)


def compiled_past_the_table(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """More tokens than the table has rows: an error that names `max_len`, or the right result."""
    layer = on.backend.RotaryEmbedding(Encoding.from_dict(golden_case["encoding"]), max_len=3)
    try:
        got = on.testing.compiled(on.testing.eval_mode(layer, golden_case["dtype"]))(tokens(on, golden_case, "x"))
    except Exception as error:  # compilers wrap what they meet in errors of their own
        if "`max_len` is 3" not in str(error):
            raise
        return Measurement(EXACT, EXACT)
    return rotated(on, got, golden_case)


def bias(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What an `AttentionBias` adds to zeros, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"])
    return Measurement(off(on, layer(zeros(on, golden_case)), golden_case, "bias"), EXACT)


def compiled_bias(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, compiled by its framework."""
    layer = on.testing.compiled(on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"]))
    return Measurement(off(on, layer(zeros(on, golden_case)), golden_case, "bias"), EXACT)


def bias_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of an `AttentionBias` with respect to the scores, which is 1."""
    weights = np.arange(np.size(golden_case["bias"]), dtype=np.float32).reshape(1, *np.shape(golden_case["bias"]))
    scores, cotangent = on.backend.from_numpy(np.zeros_like(weights)), on.backend.from_numpy(weights)
    got = on.testing.gradient(layer_of(on, golden_case), scores, cotangent)
    return Measurement(ulps(on.backend.to_numpy(got), weights), EXACT)


def learned(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What a `Learned` encoding adds to zeros from position 1 on: the rows that it holds, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, golden_case))
    got = layer(on.backend.from_numpy(np.array(golden_case["x"], np.float32)), start=1)
    rows = on.backend.to_numpy(layer.P)[:, 1 : 1 + np.shape(golden_case["x"])[1]]
    return Measurement(ulps(on.backend.to_numpy(got), np.broadcast_to(rows, got.shape)), EXACT)


def learned_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of a `Learned` table: the sum of what arrived at each row."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case.get("dtype", "float32"))
    x, weights = (on.backend.from_numpy(np.array(golden_case[name], np.float32)) for name in ("x", "weights"))
    got = on.testing.parameter_gradient(layer, "table", x, weights)
    return Measurement(ulps(on.backend.to_numpy(got), golden_case["gradient"]), EXACT)


def resized(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """A learned table carried over to other sizes, in units in the last place of its largest number."""
    resize = resize_bias_table if "window" in golden_case["arguments"] else resize_table
    got = resize(tokens(on, golden_case, "table"), **golden_case["arguments"])
    largest = np.full(np.shape(golden_case["result"]), np.max(np.abs(golden_case["table"])))
    return Measurement(off(on, got, golden_case, "result", scale=largest), RESIZED[golden_case["dtype"]])


def learned_rotary(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What learned frequencies give before they learn, in units in the last place of the largest number."""
    layer = on.testing.eval_mode(layer_of(on, golden_case))
    return near(on, layer(batch(on, golden_case, "x")), [golden_case["result"]])


def compiled_learned_rotary(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, compiled by its framework."""
    layer = on.testing.compiled(on.testing.eval_mode(layer_of(on, golden_case)))
    return near(on, layer(batch(on, golden_case, "x")), [golden_case["result"]])


def learned_rotary_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of the numbers that multiply the frequencies."""
    layer = on.testing.eval_mode(layer_of(on, golden_case))
    batches = batch(on, golden_case, "x"), batch(on, golden_case, "weights")
    return near(on, on.testing.parameter_gradient(layer, "alpha", *batches), golden_case["gradient"])


def saved(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What a layer gives after it is saved and loaded into a new one, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case.get("dtype", "float32"))
    x = on.backend.from_numpy(np.array(golden_case["x"], np.float32))
    with tempfile.TemporaryDirectory() as folder:
        fresh = on.testing.reloaded(layer, partial(layer_of, on, golden_case), Path(folder))
        after = on.backend.to_numpy(on.testing.eval_mode(fresh)(x))
    return Measurement(ulps(after, on.backend.to_numpy(layer(x))), EXACT)
