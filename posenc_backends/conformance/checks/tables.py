"""Check tables, rotations, additions, biases and learned encodings: one native result against golden numbers."""

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
    LEARNED,
    MULTIPLIED,
    POLAR,
    RESIZED,
    BackendUnderTest,
    GoldenCase,
    Measurement,
    array_of,
    error_of,
    float32_arrays,
    layer_of,
    measure,
    measure_rotated,
    pair_inputs,
    tokens_of,
    ulps,
    zero_scores,
)


def additive_table(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the rows that a `PositionalEncoding` adds to zeros, at positions of any number of axes, bit for bit."""
    layer, positions = on.testing.eval_mode(layer_of(on, case)), np.array(case["positions"])
    zeros = array_of(on, np.zeros((1, positions.shape[-1], layer.encoding.dim)))
    rows = on.backend.to_numpy(layer(zeros, positions=positions))
    return Measurement(ulps(rows[0], np.array(case["table"]).astype(np.float32)), EXACT)


def query_factors(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the factors by which a `QueryScaling` multiplies ones, bit for bit."""
    ones = array_of(on, np.ones((1, len(case["positions"]), 1)))
    factors = on.backend.to_numpy(layer_of(on, case)(ones, positions=np.array(case["positions"])))
    return Measurement(ulps(factors[0], np.array(case["table"]).astype(np.float32)), EXACT)


def given_parameters(on: BackendUnderTest, case: GoldenCase, limit: float = MULTIPLIED) -> Measurement:
    """Check queries times learned factors, or rotated by learned rows, in ulp of the largest."""
    got = _with_parameters(on, case)(array_of(on, [case["x"]]), positions=np.array(case["positions"]))
    return measure(on, got, [case["result"]], limit)


def gradients_of_parameters(on: BackendUnderTest, case: GoldenCase, limit: float = MULTIPLIED) -> Measurement:
    """Check the gradients of the given parameters, in ulp of the largest."""
    layer, x, weights = (_with_parameters(on, case), *(array_of(on, [case[name]]) for name in ("x", "weights")))
    options = {"positions": np.array(case["positions"])}
    got = [on.testing.parameter_gradient(layer, name, x, weights, **options) for name in case["gradients"]]
    wanted = [*case["gradients"].values()]
    return measure(on, np.stack([on.backend.to_numpy(gradient) for gradient in got]), wanted, limit)


def _with_parameters(on: BackendUnderTest, case: GoldenCase) -> Any:
    return on.testing.with_parameters(on.testing.eval_mode(layer_of(on, case)), float32_arrays(case["parameters"]))


def polar(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check queries and keys as magnitudes at angles, in ulp of the largest."""
    layer = _with_parameters(on, case)
    got = layer(*(array_of(on, [case[name]]) for name in "qk"), positions=np.array(case["positions"]))
    return measure(on, np.stack([on.backend.to_numpy(each) for each in got]), [[own] for own in case["result"]], POLAR)


def polar_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of the phases, in ulp of the largest."""
    layer, k = on.testing.eval_mode(layer_of(on, case)), array_of(on, case["k"])
    rows = layer.rows(k, 0, np.array(case["positions"]), -2, layer.encoding)

    def keys(phase: Any) -> Any:
        return layer.encoding.keys_of(k, *rows, {"phase": phase})

    phase, weights = array_of(on, case["parameters"]["phase"]), array_of(on, case["weights"])
    return measure(on, on.testing.gradient(keys, phase, weights), case["gradients"]["phase"], POLAR)


def remapped_tables(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the rows that attention takes from a `RotaryEmbedding` with remapped positions, bit for bit."""
    layer, positions = layer_of(on, case), np.array(case["positions"])
    x = array_of(on, np.ones((1, len(positions), 1)))
    rows = [on.backend.to_numpy(row) for row in layer.rows(x, 0, positions, -2, layer.encoding)]
    wanted = np.array(case["tables"]).astype(np.float32)  # (positions, remapped positions, cosine or sine, pairs)
    got = np.stack([row.reshape(len(positions), -1) for row in rows], axis=1).reshape(wanted.shape)
    return Measurement(ulps(got, wanted), EXACT)


def rotary_table(on: BackendUnderTest, case: GoldenCase, layer: Any = None) -> Measurement:
    """Check cosine and sine, bit for bit, and the encoding's frequencies and attention factor.

    Cosine and sine are what a `RotaryEmbedding`, `layer` or that of the case, makes of pairs (1, 0).
    """
    layer, seq_len = layer_of(on, case) if layer is None else layer, case["seq_len"]
    x = on.backend.from_numpy(pair_inputs(case, 1, 1, len(case["cos_sin"])))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Position .* lies past")  # a call with positions, but without `seq_len`
        rotated = layer(x, positions=np.array(case["positions"]), seq_len=seq_len)
    cos_sin = on.backend.to_numpy(rotated)[0, 0][:, np.array(case["channels"])[:, 2:]]
    errors = (
        ulps(layer.encoding.frequencies(seq_len), case["frequencies"], dtype="float64"),
        ulps(layer.encoding.at(seq_len).attention_factor, case["attention_factor"], dtype="float64"),
        ulps(cos_sin, np.array(case["cos_sin"]).astype(np.float32)),
    )
    return Measurement(max(errors), EXACT)


def forward(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a layer's result at the positions of the case, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, case), case.get("dtype", "float32"))
    got = layer(tokens_of(on, case, "x"), positions=np.array(case["positions"]))
    return Measurement(error_of(on, got, case, "result"), EXACT)


def gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of a layer's result with respect to its tokens, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, case), case.get("dtype", "float32"))
    call = partial(layer, positions=np.array(case["positions"]))
    got = on.testing.gradient(call, tokens_of(on, case, "x"), tokens_of(on, case, "weights"))
    return Measurement(error_of(on, got, case, "gradient"), EXACT)


def compiled(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a compiled layer's result from position 0 on."""
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    return measure_rotated(on, on.testing.compiled(layer)(tokens_of(on, case, "x")), case)


def compiled_positions(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a compiled layer at traced positions: right inside the table, and right or NaN outside of it."""
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    positions = np.array(case["positions"], np.int32)
    got = on.testing.compiled(layer)(tokens_of(on, case, "x"), positions=on.backend.from_numpy(positions))
    is_inside = (positions >= 0) & (positions < layer.tables[0].shape[0])
    is_inside = is_inside.reshape(-1, is_inside.shape[-1]).all(axis=0)  # on every axis
    is_nan = np.isnan(on.backend.to_numpy(got)).any(axis=-1)[0]
    return measure_rotated(on, got, case, rows=is_inside | ~is_nan)


def compiled_past_the_table(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a compiled layer with more tokens than table rows: an error that names `max_len`, or the right result."""
    layer = on.backend.RotaryEmbedding(Encoding.from_dict(case["encoding"]), max_len=3)
    try:
        got = on.testing.compiled(on.testing.eval_mode(layer, case["dtype"]))(tokens_of(on, case, "x"))
    except Exception as error:  # compilers wrap errors in their own
        if "`max_len` is 3" not in str(error):
            raise
        return Measurement(EXACT, EXACT)
    return measure_rotated(on, got, case)


def bias(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check what an `AttentionBias`, compiled or not, adds to zeros, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    layer = on.testing.compiled(layer) if is_compiled else layer
    return Measurement(error_of(on, layer(zero_scores(on, case)), case, "bias"), EXACT)


def bias_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of an `AttentionBias` with respect to the scores, which is 1."""
    weights = np.arange(np.size(case["bias"]), dtype=np.float32).reshape(1, *np.shape(case["bias"]))
    scores, cotangent = on.backend.from_numpy(np.zeros_like(weights)), on.backend.from_numpy(weights)
    got = on.testing.gradient(layer_of(on, case), scores, cotangent)
    return Measurement(ulps(on.backend.to_numpy(got), weights), EXACT)


def learned(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check what a `Learned` encoding adds to zeros from position 1 on: the rows of its table, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, case))
    got = layer(array_of(on, case["x"]), start=1)
    rows = on.backend.to_numpy(layer.P)[:, 1 : 1 + np.shape(case["x"])[1]]
    return Measurement(ulps(on.backend.to_numpy(got), np.broadcast_to(rows, got.shape)), EXACT)


def learned_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of a `Learned` table: the sum of what arrived at each row."""
    layer = on.testing.eval_mode(layer_of(on, case), case.get("dtype", "float32"))
    got = on.testing.parameter_gradient(layer, "table", array_of(on, case["x"]), array_of(on, case["weights"]))
    return Measurement(ulps(on.backend.to_numpy(got), case["gradient"]), EXACT)


def resized(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a learned table resized to another length or grid, in ulp of its largest number."""
    resize = resize_bias_table if "window" in case["arguments"] else resize_table
    got = resize(tokens_of(on, case, "table"), **case["arguments"])
    scale = np.full(np.shape(case["result"]), np.abs(case["table"]).max())
    return Measurement(error_of(on, got, case, "result", scale=scale), RESIZED[case["dtype"]])


def learned_rotary(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check an encoding of learned frequencies as initialized, compiled or not."""
    layer = on.testing.eval_mode(layer_of(on, case))
    layer = on.testing.compiled(layer) if is_compiled else layer
    return measure(on, layer(array_of(on, [case["x"]])), [case["result"]], LEARNED)


def learned_rotary_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of the factors of learned frequencies."""
    layer = on.testing.eval_mode(layer_of(on, case))
    got = on.testing.parameter_gradient(layer, "alpha", array_of(on, [case["x"]]), array_of(on, [case["weights"]]))
    return measure(on, got, case["gradient"], LEARNED)


def saved(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check that a layer gives the same after it is saved and loaded into a new one, bit for bit."""
    layer = on.testing.eval_mode(layer_of(on, case), case.get("dtype", "float32"))
    x, at = array_of(on, case["x"]), {name: np.array(case[name]) for name in ("positions",) if name in case}
    with tempfile.TemporaryDirectory() as folder:
        on.testing.save_layer(layer, Path(folder))
        loaded = on.testing.load_layer(partial(layer_of, on, case), Path(folder))
        got = on.backend.to_numpy(on.testing.eval_mode(loaded)(x, **at))
    return Measurement(ulps(got, on.backend.to_numpy(layer(x, **at))), EXACT)
