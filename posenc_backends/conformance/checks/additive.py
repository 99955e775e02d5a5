"""What the conformance suite measures of additive encodings with several axes, and of real positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EXACT, LEARNED, Entry, Outcome, Subject, batch, layer_of, ulps


def table(on: Subject, entry: Entry) -> Outcome:
    """The rows that a `PositionalEncoding` adds to zeros, bit for bit, at integer or real positions of any axes."""
    positions = np.array(entry["positions"])
    layer = on.harness.evaluated(layer_of(on, entry))
    rows = on.room.to_numpy(layer(_nothing(on, entry, positions.shape[-1]), positions=positions))
    return Outcome(ulps(rows[0], entry["table"]), EXACT)


def position_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of each column with respect to the positions, and the rows at positions that may have one.

    Both bit for bit; where a framework traces positions and computes there, as far as angles in float32 allow.
    """
    positions, wanted = np.array(entry["positions"]), np.array(entry["gradient"])
    dim = wanted.shape[-1]
    layer, traced = on.harness.evaluated(layer_of(on, entry)), []
    repeated = np.repeat(positions, dim, axis=-1).astype(np.float32)  # a token for each position and column
    tokens = _nothing(on, entry, repeated.shape[-1])

    def call(given: Any) -> Any:
        traced.append(on.room.is_traced(given))
        return layer(tokens, positions=given)

    rows = on.room.to_numpy(call(on.room.from_numpy(repeated)))[0]
    apart = ulps(rows, np.repeat(entry["table"], dim, axis=0))
    chosen = on.room.from_numpy(np.tile(np.eye(dim, dtype=np.float32), (1, positions.shape[-1], 1)))
    got = on.room.to_numpy(on.harness.gradient(call, on.room.from_numpy(repeated), chosen)).reshape(wanted.shape)
    if not traced[-1]:
        return Outcome(max(apart, ulps(got, wanted)), EXACT)
    return Outcome(max(apart and np.inf, ulps(got, wanted, scale=entry["scale"])), LEARNED)


def learned_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of the numbers that multiply the frequencies, in last places of the sizes that add up to it."""
    layer = on.harness.evaluated(layer_of(on, entry))
    got = on.harness.parameter_gradient(layer, "alpha", batch(on, entry, "x"), batch(on, entry, "weights"))
    return Outcome(ulps(on.room.to_numpy(got), entry["gradient"], scale=entry["scale"]), LEARNED)


def _nothing(on: Subject, entry: Entry, length: int) -> Any:
    """Tokens of zeros, as many as there are positions."""
    return on.room.from_numpy(np.zeros((1, length, entry["encoding"]["dim"]), np.float32))
