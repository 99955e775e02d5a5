"""The encodings that a config, or one encoding in its place, gives to the layers and the tokens of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from posenc_core._array_api.checks import shown
from posenc_core.encodings import (
    Additive,
    Encoding,
    PositionScoring,
    QueryEncoding,
    RotaryEncoding,
)
from posenc_core.encodings.notation import parse
from posenc_core.huggingface import PositionEncodings, load_layers, load_position
from posenc_core.huggingface.facts.scores import DIVIDED
from posenc_core.huggingface.indexer import INDEXER
from posenc_core.huggingface.load_query_scale import list_query_scales

TOKENS, ATTENTION = "tokens", "self-attention"


class LayerEncodings(NamedTuple):
    """The encodings of a layer, each None without one.

    Attributes:
        rotary: rotates queries and keys.
        bias: is added to scores.
        scale: multiplies queries.
        indexer: rotates queries and keys of the indexer.
    """

    rotary: Any = None
    bias: Any = None
    scale: Any = None
    indexer: Any = None

    def __str__(self) -> str:
        rotary = "no rotation" if self.rotary is None else repr(self.rotary)
        others = {"bias": self.bias, "factor of queries": self.scale, "indexer": self.indexer}
        return ", ".join([rotary, *(f"{name} {one!r}" for name, one in others.items() if one is not None)])


class Expected:
    """The encodings of a model.

    Args:
        rotary: of each layer, or one for all layers.
        parts: all encodings, by the part of the model; "" is the whole.
        scales, indexers: of each layer; empty if no layer has one.
        remarks: what was warned of, and what is not judged.
    """

    def __init__(
        self,
        rotary: Any,
        parts: Mapping[str, PositionEncodings],
        scales: tuple[Any, ...] = (),
        indexers: tuple[Any, ...] = (),
        remarks: tuple[str, ...] = (),
    ) -> None:
        self.rotary, self.parts, self.scales, self.indexers = rotary, parts, scales, indexers
        self.remarks = [*remarks, *(f"not judged: {one}" for part in parts.values() for one in _not_judged(part))]

    @property
    def num_axes(self) -> int:
        """The number of axes of positions."""
        layers = self.rotary if isinstance(self.rotary, tuple) else (self.rotary,)
        return max((one.num_axes for one in layers if one is not None), default=1)

    @property
    def limit(self) -> int | None:
        """The number of positions that the smallest learned table has; None without one."""
        tables = (one for part in self.parts for one in self.tables(part))
        return min((one.limit for one in tables if one.parameters()), default=None)

    def part_of(self, module: str) -> str:
        """Return the part of the model that a module stands in."""
        names = module.split(".")
        return next((part for part in self.parts if part in names), "")

    def start(self, part: str) -> int:
        """Return the position of the first token, for the table of this part."""
        return self.parts[part].start if part in self.parts else 0

    def divides_bias(self, part: str) -> bool:
        """Return whether a bias is divided by the root of the width of a head, and its slopes are in bfloat16."""
        return part in self.parts and DIVIDED in self.parts[part].notes

    def tables(self, part: str) -> list[Additive]:
        """Return the encodings that are added to tokens."""
        added = self.parts[part].additive if part in self.parts else ()
        return [encoding for name, encoding in added if name == TOKENS]

    def layer(self, part: str, number: int) -> LayerEncodings | None:
        """Return the encodings of a layer; None if the config does not describe it."""
        rotary = self.rotary
        if isinstance(rotary, tuple):
            if number >= len(rotary):
                return None
            rotary = rotary[number]
        scoring = self.parts[part].scoring if part in self.parts else ()
        bias = next((one for name, one in scoring if name == ATTENTION and isinstance(one, PositionScoring)), None)
        scale, indexer = (layers[number] if number < len(layers) else None for layers in (self.scales, self.indexers))
        return LayerEncodings(rotary, bias, scale, indexer)


def expect(config: Any, spec: Encoding | str | None) -> Expected:
    """Return the encodings of a config, or those of a model that has one encoding.

    Raises:
        TypeError, ValueError: as in `check_model`.
    """
    if spec is not None:
        encoding = parse(spec) if isinstance(spec, str) else spec
        if isinstance(encoding, RotaryEncoding):
            return Expected(encoding, {})
        if isinstance(encoding, Additive):
            return Expected(None, {"": PositionEncodings(additive=((TOKENS, encoding),))})
        if isinstance(encoding, PositionScoring):
            return Expected(None, {"": PositionEncodings(scoring=((ATTENTION, encoding),))})
        raise TypeError(f"`spec` must be rotary, additive or a bias of positions, got {shown(encoding)}.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = _from_config(config)
    found.remarks[:0] = dict.fromkeys(str(one.message) for one in caught)
    return found


def _from_config(config: Any) -> Expected:
    try:
        position = load_position(config)
    except ValueError as error:  # of a model that only `load_layers` knows
        return Expected(load_layers(config), {}, remarks=(f"not judged: biases and tables, as {error}",))
    parts = {name: part for name, part in position.parts if name != INDEXER}
    whole = next((part for name, part in parts.items() if name == "text"), position)
    every = (position, *parts.values())
    rotary: Any = load_layers(config) if any(part.rotary for part in every) else None
    scales = list_query_scales(config) if any(isinstance(part.query_scale, QueryEncoding) for part in every) else ()
    has_indexer = any(name == INDEXER for part in every for name, _ in part.parts)
    indexers = load_layers(config, part=INDEXER) if has_indexer else ()
    return Expected(rotary, parts | {"": whole}, scales, indexers)


def _not_judged(part: PositionEncodings) -> list[str]:
    """Return the encodings of a part that no product or sum shows alone."""
    added = [f"{one!r}, which is added to {name}" for name, one in part.additive if name != TOKENS]
    biases = [
        f"{one!r} of {name}" for name, one in part.scoring if name != ATTENTION or not isinstance(one, PositionScoring)
    ]
    scale = part.query_scale
    learned = [f"{scale!r}, whose numbers are learned"] if scale and scale.parameters() else []
    return [*added, *biases, *learned, *part.lacks]
