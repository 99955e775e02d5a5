"""A view: an encoding, the tokens that are drawn, and the numbers of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core import grid, normalized_grid
from posenc_core.encodings import Additive, Encoding, Placed, PositionScoring, Rotary
from posenc_core.encodings.attention_encoding import QueryKeyEncoding

from .catalogue import drawn_rope, has_heads, initial_parameters, is_image

MOST_IN_MAP = 144  # rows and columns of a map of scores; more would only be slow


@dataclass(frozen=True, kw_only=True)
class View:
    """An encoding and what the pictures show of it.

    Attributes:
        encoding: the encoding.
        length: number of positions; of an image, the number of its patches.
        side: height and width of an image, in patches.
        pair: the pair that is shown; the last one if there are fewer.
        head: the head whose scores are shown; the last one if there are fewer.
        cell: the patch that others are compared with; the last one if there are fewer.
        position: the position that the pair is shown at; the last one if there are fewer.
    """

    encoding: Encoding
    length: int = 128
    side: int = 12
    pair: int = 0
    head: int = 0
    cell: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        length = math.prod(self.shape) if self.is_image else self.length
        object.__setattr__(self, "length", max(min(length, self.encoding.limit), 1))
        object.__setattr__(self, "cell", min(self.cell, self.length - 1))
        object.__setattr__(self, "position", min(self.position, self.length - 1))
        if self.has_heads:
            object.__setattr__(self, "head", min(self.head, getattr(self.encoding, "num_heads", 1) - 1))
        if (rotary := self.rotary) is not None:
            object.__setattr__(self, "pair", min(self.pair, len(rotary.frequencies()) - 1))

    @property
    def has_heads(self) -> bool:
        """Whether heads differ, so that one is drawn."""
        return has_heads(self.encoding)

    @property
    def rotary(self) -> Rotary | None:
        """The RoPE with its frequencies; None where it has none, or positions are not whole numbers."""
        return drawn_rope(self.encoding)

    @property
    def is_image(self) -> bool:
        """Whether the tokens are the patches of an image."""
        return is_image(self.encoding)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the image; one row if the encoding has a single axis."""
        if isinstance(window := getattr(self.encoding, "window", None), tuple):
            return window
        return (self.side, self.side) if self.encoding.num_axes > 1 else (1, self.side)

    def positions(self) -> npt.NDArray[Any]:
        """Return the positions of the tokens: `(length,)`, or `(axes, length)` for several axes.

        An image is one frame, at time 0. Coordinates that are not counted in patches go from -1 to 1.
        """
        is_real = self.encoding.uses_coordinates
        if self.encoding.num_axes == 1:
            return normalized_grid(self.length)[0] if is_real else np.arange(self.length)
        sizes = (1,) * (self.encoding.num_axes - 2) + self.shape
        return normalized_grid(*sizes) if is_real else grid(*sizes)

    def table(self) -> npt.NDArray[np.float32] | None:
        """Return the table, `(length, columns)`: cosine and sine of each pair in turn where it rotates; None if none.

        Learned parameters have the numbers that they start from.
        """
        encoding: Any = self.encoding
        if isinstance(encoding, Additive):
            if "table" in encoding.parameters():
                return initial_parameters(encoding)["table"][encoding.offset :][: self.length]
            return self._rows()[0] if encoding.computes_rows else encoding.table(self.positions())
        if encoding.layer_name != "RotaryEmbedding" or encoding.needs_attention:
            return None
        cos_sin = self._rows() if encoding.computes_rows else encoding.cos_sin(self.positions())
        tables: tuple[Any, ...] = encoding.mixed(initial_parameters(encoding), cos_sin)
        if self.has_heads:
            tables = tuple([table[self.head] for table in tables])
        return np.stack(tables, axis=-1).reshape(self.length, -1)

    def _rows(self) -> tuple[Any, ...]:
        weights: Mapping[str, Any] = self.encoding.constants(1) | initial_parameters(self.encoding)
        return self.encoding.rows_of(weights, self.positions())  # type: ignore[attr-defined]

    def scores(self, queries: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return what the positions of tokens make of the scores of these queries and keys: `(queries, keys)`.

        Where it rotates, the product of a query and a key of ones, divided by their width, and NaN for keys that are
        hidden; where it adds to the scores, what it adds; where it adds to embeddings, the product of the rows divided
        by the mean product of a row with itself, so that both are 1 at distance 0.
        """
        encoding, positions = self.encoding, self.positions()
        if isinstance(encoding, PositionScoring):
            return self.biases(queries, keys)[self.head]
        if isinstance(encoding, QueryKeyEncoding):
            heads = getattr(encoding, "num_heads", None) or 1
            q, k = (np.ones((heads, len(tokens), encoding.head_dim)) for tokens in (queries, keys))
            placed = Placed(encoding, positions[..., queries], positions[..., keys], initial_parameters(encoding))
            products = np.asarray(placed.products(*placed.rotate(q, k)), np.float64)[min(self.head, heads - 1)]
            return np.where(np.isinf(products), np.nan, products / encoding.head_dim)
        table = self.table()
        if table is None:
            raise TypeError(f"`encoding` must have a table or scores, got {encoding!r}.")
        own = float((table * table).sum(-1).mean()) or 1.0
        return (table[queries] @ table[keys].T).astype(np.float64) / own

    def biases(self, queries: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return what a scoring encoding adds to the scores: `(heads, queries, keys)`."""
        weights: Mapping[str, Any] = self.encoding.constants(self.length) | initial_parameters(self.encoding)
        positions = self.positions()
        scores: Any = self.encoding.score(weights, positions[queries], positions[keys])  # type: ignore[attr-defined]
        return np.asarray(scores, np.float64)

    def sample(self) -> npt.NDArray[np.int64]:
        """Return the tokens that a map of scores shows: all, or every second, third … of many."""
        return np.arange(0, self.length, -(-self.length // MOST_IN_MAP))
