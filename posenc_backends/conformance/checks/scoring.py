"""What the conformance suite measures of encodings that look at positions alone, with the numbers that they learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EXACT, Entry, Outcome, Subject, layer_of, off, ulps, zeros

LOOKED_UP = ("Alibi", "T5Bias", "SwinBias")  # one product, or none: exact; and sums of whole numbers
COMPUTED = 8.0  # some ten roundings, of a logarithm and an exponential too, on the way to a number; some forty to a sum


def scored(on: Subject, entry: Entry) -> Outcome:
    """What an `AttentionBias` with the parameters given adds to zeros, at positions that are known or plain."""
    return _near(on, entry, _layer(on, entry)(zeros(on, entry), **_positions(entry)))


def compiled_scored(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework; positions that are given are known to the running program only."""
    layer = on.harness.compiled(_layer(on, entry))
    positions = {name: on.room.from_numpy(array.astype(np.int32)) for name, array in _positions(entry).items()}
    return _near(on, entry, layer(zeros(on, entry), **positions))


def scored_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradients with respect to the scores, 1, and to each parameter; the worst of them.

    In units of the largest, or of what it is the difference of where an entry says so: parts that nearly cancel.
    """
    scores, weights = (on.room.from_numpy(np.array([entry[name]], np.float32)) for name in ("bias", "weights"))
    got = on.harness.gradient(_layer(on, entry), scores, weights)
    outcomes = [Outcome(ulps(on.room.to_numpy(got)[0], entry["weights"]), EXACT)]
    for name, wanted in entry["gradients"].items():
        found = on.harness.parameter_gradient(_layer(on, entry), name, scores, weights)
        largest = np.full(np.shape(wanted), np.max(np.abs(entry.get("scales", {}).get(name, wanted))))
        outcomes.append(Outcome(ulps(on.room.to_numpy(found), wanted, scale=largest), _limit(entry)))
    return max(outcomes, key=lambda outcome: (not outcome.passed, outcome.worst))


def _layer(on: Subject, entry: Entry) -> Any:
    layer = on.harness.evaluated(layer_of(on, entry), entry["dtype"])
    numbers = {name: np.array(array, np.float32) for name, array in entry["parameters"].items()}
    return on.harness.with_parameters(layer, numbers)


def _positions(entry: Entry) -> dict[str, Any]:
    return {name: np.array(entry[name]) for name in ("query_positions", "key_positions") if name in entry}


def _near(on: Subject, entry: Entry, got: Any) -> Outcome:
    """How far biases are off, in units in the last place of each, if looked up, or of the largest."""
    largest = None if entry["encoding"]["kind"] in LOOKED_UP else np.full(np.shape(entry["bias"]), _largest(entry))
    return Outcome(off(on, got, entry, "bias", scale=largest), _limit(entry))


def _largest(entry: Entry) -> Any:
    return np.max(np.abs(entry["bias"]))


def _limit(entry: Entry) -> float:
    return EXACT if entry["encoding"]["kind"] in LOOKED_UP else COMPUTED
