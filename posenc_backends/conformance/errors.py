"""What the checks of the conformance suite are made of: the layer of an entry, its arrays, and errors in last places."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from posenc_core.encodings import Additive, Encoding, Rotating
from posenc_core.rotation import channel_pairs

Entry = dict[str, Any]

DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
ROTARY_KINDS = ("Rotary", "XPos", "MultimodalRotary", "AxialRotary", "LearnedRotary")
EXACT = 0.0
CONTRACTED = 1.0  # of the length of the pair: a fused multiply-add leaves out one rounding of a product
LEARNED = 8.0  # six roundings before the sine, of angles to 6, and a sine that each framework rounds as it likes
RESIZED = {"float32": 4.0, "float16": 1.0, "bfloat16": 1.0}  # some ten roundings to float32 on each axis, and one more


class Subject(NamedTuple):
    """A room, with what the suite asks of its framework, and what its framework's tools do with a layer."""

    room: ModuleType
    harness: ModuleType
    modes: ModuleType


class Outcome(NamedTuple):
    """The worst error of a case and what is allowed, in units in the last place."""

    worst: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is within what is allowed; NaN is not."""
        return self.worst <= self.limit


def ulps(native: Any, golden: Any, *, dtype: str = "float32", scale: Any = None) -> float:
    """The worst difference, in units in the last place of the golden numbers, or of `scale`, in this dtype."""
    got, wanted = np.asarray(native, np.float64), np.asarray(golden, np.float64)
    if got.shape != wanted.shape:
        raise ValueError(f"Expected shape {wanted.shape}, got {got.shape}.")
    return float(np.max(np.abs(got - wanted) / last_places(wanted if scale is None else scale, dtype), initial=0))


def last_places(numbers: Any, dtype: str) -> Any:
    """The unit in the last place of each number, in this dtype; of very small ones, that of the smallest normal float32."""
    size = np.maximum(np.abs(numbers), np.finfo(np.float32).tiny)
    return 2.0 ** (np.floor(np.log2(size)) + 1 - DIGITS[dtype])


def batch(on: Subject, entry: Entry, name: str) -> Any:
    """The numbers of an entry as float32 tokens of a batch of one."""
    return on.room.from_numpy(np.array([entry[name]], np.float32))


def near(on: Subject, got: Any, golden: Any) -> Outcome:
    """How far a result is off, in units in the last place of its largest number."""
    largest = np.full(np.shape(golden), np.max(np.abs(golden)))
    return Outcome(ulps(on.room.to_numpy(got), golden, scale=largest), LEARNED)


def layer_of(on: Subject, entry: Entry) -> Any:
    """The room's layer for the encoding of an entry."""
    encoding = Encoding.from_dict(entry["encoding"])
    if isinstance(encoding, Additive):
        return on.room.PositionalEncoding(encoding.dim, encoding=encoding)
    return (on.room.RotaryEmbedding if isinstance(encoding, Rotating) else on.room.AttentionBias)(encoding)


def zeros(on: Subject, entry: Entry) -> Any:
    """Scores of zero, `(1, heads, queries, keys)`, in the dtype of an entry."""
    return on.harness.cast(on.room.from_numpy(np.zeros((1, *np.shape(entry["bias"])), np.float32)), entry["dtype"])


def tokens(on: Subject, entry: Entry, name: str) -> Any:
    """Tokens `(1, …, length, width)` in the dtype of an entry, made from float64 without a second rounding."""
    array = np.array(entry[name])[None]
    wide = array if entry["dtype"] == "float64" else array.astype(np.float32)
    return on.harness.cast(on.room.from_numpy(wide), entry["dtype"])


def rotated(on: Subject, got: Any, entry: Entry, rows: Any = slice(None)) -> Outcome:
    """How far tokens are off that compiled code may have rotated with contracted products; sums have none."""
    if not on.harness.CONTRACTS or entry["encoding"]["kind"] not in ROTARY_KINDS:
        return Outcome(off(on, got, entry, "result", rows), EXACT)
    lengths = pair_lengths(Rotating.from_dict(entry["encoding"]), np.array(entry["result"]))
    return Outcome(off(on, got, entry, "result", rows, lengths[rows]), CONTRACTED)


def pair_lengths(encoding: Rotating, turned: Any) -> Any:
    """The length of the pair that each channel of turned tokens is in: by it errors are measured; of others, their size."""
    way, lengths = encoding.pairing, np.abs(turned)
    first, second = channel_pairs(encoding.head_dim, encoding.pairs, way, way.join)
    lengths[..., first] = lengths[..., second] = np.hypot(turned[..., first], turned[..., second])
    return lengths


def off(on: Subject, got: Any, entry: Entry, name: str, rows: Any = slice(None), scale: Any = None) -> float:
    """How far a result is off from the golden numbers of this name, in units in the last place of its dtype."""
    if str(entry["dtype"]) not in str(got.dtype):
        raise TypeError(f"Expected {entry['dtype']}, got {got.dtype}.")
    wanted = np.array(entry[name])[rows]
    return ulps(on.room.to_numpy(got)[0][rows], wanted, dtype=entry["dtype"], scale=scale)
