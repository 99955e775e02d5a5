"""Check scoring encodings that use positions alone, constant and learned ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import (
    EXACT,
    LOOKED_UP,
    BackendUnderTest,
    GoldenCase,
    Measurement,
    array_of,
    error_of,
    float32_arrays,
    layer_of,
    positions_in,
    traced_positions_in,
    ulps,
    worst,
    zero_scores,
)

COMPUTED = 8.0  # about ten roundings on the way to a number, a logarithm and an exponential too; about forty to a sum


def scored(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check what an `AttentionBias` with the parameters of the case adds to zeros; compiled, at traced positions."""
    layer = on.testing.compiled(_layer(on, case)) if is_compiled else _layer(on, case)
    positions = traced_positions_in(on, case) if is_compiled else positions_in(case)
    return _measure(on, case, layer(zero_scores(on, case), **positions))


def scored_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradients with respect to the scores, which is 1, and to each parameter; return the worst.

    Parameters are measured in ulp of the largest gradient, or of the `scales` of the case if terms nearly cancel.
    """
    scores, weights = (array_of(on, [case[name]]) for name in ("bias", "weights"))
    got = on.testing.gradient(_layer(on, case), scores, weights)
    measurements = [Measurement(ulps(on.backend.to_numpy(got)[0], case["weights"]), EXACT)]
    for name, wanted in case["gradients"].items():
        got = on.testing.parameter_gradient(_layer(on, case), name, scores, weights)
        scale = np.full(np.shape(wanted), np.abs(case.get("scales", {}).get(name, wanted)).max())
        measurements.append(Measurement(ulps(on.backend.to_numpy(got), wanted, scale=scale), _limit(case)))
    return worst(measurements)


def _layer(on: BackendUnderTest, case: GoldenCase) -> Any:
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    return on.testing.with_parameters(layer, float32_arrays(case["parameters"]))


def _measure(on: BackendUnderTest, case: GoldenCase, got: Any) -> Measurement:
    """Measure biases, each in its own ulp if it is looked up, else in ulp of the largest."""
    is_looked_up = case["encoding"]["kind"] in LOOKED_UP
    scale = None if is_looked_up else np.full(np.shape(case["bias"]), np.abs(case["bias"]).max())
    return Measurement(error_of(on, got, case, "bias", scale=scale), _limit(case))


def _limit(case: GoldenCase) -> float:
    return EXACT if case["encoding"]["kind"] in LOOKED_UP else COMPUTED
