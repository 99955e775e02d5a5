"""The facts that a framework gives of a model: the same for all."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]
HIDDEN = -9000.0  # scores below are those of keys that a mask hides


class Call(NamedTuple):
    """A call of a model.

    Attributes:
        tokens: `(rows, length)`, all the same token.
        positions: `(rows, length)`, or `(axes, rows, length)`; None to leave them to the model.
        cache: what an earlier call returned.
        has_cache: whether to ask for a cache.
        with_scores: whether products must have the scores of some queries.
    """

    tokens: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64] | None
    cache: Any = None
    has_cache: bool = False
    with_scores: bool = False

    @property
    def queries(self) -> npt.NDArray[np.int64]:
        """The tokens whose scores are read: the first two, one in the middle, and the last."""
        length = self.tokens.shape[1]
        return np.unique([0, min(1, length - 1), length // 2, length - 1])


class Product(NamedTuple):
    """Queries and keys that a model multiplies.

    Attributes:
        name: the module that does.
        q, k: `(rows, heads, length, width)`.
        scores: what softmax is given for `Call.queries`, or what is added to the products there, whichever the
            framework shows, `(rows, heads, queries, keys)`; None if the call does not ask, or they were not seen.
        follows_positions: whether the hidden states that the layer is given depend on positions.
        is_indexer: whether the products select keys for attention, and no softmax takes them.
    """

    name: str
    q: Float64s
    k: Float64s
    scores: Float64s | None = None
    follows_positions: bool = False
    is_indexer: bool = False


class Addition(NamedTuple):
    """Rows that a model adds to tokens before its first layer.

    Attributes:
        name: the module that does.
        rows: `(rows, length, dim)`.
    """

    name: str
    rows: Float64s


class Trace(NamedTuple):
    """The products and sums of a model in a call, in order.

    Attributes:
        products: of queries and keys, in order.
        additions: rows that are added to tokens.
        layers: whether tokens depend on positions when they enter, of each layer.
        cache: what the model returned, for the next call.
    """

    products: list[Product]
    additions: list[Addition]
    layers: dict[str, bool]
    cache: Any = None


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
    checks_rows: bool

    @property
    def takes_positions(self) -> bool: ...

    @property
    def takes_cache(self) -> bool: ...

    @property
    def needs_positions(self) -> bool: ...

    @property
    def generates(self) -> bool: ...

    def run(self, call: Call, *, is_rotated: bool = True) -> Trace: ...

    def list_idle(self) -> list[tuple[str, str]]: ...

    def buffers(self) -> list[Buffer]: ...

    def weights(self, shape: tuple[int, ...]) -> list[tuple[str, Float64s]]: ...
