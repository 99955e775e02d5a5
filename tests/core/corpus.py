"""Implementations with listed mistakes, written apart from the hypotheses of `check`: each changes some knobs."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from posenc_backends.check import diagnosis
from posenc_core import Rotary

WIDTH, ROTATED = 32, 16
SPEC = Rotary(head_dim=WIDTH, layout="half", rotary_dim=ROTATED, base=500000.0)


class Knobs(NamedTuple):
    """How a rotation is computed; the defaults are those of `SPEC`."""

    pairs: str = "half"
    columns: str = ""  # the layout of the table, if it is another than that of the pairs
    sign: int = 1
    base: float = 500000.0
    denominator: float = ROTATED
    step: float = 2
    shift: int = 0
    count: bool = False
    swapped: bool = False
    factor: float = 1.0
    times: int = 1
    place: str = "lead"
    positions: Any = np.float64
    frequencies: Any = np.float64
    angles: Any = np.float64
    table_end: int = 0
    past: str = ""
    first_row: bool = False
    first_head: bool = False
    reverse: bool = False


def shorten_search(monkeypatch, most=300):
    """Let `check` try few hypotheses on each call: before those of pairs, and before what is measured if none fits."""
    mistakes = diagnosis.mistakes_to_try
    monkeypatch.setattr(diagnosis, "mistakes_to_try", lambda *given: itertools.islice(mistakes(*given), most))


def bfloat16(numbers):
    bits = np.asarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


MISTAKES = {  # name: knobs
    "layout swapped": {"pairs": "interleaved"},
    "table and rotation of different layouts": {"columns": "interleaved"},
    "sign flipped": {"sign": -1},
    "base ignored": {"base": 10000.0},
    "wrong base": {"base": 1e6},
    "wrong denominator": {"denominator": WIDTH},
    "positions off by one": {"shift": 1},
    "positions ignored": {"count": True},
    "positions reversed": {"reverse": True},
    "cos and sin swapped": {"swapped": True},
    "attention factor doubled": {"factor": 2.0},
    "rotated twice": {"times": 2},
    "placement swapped": {"place": "trail"},
    "float32 angles": {"angles": np.float32, "frequencies": np.float32},
    "bfloat16 frequencies": {"frequencies": bfloat16, "angles": np.float32},
    "float16 frequencies": {"frequencies": np.float16, "angles": np.float32},
    "bfloat16 positions": {"positions": bfloat16},
    "positions clamped": {"table_end": 2048, "past": "clamp"},
    "positions wrapped": {"table_end": 2048, "past": "wrap"},
    "not rotated past the end of a table": {"table_end": 2048, "past": "identity"},
    "only the first row of the batch": {"first_row": True},
    "only the first head": {"first_head": True},
}


def pairs_of_mistakes():
    """Return every two names whose knobs differ, but for those that together are a single other mistake.

    A base with another denominator is another base; whoever ignores positions has no end of a table, and rotates
    one token alone by 0.
    """
    of_the_end = [name for name, knobs in MISTAKES.items() if "table_end" in knobs]
    alone = [{"base ignored", "wrong denominator"}, {"wrong base", "wrong denominator"}]
    alone += [{"positions ignored", name} for name in (*of_the_end, "positions reversed", "bfloat16 positions")]
    alone += [{"positions ignored", "only the first row of the batch"}]
    return [
        (one, other)
        for one, other in itertools.combinations(MISTAKES, 2)
        if not MISTAKES[one].keys() & MISTAKES[other].keys() and {one, other} not in alone
    ]


def function_of(*names, keys=None):
    """Return a rotation with these mistakes, of its keys with those of `keys`, by default the same."""
    knobs = Knobs(**{name: value for one in names for name, value in MISTAKES[one].items()})
    of_keys = knobs if keys is None else Knobs(**{name: value for one in keys for name, value in MISTAKES[one].items()})

    def rope(q, k, positions):
        return rotated(q, positions, knobs), rotated(k, positions, of_keys)

    return rope


def rotated(x, positions, knobs):
    result = x.astype(np.float64)
    for _ in range(knobs.times):
        result = once(result, positions, knobs)
    if knobs.first_row and x.shape[2] == 1:
        result[1:] = x[1:]
    if knobs.first_head:
        result[:, 1:] = x[:, 1:]
    return result.astype(x.dtype)


def once(x, positions, knobs):
    cos, sin = (table if table.ndim == 2 else table[:, None] for table in table_of(positions, knobs))
    half, interleaved = np.arange(ROTATED) % (ROTATED // 2), np.arange(ROTATED) // 2
    layout = knobs.pairs if not knobs.columns else {"half": "interleaved", "interleaved": "half"}[knobs.pairs]
    columns = half if layout == "half" else interleaved
    first = 0 if knobs.place == "lead" else WIDTH - ROTATED
    part, result = x[..., first : first + ROTATED], x.copy()
    if knobs.pairs == "half":
        partner = np.concatenate([-part[..., ROTATED // 2 :], part[..., : ROTATED // 2]], axis=-1)
    else:
        partner = np.stack([-part[..., 1::2], part[..., 0::2]], axis=-1).reshape(part.shape)
    result[..., first : first + ROTATED] = part * cos[..., columns] + partner * sin[..., columns]
    return result


def table_of(positions, knobs):
    if knobs.reverse:
        positions = positions[..., ::-1]
    if knobs.count:
        positions = np.broadcast_to(np.arange(positions.shape[-1]), positions.shape)
    positions = positions + knobs.shift
    past = positions >= knobs.table_end if knobs.table_end else np.zeros(positions.shape, bool)
    if knobs.past == "clamp":
        positions = np.minimum(positions, knobs.table_end - 1)
    elif knobs.past == "wrap":
        positions = positions % knobs.table_end
    exponents = np.arange(ROTATED // 2) * knobs.step / knobs.denominator
    frequencies = np.asarray(knobs.frequencies(knobs.base**-exponents), np.float64)
    angles = np.asarray(
        knobs.angles(np.asarray(knobs.positions(positions), float).reshape(*positions.shape, 1) * frequencies), float
    )
    cos, sin = np.cos(angles) * knobs.factor, np.sin(angles) * knobs.factor * knobs.sign
    if knobs.past == "identity":
        cos, sin = np.where(past[..., None], 1, cos), np.where(past[..., None], 0, sin)
    return (sin, cos) if knobs.swapped else (cos, sin)
