"""What the checks of the conformance suite are made of: the layer of an entry, its arrays, and errors in last places."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from posenc_core.encodings import Additive, Encoding, RotaryEncoding
from posenc_core.rotation import channel_pairs

GoldenCase = dict[str, Any]

DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
ROTARY_KINDS = ("Rotary", "XPos", "MultimodalRotary", "AxialRotary", "LearnedRotary")
EXACT = 0.0
CONTRACTED = 1.0  # of the length of the pair: a fused multiply-add leaves out one rounding of a product
LEARNED = 8.0  # six roundings before the sine, of angles to 6, and a sine that each framework rounds as it likes
RESIZED = {"float32": 4.0, "float16": 1.0, "bfloat16": 1.0}  # some ten roundings to float32 on each axis, and one more


class BackendUnderTest(NamedTuple):
    """A backend, and what the suite needs of its framework: how to test a layer, and what its own tools do with one."""

    backend: ModuleType
    testing: ModuleType

    @property
    def known_failures(self) -> dict[str, str]:
        """What the framework cannot do, with the reason."""
        return self.testing.KNOWN_FAILURES


class Measurement(NamedTuple):
    """The worst error of a case and what is allowed, in units in the last place."""

    worst: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is within what is allowed; NaN is not."""
        return self.worst <= self.limit


def ulps(to_backend: Any, golden: Any, *, dtype: str = "float32", scale: Any = None) -> float:
    """The worst difference, in units in the last place of the golden numbers, or of `scale`, in this dtype."""
    got, wanted = np.asarray(to_backend, np.float64), np.asarray(golden, np.float64)
    if got.shape != wanted.shape:
        raise ValueError(f"Expected shape {wanted.shape}, got {got.shape}.")
    return float(np.max(np.abs(got - wanted) / last_places(wanted if scale is None else scale, dtype), initial=0))


def last_places(numbers: Any, dtype: str) -> Any:
    """The unit in the last place of each number, in this dtype; of very small ones, that of the smallest normal float32."""
    size = np.maximum(np.abs(numbers), np.finfo(np.float32).tiny)
    return 2.0 ** (np.floor(np.log2(size)) + 1 - DIGITS[dtype])


def batch(on: BackendUnderTest, golden_case: GoldenCase, name: str) -> Any:
    """The numbers of an entry as float32 tokens of a batch of one."""
    return on.backend.from_numpy(np.array([golden_case[name]], np.float32))


def near(on: BackendUnderTest, got: Any, golden: Any) -> Measurement:
    """How far a result is off, in units in the last place of its largest number."""
    largest = np.full(np.shape(golden), np.max(np.abs(golden)))
    return Measurement(ulps(on.backend.to_numpy(got), golden, scale=largest), LEARNED)


def layer_of(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    """The room's layer for the encoding of an entry."""
    encoding = Encoding.from_dict(golden_case["encoding"])
    if isinstance(encoding, Additive):
        return on.backend.PositionalEncoding(encoding.dim, encoding=encoding)
    return (on.backend.RotaryEmbedding if isinstance(encoding, RotaryEncoding) else on.backend.AttentionBias)(encoding)


def zeros(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    """Scores of zero, `(1, heads, queries, keys)`, in the dtype of an entry."""
    return on.testing.cast(
        on.backend.from_numpy(np.zeros((1, *np.shape(golden_case["bias"])), np.float32)), golden_case["dtype"]
    )


def tokens(on: BackendUnderTest, golden_case: GoldenCase, name: str) -> Any:
    """Tokens `(1, …, length, width)` in the dtype of an entry, made from float64 without a second rounding."""
    array = np.array(golden_case[name])[None]
    wide = array if golden_case["dtype"] == "float64" else array.astype(np.float32)
    return on.testing.cast(on.backend.from_numpy(wide), golden_case["dtype"])


def rotated(on: BackendUnderTest, got: Any, golden_case: GoldenCase, rows: Any = slice(None)) -> Measurement:
    """How far tokens are off that compiled code may have rotated with contracted products; sums have none."""
    if not on.testing.CONTRACTS or golden_case["encoding"]["kind"] not in ROTARY_KINDS:
        return Measurement(off(on, got, golden_case, "result", rows), EXACT)
    lengths = pair_lengths(RotaryEncoding.from_dict(golden_case["encoding"]), np.array(golden_case["result"]))
    return Measurement(off(on, got, golden_case, "result", rows, lengths[rows]), CONTRACTED)


def pair_lengths(encoding: RotaryEncoding, turned: Any) -> Any:
    """The length of the pair that each channel of turned tokens is in: by it errors are measured; of others, their size."""
    way, lengths = encoding.pairing, np.abs(turned)
    first, second = channel_pairs(encoding.head_dim, encoding.pairs, way, way.join)
    lengths[..., first] = lengths[..., second] = np.hypot(turned[..., first], turned[..., second])
    return lengths


def off(
    on: BackendUnderTest, got: Any, golden_case: GoldenCase, name: str, rows: Any = slice(None), scale: Any = None
) -> float:
    """How far a result is off from the golden numbers of this name, in units in the last place of its dtype."""
    if str(golden_case["dtype"]) not in str(got.dtype):
        raise TypeError(f"Expected {golden_case['dtype']}, got {got.dtype}.")
    wanted = np.array(golden_case[name])[rows]
    return ulps(on.backend.to_numpy(got)[0][rows], wanted, dtype=golden_case["dtype"], scale=scale)
