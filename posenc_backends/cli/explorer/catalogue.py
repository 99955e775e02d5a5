"""The encodings and scalings that the explorer offers, and the first values of their fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_core import encodings, scaling
from posenc_core.analysis.curves import plain_rope
from posenc_core.encodings import Encoding, Rotary
from posenc_core.encodings.examples import FIELDS, example
from posenc_core.scaling import Scaling

SIZES = {  # of the encodings that are drawn first
    "dim": 64, "head_dim": 64, "num_heads": 8, "hidden": 32, "max_distance": 1024, "chunk_size": 48, "local_size": 16,
}  # fmt: skip
GROUPS = (
    "added to embeddings", "rotary", "rotary, at remapped positions", "images, video and points", "added to scores",
    "factors of queries", "learned, with initial parameters",
)  # fmt: skip


def first_of(name: str, **fields: Any) -> Encoding:
    """Return the encoding of this name that is drawn first, with these fields."""
    window = 32 if callable(FIELDS.get(name, {}).get("rotary")) else (7, 7)
    return example(name, **SIZES | {"window": window} | fields)


def group_of(encoding: Encoding) -> str:
    """Return the group that an encoding is offered in."""
    if encoding.layer_name == "QueryScaling":
        return "factors of queries"
    if encoding.needs_attention:
        return "rotary, at remapped positions"
    if encoding.parameters():
        return "learned, with initial parameters"
    if is_image(encoding):
        return "images, video and points"
    groups = {"PositionalEncoding": "added to embeddings", "RotaryEmbedding": "rotary"}
    return groups.get(encoding.layer_name, "added to scores")


def is_image(encoding: Encoding) -> bool:
    """Return whether an encoding is drawn for the cells of an image."""
    return encoding.num_axes > 1 or isinstance(getattr(encoding, "window", None), tuple)


def has_heads(encoding: Encoding) -> bool:
    """Return whether the heads of an encoding differ, so that one is drawn."""
    return encoding.layer_name == "AttentionBias" or encoding.table_heads is not None


def drawn_rope(encoding: Encoding) -> Rotary | None:
    """Return the RoPE with the frequencies of an encoding; None without one, or where positions are coordinates."""
    return None if encoding.uses_coordinates else plain_rope(encoding)


# Without encodings that add to the scores what depends on queries and keys.
_FIRST = [first_of(name) for name in encodings.NAMES if not getattr(encodings, name).uses_content]
FIRST: dict[str, Encoding] = {
    type(encoding).__name__: encoding
    for encoding in sorted(_FIRST, key=lambda encoding: GROUPS.index(group_of(encoding)))
}
KINDS: dict[str, type[Encoding]] = {name: type(encoding) for name, encoding in FIRST.items()}
SCALINGS: dict[str, type[Scaling]] = {name: getattr(scaling, name) for name in scaling.NAMES}


def has_as_many_positions_as_its_length(name: str) -> bool:
    """Return whether the field `length` of an encoding is the number of its positions."""
    first = FIRST.get(name)
    return first is not None and first.limit == getattr(first, "length", None)


def initial_parameters(encoding: Encoding) -> dict[str, Any]:
    """Return numbers of each parameter, from the distribution that a layer starts from, with seed 0."""
    generator = np.random.default_rng(0)
    return {
        name: parameter.initial(generator.standard_normal(parameter.shape)).astype(np.float32)
        for name, parameter in encoding.parameters().items()
    }


def divisors(given: tuple[float, ...], pairs: int) -> tuple[float, ...]:
    """Return a divisor for each frequency; one or two numbers stand for the first and the last, in equal ratios.

    >>> divisors((1.0, 4.0), 3)
    (1.0, 2.0, 4.0)
    """
    if len(given) > 2 or len(given) == pairs:
        return given
    return tuple(np.geomspace(given[0], given[-1], pairs).tolist())
