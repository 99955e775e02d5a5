"""What the conformance suite measures of encodings that look at positions alone, with the numbers that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EXACT, BackendUnderTest, GoldenCase, Measurement, layer_of, off, ulps, zeros

LOOKED_UP = ("Alibi", "T5Bias", "SwinBias")  # one product, or none: exact; and sums of whole numbers
COMPUTED = 8.0  # some ten roundings, of a logarithm and an exponential too, on the way to a number; some forty to a sum


def scored(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What an `AttentionBias` with the parameters given adds to zeros, at positions that are known or plain."""
    return _near(on, golden_case, _layer(on, golden_case)(zeros(on, golden_case), **_positions(golden_case)))


def compiled_scored(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, compiled by its framework; positions that are given are known to the running program only."""
    layer = on.testing.compiled(_layer(on, golden_case))
    positions = {name: on.backend.from_numpy(array.astype(np.int32)) for name, array in _positions(golden_case).items()}
    return _near(on, golden_case, layer(zeros(on, golden_case), **positions))


def scored_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradients with respect to the scores, 1, and to each parameter; the worst of them.

    In units of the largest, or of what it is the difference of where an entry says so: parts that nearly cancel.
    """
    scores, weights = (on.backend.from_numpy(np.array([golden_case[name]], np.float32)) for name in ("bias", "weights"))
    got = on.testing.gradient(_layer(on, golden_case), scores, weights)
    outcomes = [Measurement(ulps(on.backend.to_numpy(got)[0], golden_case["weights"]), EXACT)]
    for name, wanted in golden_case["gradients"].items():
        found = on.testing.parameter_gradient(_layer(on, golden_case), name, scores, weights)
        largest = np.full(np.shape(wanted), np.max(np.abs(golden_case.get("scales", {}).get(name, wanted))))
        outcomes.append(Measurement(ulps(on.backend.to_numpy(found), wanted, scale=largest), _limit(golden_case)))
    return max(outcomes, key=lambda measurement: (not measurement.passed, measurement.worst))


def _layer(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"])
    numbers = {name: np.array(array, np.float32) for name, array in golden_case["parameters"].items()}
    return on.testing.with_parameters(layer, numbers)


def _positions(golden_case: GoldenCase) -> dict[str, Any]:
    return {name: np.array(golden_case[name]) for name in ("query_positions", "key_positions") if name in golden_case}


def _near(on: BackendUnderTest, golden_case: GoldenCase, got: Any) -> Measurement:
    """How far biases are off, in units in the last place of each, if looked up, or of the largest."""
    largest = (
        None
        if golden_case["encoding"]["kind"] in LOOKED_UP
        else np.full(np.shape(golden_case["bias"]), _largest(golden_case))
    )
    return Measurement(off(on, got, golden_case, "bias", scale=largest), _limit(golden_case))


def _largest(golden_case: GoldenCase) -> Any:
    return np.max(np.abs(golden_case["bias"]))


def _limit(golden_case: GoldenCase) -> float:
    return EXACT if golden_case["encoding"]["kind"] in LOOKED_UP else COMPUTED
