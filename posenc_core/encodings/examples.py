"""One small example of each encoding, by name, for tests, benchmarks and pictures that go over all encodings."""

from __future__ import annotations

from inspect import signature
from typing import Any

from .. import encodings
from .base import Encoding
from .rotary.rotary import Rotary

Fields = dict[str, Any]


def _rotary(fields: Fields) -> Rotary:
    return Rotary(**{name: fields[name] for name in ("head_dim", "layout", "base") if name in fields})


def _equal_shares(fields: Fields) -> tuple[int, int]:
    half = 2 * (fields["head_dim"] // 4)
    return fields["head_dim"] - half, half  # both even, so that each even width makes an encoding


def _sections(fields: Fields) -> tuple[int, ...]:
    """Return sections in the proportions of Qwen2-VL, Qwen3-VL and Ernie 4.5 VL."""
    pairs = (fields.get("rotary_dim") or fields["head_dim"]) // 2
    arrangement = fields.get("arrangement", "chunked")
    axis = pairs * {"chunked": 24, "interleaved": 20, "ernie": 22}[arrangement] // 64
    time = pairs - 2 * axis
    return (axis, axis, time) if arrangement == "ernie" else (time, axis, axis)


SIZES: Fields = {"dim": 12, "head_dim": 8, "num_heads": 2, "layout": "half"}
# Fields without a default, or with a large one; a function computes its field from the others.
FIELDS: dict[str, Fields] = {
    "AxialRotary": {"axes_dims": _equal_shares},
    "Cope": {"max_position": 4},
    "DebertaBias": {"max_distance": 3},
    "DecomposedBias": {"window": (2, 4)},
    "DualChunk": {"rotary": _rotary, "chunk_size": 8, "local_size": 2},
    "DynamicPositionBias": {"hidden": 4},
    "Fire": {"hidden": 4},
    "FoPE": {"num_terms": lambda fields: None if fields.get("length") else max(fields["head_dim"] // 4, 1)},
    "ForgettingBias": {"gate_bias": 1},
    "FourierFeatures": {"num_axes": 2},
    "GridSinusoidal": {
        "convention": "mae",
        "num_axes": lambda fields: 3 if fields.get("convention") == "diffusers" else 2,
    },
    "LeakyReRoPE": {"rotary": _rotary, "window": 4, "factor": 2},
    "Learned": {"length": 64},
    "MixedRotary": {
        "rotary_dim": lambda fields: fields["head_dim"] - fields["head_dim"] % (2 * fields.get("num_axes", 2))
    },
    "MultimodalRotary": {"sections": _sections},
    "Normalized": {"length": 64},
    "QueryScale": {"length": 64, "scale": lambda fields: None if fields.get("growth") == "log" else 0.1},
    "RandomFourierFeatures": {"scale": 1.0, "seed": 0, "num_axes": 2},
    "ReRoPE": {"rotary": _rotary, "window": 4},
    "RelativeLogits": {"max_distance": 3, "num_curves": 2},
    "Sandwich": {"max_distance": 9, "dim": 6},
    "SelfExtend": {"rotary": _rotary, "window": 4, "group_size": 2},
    "ShawBias": {"max_distance": 3},
    "Sine": {"frequencies": "powers_of_two"},
    "SwinBias": {"window": (2, 4)},
    "SwinV2Bias": {"window": (2, 4), "hidden": 4},
    "T5Bias": {"num_buckets": 6, "max_distance": 4},
    "TransformerXLBias": {"max_distance": 8, "dim": None},
}


def example(name: str, **fields: Any) -> Encoding:
    """Return the example of an encoding.

    Args:
        name: the name of its class.
        fields: replace those of `SIZES` and `FIELDS`; those that the class does not have are left out.

    >>> example("Alibi", num_heads=4, head_dim=8)
    Alibi(num_heads=4)
    """
    cls, sizes = getattr(encodings, name), SIZES | fields
    given = SIZES | FIELDS.get(name, {}) | fields
    known = {field: given[field] for field in signature(cls).parameters if field in given}
    made: Encoding = cls(**{field: value(sizes) if callable(value) else value for field, value in known.items()})
    return made


def examples(kind: type[Encoding] = Encoding, **fields: Any) -> list[Encoding]:
    """Return the example of each encoding of a kind, in the order of their names; `fields` as in `example`."""
    return [example(name, **fields) for name in encodings.NAMES if issubclass(getattr(encodings, name), kind)]
