"""The facts that a framework gives of a model: the same for all."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]


class Call(NamedTuple):
    """A call of a model.

    Attributes:
        tokens: `(rows, length)`, all the same token.
        positions: `(rows, length)`, or `(axes, rows, length)`; None to leave them to the model.
        cache: what an earlier call returned.
        has_cache: whether to ask for a cache.
    """

    tokens: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64] | None
    cache: Any = None
    has_cache: bool = False


class Product(NamedTuple):
    """Queries and keys that a model multiplies.

    Attributes:
        name: the module that does.
        q, k: `(rows, heads, length, width)`.
        bias: what is added to their products, if it is given to the same function; None if nothing is.
        follows_positions: whether the hidden states that the layer is given depend on positions.
    """

    name: str
    q: Float64s
    k: Float64s
    bias: Float64s | None
    follows_positions: bool = False


def layer_number(module: str) -> int | None:
    """Return the number of a layer in the name of a module; None if the name has no number."""
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", module)
    return None if number is None else int(number[1])


class Buffer(NamedTuple):
    """A buffer of one axis that no checkpoint has: its name and its numbers."""

    name: str
    numbers: Float64s


class ModelAdapter(Protocol):
    """Runs a model of a framework; see `TorchModel`, which has the descriptions."""

    dtype: str
    token: int
    has_sine_first: bool
    reads_sine_first: bool

    @property
    def takes_positions(self) -> bool: ...

    @property
    def takes_cache(self) -> bool: ...

    def run(self, call: Call, *, is_rotated: bool = True) -> tuple[list[Product], Any]: ...

    def list_idle(self) -> list[tuple[str, str]]: ...

    def buffers(self) -> list[Buffer]: ...
