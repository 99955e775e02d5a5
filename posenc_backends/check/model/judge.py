"""Compare what a layer multiplies with the rotation that its encoding gives, and name the mistake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.rotation import channel_pairs

from ..budget import Budget
from ..candidates import Candidate, Float64s, by_column
from ..diagnosis import LIMIT, Diagnosis, FoundMistake, found_in, measure
from ..mistakes.base import Mistake
from ..sample_calls import TestCall
from ..signatures import RotateQueriesAndKeys, Signature

MOST_HYPOTHESES = 800
NOPE, NOT_FINITE, WRONG_WIDTH = "NoPE ignored", "not finite", "wrong head_dim"
# Allowed errors, in units of 4 ulp: of each number, as models round tables and results to the dtype of tokens; and for
# each radian of an angle in float32 whose frequency is a rounded power, scaled by rounded numbers.
ENTRIES = {"float64": 8.0, "float32": 8.0, "bfloat16": 4.0, "float16": 4.0}
RADIANS = {"float64": 4.0, "float32": 4.0, "bfloat16": 2.0**-14, "float16": 2.0**-11}
STILL = {"float64": 2.0**-18, "float32": 2.0**-18, "bfloat16": 2.0**-5, "float16": 2.0**-8}  # of what does not rotate
HEADS = 2  # of a layer in which a mistake is looked for


class Observation(NamedTuple):
    """The queries and keys that a layer multiplies in a call.

    Attributes:
        name: of the call.
        positions: `(length,)` or `(rows, length)`, with axes before them for an encoding of several.
        plain: queries and keys without rotation, each `(rows, heads, length, width)`.
        rotated: those that the layer multiplies.
        dtype: of the model.
    """

    name: str
    positions: npt.NDArray[np.int64]
    plain: tuple[Float64s, ...]
    rotated: tuple[Float64s, ...]
    dtype: str

    def call(self, expected: Any) -> TestCall:
        """Return the call for an expected candidate, or None if nothing must change."""
        dtype = "float32" if self.dtype == "float64" else self.dtype
        return TestCall(self.name, dtype, self.positions, 0, self.plain, expected)

    @property
    def is_finite(self) -> bool:
        """Whether there are numbers only."""
        return all(np.isfinite(x).all() for x in self.rotated)

    @property
    def is_still(self) -> bool:
        """Whether nothing rotates."""
        both = zip(self.plain, self.rotated, strict=True)
        return all(relative_difference(*pair) <= STILL[self.dtype] for pair in both)

    def take_channels(self, width: int) -> Observation:
        """Return this many channels, those that rotate: the first of a head, or its last."""
        plain, rotated = self.plain[0], self.rotated[0]
        rest = plain.shape[-1] - width
        if rest <= 0:
            return self
        moved = np.flatnonzero(np.abs(rotated - plain).max(axis=(0, 1, 2)) > 0)
        channels = slice(width) if len(moved) and moved[0] < rest else slice(rest, None)
        return self._change(lambda x: x[..., channels])

    def take_heads(self, count: int) -> Observation:
        """Return the first heads."""
        return self._change(lambda x: x[:, :count])

    def _change(self, change: Any) -> Observation:
        return self._replace(plain=tuple(map(change, self.plain)), rotated=tuple(map(change, self.rotated)))


def relative_difference(plain: Float64s, rotated: Float64s) -> float:
    """Return the largest difference of two arrays, relative to the largest number of the first."""
    return float(np.abs(rotated - plain).max() / np.abs(plain).max())


@dataclass(frozen=True)
class InModel(RotateQueriesAndKeys):
    """Queries and keys of a model, whose angles may be rounded to float32, and its tables to the dtype of tokens.

    Attributes:
        dtype: of the model.
        frequencies: radians per position, by channel; 0 for those that do not rotate.
        pairs: the pair of each channel; 0 for those that do not rotate.
    """

    dtype: str
    frequencies: Float64s
    pairs: npt.NDArray[np.int64]

    def magnitudes(self, candidate: Candidate, results: Float64s) -> Float64s:
        positions = by_column(self.encoding, candidate.positions)
        if positions.shape[-1] > 1:
            positions = positions[..., self.pairs]
        larger = ENTRIES[self.dtype] + RADIANS[self.dtype] * np.abs(positions * self.frequencies)
        lengths = super().magnitudes(candidate, results)
        lengths = np.maximum(lengths, lengths.max() / 8)  # errors of hidden states reach all channels
        return lengths * (larger if larger.ndim < 3 else larger[:, None])


def _signature(encoding: Any, dtype: str) -> InModel:
    if encoding is None:
        return InModel(None, dtype, np.zeros(0), np.zeros(0, np.int64))
    rotates, own = np.abs(encoding.frequencies()), encoding.pairing
    frequencies, pairs = np.zeros(encoding.head_dim), np.zeros(encoding.head_dim, np.int64)
    for channels in channel_pairs(encoding.head_dim, len(rotates), own, own.join):
        frequencies[channels], pairs[channels] = rotates, np.arange(len(rotates))
    return InModel(encoding, dtype, frequencies, pairs)


class Judge:
    """Finds the mistakes of layers; those of one layer are tried first on the next.

    Attributes:
        known: the mistakes found so far, by what they concern.
    """

    def __init__(self) -> None:
        self.known: dict[str, list[Mistake]] = {}

    def mistakes(self, encoding: Any, calls: Iterable[Observation]) -> list[FoundMistake]:
        """Return the mistakes of a layer's rotation in the first call that shows one.

        Args:
            encoding: of the layer; None if queries and keys must not rotate.
            calls: what the layer multiplies in each call.
        """
        if encoding is not None and encoding.layout == "interleaved_to_half":  # channels are in the order of results
            encoding = replace(encoding, layout="half")
        diagnosis: Diagnosis | None = None
        for observation in calls:
            diagnosis = diagnosis or self.diagnosis(_signature(encoding, observation.dtype))
            if found := self._of_call(encoding, observation, diagnosis):
                return found
        return []

    def diagnosis(self, signature: Signature) -> Diagnosis:
        """Return a search that tries first what it found in other layers."""
        diagnosis = Diagnosis(signature, Budget(MOST_HYPOTHESES))
        diagnosis._known = self.known.setdefault("".join(signature.outputs), [])
        return diagnosis

    def _of_call(self, encoding: Any, observation: Observation, diagnosis: Diagnosis) -> list[FoundMistake]:
        call, infinite = observation.call(None), float("inf")
        if not observation.is_finite:
            return [found_in(call, NOT_FINITE, "queries or keys are NaN or infinity", error=infinite)]
        if encoding is None:
            if observation.is_still:
                return []
            error = max(relative_difference(*both) for both in zip(observation.plain, observation.rotated, strict=True))
            return [found_in(call, NOPE, "queries and keys rotate", error=error * 2**24)]
        if (width := observation.plain[0].shape[-1]) < encoding.head_dim:
            return [found_in(call, WRONG_WIDTH, f"heads have {width} channels", error=infinite)]
        observation = observation.take_channels(encoding.head_dim)
        expected = Candidate(
            encoding=encoding.at(int(observation.positions.max()) + 1), positions=observation.positions
        )
        result = measure(diagnosis.signature, observation.call(expected), observation.rotated)
        if result.worst > LIMIT:
            few = observation.take_heads(HEADS)
            of_few = measure(diagnosis.signature, few.call(expected), few.rotated)
            result = of_few if of_few.worst > LIMIT else result
        diagnosis.add(result)
        return diagnosis.mistakes
