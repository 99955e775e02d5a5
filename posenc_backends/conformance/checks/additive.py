"""What the conformance suite measures of additive encodings with several axes, and of real positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EXACT, LEARNED, BackendUnderTest, GoldenCase, Measurement, batch, layer_of, ulps


def table(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The rows that a `PositionalEncoding` adds to zeros, bit for bit, at integer or real positions of any axes."""
    positions = np.array(golden_case["positions"])
    layer = on.testing.eval_mode(layer_of(on, golden_case))
    rows = on.backend.to_numpy(layer(_nothing(on, golden_case, positions.shape[-1]), positions=positions))
    return Measurement(ulps(rows[0], golden_case["table"]), EXACT)


def position_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of each column with respect to the positions, and the rows at positions that may have one.

    Both bit for bit; where a framework traces positions and computes there, as far as angles in float32 allow.
    """
    positions, wanted = np.array(golden_case["positions"]), np.array(golden_case["gradient"])
    dim = wanted.shape[-1]
    layer, traced = on.testing.eval_mode(layer_of(on, golden_case)), []
    repeated = np.repeat(positions, dim, axis=-1).astype(np.float32)  # a token for each position and column
    tokens = _nothing(on, golden_case, repeated.shape[-1])

    def call(given: Any) -> Any:
        traced.append(on.backend.is_traced(given))
        return layer(tokens, positions=given)

    rows = on.backend.to_numpy(call(on.backend.from_numpy(repeated)))[0]
    apart = ulps(rows, np.repeat(golden_case["table"], dim, axis=0))
    chosen = on.backend.from_numpy(np.tile(np.eye(dim, dtype=np.float32), (1, positions.shape[-1], 1)))
    got = on.backend.to_numpy(on.testing.gradient(call, on.backend.from_numpy(repeated), chosen)).reshape(wanted.shape)
    if not traced[-1]:
        return Measurement(max(apart, ulps(got, wanted)), EXACT)
    return Measurement(max(apart and np.inf, ulps(got, wanted, scale=golden_case["scale"])), LEARNED)


def learned_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of the numbers that multiply the frequencies, in last places of the sizes that add up to it."""
    layer = on.testing.eval_mode(layer_of(on, golden_case))
    got = on.testing.parameter_gradient(layer, "alpha", batch(on, golden_case, "x"), batch(on, golden_case, "weights"))
    return Measurement(ulps(on.backend.to_numpy(got), golden_case["gradient"], scale=golden_case["scale"]), LEARNED)


def _nothing(on: BackendUnderTest, golden_case: GoldenCase, length: int) -> Any:
    """Tokens of zeros, as many as there are positions."""
    return on.backend.from_numpy(np.zeros((1, length, golden_case["encoding"]["dim"]), np.float32))
