"""Rows of the coverage: a class of another library, and how its rotation compares with ours."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..rounding import UNIT, angle_slack, frequency_slack, pair_slack, rotated

VERDICTS = ("agrees", "no rotation", "refused", "cannot be built", "disagrees")  # of several layers, the last counts

STILL = {"verdict": "no rotation", "note": "The model makes no rotary module."}


def shown(encoding: Any) -> str:
    """Return the `repr` of an encoding without the length that it is for, which changes no number."""
    whole = repr(encoding if getattr(encoding, "max_len", None) is None else replace(encoding, max_len=None))
    return whole if len(whole) < 400 else f"{whole[:400]}…"  # of frequencies, one for each pair


class Row(NamedTuple):
    """A class and the verdict.

    Attributes:
        folder, name: where the class stands, and its name.
        config: the `model_type`, the class of the config or the architecture that it was built from.
        fields: what the config has beside its defaults.
        verdict: one of `VERDICTS`.
        note: the reason, if it does not agree.
        known: whether the type of the config is known to `load_rope`.
        ours: the encoding, of each layer type.
    """

    folder: str
    name: str
    config: str = ""
    fields: dict[str, Any] = {}  # noqa: RUF012  # never changed
    verdict: str = "cannot be built"
    note: str = ""
    known: bool = False
    ours: dict[str, str] = {}  # noqa: RUF012


class Theirs(NamedTuple):
    """What a class computes.

    Attributes:
        frequencies: radians per position, or None if it does not keep them.
        factor: the attention factor.
        turns: positions, `(length,)` or `(axes, length)`, and queries before and after, `(..., length, width)`; one for
            each form of its arguments that it accepts.
    """

    frequencies: np.ndarray | None
    factor: float
    turns: list[tuple[Any, np.ndarray, np.ndarray]]


def difference(encoding, theirs):
    """Return in which of frequencies, attention factor and rotated queries the two differ; empty if in none."""
    if theirs.frequencies is not None and not _same_frequencies(encoding, theirs.frequencies):
        return "frequencies"
    if not np.isclose(encoding.attention_factor, theirs.factor, rtol=1e-6, atol=0):
        return f"attention factor {theirs.factor:.6g}, not {encoding.attention_factor:.6g}"
    if not theirs.turns:
        return "no call of its rotation is accepted"
    return "" if any(_same_turn(encoding, *turn) for turn in theirs.turns) else "rotated queries"


def _same_frequencies(encoding, frequencies):
    """Return whether the frequencies are the same, in any order; each axis may have all of them."""
    ours, slack = encoding.frequencies(), frequency_slack(encoding)
    near = np.abs(ours[:, None] - frequencies[None]) <= slack[:, None]
    return bool(near.any(1).all() and near.any(0).all())


def _same_turn(encoding, positions, before, after):
    ours = rotated(before, encoding.cos_sin(positions), encoding)
    angles = angle_slack(encoding, positions)
    if np.issubdtype(np.asarray(positions).dtype, np.floating):  # sums in float32 of numbers of up to 2
        angles = angles + 4 * UNIT * encoding.frequencies()
    return bool(np.all(np.abs(ours - after) <= pair_slack(before, encoding, angles)))
