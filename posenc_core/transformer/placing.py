"""Placing: the encoding of a Transformer at the positions of its tokens, by the arrays that the Transformer holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from .._array_api.namespace import A, Array
from ..attention.attend import AttentionInputs, Position
from ..encodings import Additive, Placed, RotaryEncoding, Scoring
from ..positions.sequences import arange_like
from ..rotation import Pairing, rotate_pairs
from .config import Transformer

Weights: TypeAlias = Mapping[str, Array]
Rows: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Turned:
    """A rotary encoding inside attention, by cosines and sines that are at hand: `(length, pairs)` each."""

    pairing: Pairing
    for_queries: Rows
    for_keys: Rows
    needs_scores: ClassVar[bool] = False

    def rotate(self, q: A, k: A) -> tuple[A, A]:
        """Queries and keys, rotated."""
        return (
            rotate_pairs(q, *self.for_queries, pairing=self.pairing),
            rotate_pairs(k, *self.for_keys, pairing=self.pairing),
        )

    def scores(self, content: AttentionInputs) -> None:
        """Nothing is added to the scores."""

    def values(self, attention: Array) -> None:
        """Nothing is added to the result."""


def placed(model: Transformer, weights: Weights, side: str, queries: range, keys: range) -> Position | None:
    """The encoding as self-attention takes it; None where it does not work there.

    Args:
        model: the sizes.
        weights: all arrays of the model, by name.
        side: `"encoder"` or `"decoder"`, which learn their positions apart.
        queries, keys: where they stand.
    """
    encoding = model.encoding
    if isinstance(encoding, Scoring):
        return Placed(encoding, queries, keys, _held(weights, side))
    if isinstance(encoding, RotaryEncoding):
        held = _held(weights, side)
        return Turned(encoding.pairing, _cos_sin(encoding, held, queries, ""), _cos_sin(encoding, held, keys, "key_"))
    return None


def added(model: Transformer, weights: Weights, side: str, positions: range) -> Array | None:
    """The rows to add to tokens, `(length, num_hiddens)`; None where the encoding adds none."""
    encoding = model.encoding
    if not isinstance(encoding, Additive):
        return None
    held = _held(weights, side)
    if hasattr(encoding, "rows_of"):
        (rows,) = _computed(encoding, held, positions)
        return rows
    first = positions.start + encoding.offset
    return held["table"][first : first + len(positions)]


def below(weights: Weights, path: str) -> dict[str, Array]:
    """The arrays below a path, by the rest of their names.

    >>> below({"encoder.0.scale": 1, "encoder.1.scale": 2}, "encoder.1")
    {'scale': 2}
    """
    return {name[len(path) + 1 :]: array for name, array in weights.items() if name.startswith(f"{path}.")}


def numbers(positions: range, like: Array) -> Array:
    """Positions as integers in the library of `like`, shape `(length,)`."""
    return arange_like(len(positions), like=like) + positions.start


def _held(weights: Weights, side: str) -> dict[str, Array]:
    """All arrays of the encoding: those that are fixed, and those that this side learns."""
    return below(weights, "position") | below(weights, f"{side}.position")


def _cos_sin(encoding: RotaryEncoding, held: Weights, positions: range, prefix: str) -> Rows:
    """The rows of these positions; those of keys are the same but for encodings that have others for them."""
    if hasattr(encoding, "rows_of"):
        cos, sin = _computed(encoding, held, positions)
        return cos, sin
    names = [f"{prefix}{name}" if f"{prefix}{name}" in held else name for name in ("cos", "sin")]
    cos, sin = (held[name][positions.start : positions.stop] for name in names)
    return cos, sin


def _computed(encoding: Any, held: Weights, positions: range) -> tuple[Array, ...]:
    """Rows that the framework computes, as they depend on what is learned."""
    rows: tuple[Array, ...] = encoding.rows_of(held, numbers(positions, next(iter(held.values()))))
    return rows
