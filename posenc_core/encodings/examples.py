"""One small example of each encoding, by name, for tests, benchmarks and pictures that go over all encodings."""

from __future__ import annotations

from inspect import signature
from typing import Any

from .. import encodings
from .base import Encoding
from .rotary.rotary import Rotary


def _rotary(sizes: dict[str, Any]) -> Rotary:
    return Rotary(head_dim=sizes["head_dim"], layout=sizes["layout"])


def _sections(pairs: int) -> tuple[int, int, int]:
    """Return the pairs of time, height and width, in about the proportions of Qwen3-VL."""
    axis = pairs * 5 // 16
    return pairs - 2 * axis, axis, axis


SIZES = {"dim": 12, "head_dim": 8, "num_heads": 2, "length": 64, "layout": "half"}
FIELDS: dict[str, dict[str, Any]] = {  # which some must be given beside sizes, or whose default is large
    "AxialRotary": {"axes_dims": lambda sizes: (sizes["head_dim"] // 4 * 2, (sizes["head_dim"] + 2) // 4 * 2)},
    "Cope": {"max_position": 4},
    "DebertaBias": {"max_distance": 3},
    "DecomposedBias": {"window": (2, 4)},
    "DualChunk": {"rotary": _rotary, "chunk_size": 8, "local_size": 2},
    "DynamicPositionBias": {"hidden": 4},
    "Fire": {"hidden": 4},
    "FoPE": {"num_terms": 2, "length": None},
    "ForgettingBias": {"gate_bias": 1},
    "FourierFeatures": {"num_axes": 2},
    "GridSinusoidal": {"convention": "mae"},
    "LeakyReRoPE": {"rotary": _rotary, "window": 4, "factor": 2},
    "MultimodalRotary": {"sections": lambda sizes: _sections(sizes["head_dim"] // 2)},
    "QueryScale": {"scale": 0.1},
    "RandomFourierFeatures": {"scale": 1.0, "seed": 0, "num_axes": 2},
    "ReRoPE": {"rotary": _rotary, "window": 4},
    "RelativeLogits": {"max_distance": 3, "num_curves": 2},
    "Sandwich": {"max_distance": 9, "dim": 6},
    "SelfExtend": {"rotary": _rotary, "window": 4, "group_size": 2},
    "ShawBias": {"max_distance": 3},
    "Sine": {"frequencies": "endpoint"},
    "SwinBias": {"window": (2, 4)},
    "SwinV2Bias": {"window": (2, 4), "hidden": 4},
    "T5Bias": {"num_buckets": 6, "max_distance": 4},
    "TransformerXLBias": {"max_distance": 8, "dim": None},
}


def example(name: str, **fields: Any) -> Encoding:
    """Return the example of an encoding.

    Args:
        name: the name of its class.
        fields: sizes, in place of those of `SIZES`, and fields, in place of those of `FIELDS`; those that the class
            does not have are left out.

    >>> example("Alibi", num_heads=4, head_dim=8)
    Alibi(num_heads=4)
    """
    cls = getattr(encodings, name)
    sizes = {size: fields.pop(size, usual) for size, usual in SIZES.items()}
    given = sizes | FIELDS.get(name, {}) | fields
    known = {field: given[field] for field in signature(cls).parameters if field in given}
    made: Encoding = cls(**{field: value(sizes) if callable(value) else value for field, value in known.items()})
    return made


def examples(kind: type[Encoding] = Encoding, **fields: Any) -> list[Encoding]:
    """Return the example of each encoding of a kind, in the order of their names; `fields` as in `example`."""
    return [example(name, **fields) for name in encodings.NAMES if issubclass(getattr(encodings, name), kind)]
