"""Check gradients of additive encodings: those of real positions, and of learned frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EXACT, LEARNED, BackendUnderTest, GoldenCase, Measurement, array_of, layer_of, ulps


def position_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of each column with respect to real positions, and the rows at those positions.

    Both are exact, except that a framework which traces the positions computes the gradient in float32.
    """
    positions, wanted = np.array(case["positions"]), np.array(case["gradient"])
    dim = wanted.shape[-1]
    layer, is_traced = on.testing.eval_mode(layer_of(on, case)), []
    repeated = array_of(on, np.repeat(positions, dim, axis=-1))  # a token for each position and column
    zeros = array_of(on, np.zeros((1, repeated.shape[-1], dim)))

    def call(positions: Any) -> Any:
        is_traced.append(on.backend.is_traced(positions))
        return layer(zeros, positions=positions)

    row_error = ulps(on.backend.to_numpy(call(repeated))[0], np.repeat(case["table"], dim, axis=0))
    one_column = array_of(on, np.tile(np.eye(dim), (1, positions.shape[-1], 1)))  # each token asks for its column
    got = on.backend.to_numpy(on.testing.gradient(call, repeated, one_column)).reshape(wanted.shape)
    if not is_traced[-1]:
        return Measurement(max(row_error, ulps(got, wanted)), EXACT)
    return Measurement(max(np.inf if row_error else 0.0, ulps(got, wanted, scale=case["scale"])), LEARNED)


def learned_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of the factors of learned frequencies, in ulp of the terms that add up to it."""
    layer = on.testing.eval_mode(layer_of(on, case))
    got = on.testing.parameter_gradient(layer, "alpha", array_of(on, [case["x"]]), array_of(on, [case["weights"]]))
    return Measurement(ulps(on.backend.to_numpy(got), case["gradient"], scale=case["scale"]), LEARNED)
