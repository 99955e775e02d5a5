"""Rotary encodings whose positions are remapped, so that distances stay within those of training."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_number, check_rank, check_type, shown
from .._array_api.namespace import Array, Weights, dtype_name, namespace_of
from ..attention.masks import causal_checked
from ..attention.relative import Positions
from ..positions.sequences import LIMIT, as_array_like
from ..rotation import Pairing
from ..tables.sincos import DType
from .attention_encoding import QueryKeyEncoding
from .base import Parameter, Tables, TokenRows
from .rotary.base import RotaryEncoding

if TYPE_CHECKING:
    from typing import Self

LARGEST_FACTOR = 2**16


@dataclass(frozen=True, kw_only=True, repr=False)
class RemappedRotary(QueryKeyEncoding):
    """The base class of rotary encodings whose positions are remapped, for causal attention.

    Each pair of a query and a key lies in a region, which says by which remapped positions both are rotated. Attention
    computes one product of queries and keys for each region and takes every score from that of its region. Keys after
    their query are hidden, since no paper says how to remap them.
    """

    rotary: RotaryEncoding

    #: For each region, from near to far: which of the remapped positions rotate queries, and which rotate keys.
    regions: ClassVar[tuple[tuple[int, int], ...]] = ((0, 0), (1, 2))

    needs_attention: ClassVar[bool] = True

    #: The number of remapped positions of a token.
    num_positions: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type("rotary", self.rotary, RotaryEncoding, "a rotary encoding, like Rotary(head_dim=64, layout='half')")
        if self.rotary.num_axes > 1:
            raise ValueError(f"`rotary` must have positions of one axis, got {shown(self.rotary)}.")

    @abstractmethod
    def remapped(self, positions: Any) -> tuple[Any, ...]:
        """Return the remapped positions, `num_positions` arrays of the shape and floating dtype of `positions`."""

    @abstractmethod
    def last_keys(self, query_positions: Any) -> tuple[Any, ...]:
        """Return the last position that a key has in each region but the first, for each query."""

    def distances(self, query_positions: Any, key_positions: Any) -> npt.NDArray[np.float64]:
        """Return the distance by which attention rotates each pair: `(queries,) x (keys,) -> (queries, keys)`.

        float64; NaN for keys after their query, which are hidden.

        Raises:
            TypeError: if positions are not integers.
            ValueError: if the encoding has no such position, or an argument has several axes.
        """
        at_queries, at_keys = self._integers(query_positions), self._integers(key_positions)
        check_rank("query_positions", at_queries, minimum=1, maximum=1, axes="(queries,)")
        check_rank("key_positions", at_keys, minimum=1, maximum=1, axes="(keys,)")
        queries, keys = (self.remapped(x.astype(np.float64)) for x in (at_queries, at_keys))
        of_regions = [queries[q][..., :, None] - keys[k][..., None, :] for q, k in self.regions]
        distances = self._of_region(of_regions, at_queries, at_keys)
        hidden: npt.NDArray[np.float64] = np.where(np.asarray(causal_checked(at_queries, at_keys)), distances, np.nan)
        return hidden

    @property
    def query_rotations(self) -> int:
        return len(self.regions)

    def products(self, q: Array, k: Array, query_positions: Positions, key_positions: Positions) -> Array:
        """Return the product of each query and key, `(..., queries, keys)`; -inf for keys after their query.

        Args:
            q, k: rotated by `apply`, `(..., length, rotations * head_dim)`.
            query_positions, key_positions: integers, `(length,)` or `(batch, length)`: both ranges, or both arrays.
        """
        at_queries, at_keys = as_array_like(query_positions, like=q), as_array_like(key_positions, like=k)
        xp, scores = namespace_of(q), self.products_by_region(q, k, at_queries, at_keys)
        visible = causal_checked(_signed(at_queries), _signed(at_keys))
        return xp.where(visible, scores, xp.full_like(scores, -math.inf))

    def products_by_region(self, q: Array, k: Array, query_positions: Array, key_positions: Array) -> Array:
        """Return the product of each query and key as `products` does, but with keys after their query."""
        xp = namespace_of(q)
        queries, rotations = _parts(q, len(self.regions)), self.key_rotations
        keys = dict(zip(rotations, map(xp.matrix_transpose, _parts(k, len(rotations))), strict=True))
        of_regions = [xp.matmul(part, keys[i]) for part, (_, i) in zip(queries, self.regions, strict=True)]
        scores: Array = self._of_region(of_regions, _signed(query_positions), _signed(key_positions))
        return scores

    def apply(self, x: Array, at: TokenRows) -> Array:
        """Return queries or keys in all their rotations, `(..., length, rotations * head_dim)`, one after the other."""
        columns = len(at.rows) // self.num_positions
        first = columns - 2 if at.keys else 0  # XPos has tables of keys after those of queries
        used = self.key_rotations if at.keys else [query for query, _ in self.regions]
        rotated = [at.rotate_by(x, *at.rows[i * columns + first : i * columns + first + 2]) for i in used]
        return rotated[0] if len(rotated) == 1 else namespace_of(x).concat(rotated, axis=-1)

    @property
    def key_rotations(self) -> list[int]:
        """Which of the remapped positions rotate keys, each once."""
        return list(dict.fromkeys(key for _, key in self.regions))

    def _of_region(self, of_regions: list[Any], query_positions: Any, key_positions: Any) -> Any:
        """Return each number from the array of its region."""
        result = of_regions[0]
        for last, others in zip(self.last_keys(query_positions), of_regions[1:], strict=True):
            result = namespace_of(result).where(causal_checked(last, key_positions), others, result)
        return result

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        known = self._integers(positions).astype(np.float64)
        return {
            f"{name}_{i}": table
            for i, at in enumerate(self.remapped(known))
            for name, table in self.rotary.rows(whole(at), dtype).items()
        }

    def rows_of(self, weights: Weights, positions: Array) -> tuple[Array, ...]:
        xp = namespace_of(positions)
        remapped = self.remapped(xp.astype(positions, xp.float32))
        return tuple([row for at in remapped for row in self.rotary.rows_of(weights, at)])

    def constants(self, max_len: int) -> Tables:
        return self.rotary.constants(max_len) if self.computes_rows else super().constants(max_len)

    def parameters(self) -> dict[str, Parameter]:
        return self.rotary.parameters()

    @property
    def remapping(self) -> dict[str, Any]:
        return {name: value for name, value in self._arguments().items() if name != "rotary"}

    def at(self, seq_len: int | None) -> Self:
        rotary = self.rotary.at(seq_len)
        return self if rotary is self.rotary else replace(self, rotary=rotary)

    @property
    def table_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple([f"{name}_{i}" for i in range(self.num_positions) for name in self.rotary.table_names])

    @property
    def mixes_rows(self) -> bool:  # type: ignore[override]
        return self.rotary.mixes_rows

    @property
    def table_heads(self) -> int | None:
        return self.rotary.table_heads

    @property
    def head_axes(self) -> Mapping[str, int]:  # type: ignore[override]
        return self.rotary.head_axes

    def mixed(self, weights: Weights, rows: tuple[Array, ...]) -> tuple[Array, ...]:
        columns = len(rows) // self.num_positions
        each = (self.rotary.mixed(weights, rows[i : i + columns]) for i in range(0, len(rows), columns))
        return tuple([row for mixed in each for row in mixed])

    @property
    def computes_rows(self) -> bool:  # type: ignore[override]
        return self.rotary.computes_rows

    @property
    def head_dim(self) -> int:
        """The number of channels of a head."""
        return self.rotary.head_dim

    @property
    def pairing(self) -> Pairing:
        """Which channels form a pair."""
        return self.rotary.pairing

    @property
    def limit(self) -> int:
        return self.rotary.limit

    @property
    def max_table_len(self) -> int:
        return self.rotary.max_table_len

    @property
    def max_seq_len(self) -> int | None:
        return self.rotary.max_seq_len

    @property
    def longest(self) -> int | None:
        return self.rotary.longest


def _parts(x: Array, count: int) -> list[Array]:
    """Return the rotations that stand one after the other."""
    width = x.shape[-1] // count
    return [x[..., i * width : (i + 1) * width] for i in range(count)]


def _signed(positions: Any) -> Any:
    """Return positions in a dtype in which bounds of regions can be subtracted."""
    xp, name = namespace_of(positions), dtype_name(positions)
    return positions if name in ("int32", "int64") or name.startswith("float") else xp.astype(positions, xp.int32)


def whole(positions: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return positions as integers, whose tables are rounded correctly, if they are whole numbers."""
    return positions.astype(np.int64) if (positions % 1 == 0).all() else positions


def inner_rotary(encoding: RotaryEncoding | RemappedRotary) -> RotaryEncoding:
    """Return the rotary encoding whose positions are remapped; `encoding` itself where none are."""
    return encoding.rotary if isinstance(encoding, RemappedRotary) else encoding


@dataclass(frozen=True, kw_only=True, repr=False)
class Windowed(RemappedRotary):
    """The base class of those with two regions: a window, in which distances are kept, and what lies beyond.

    Args:
        window: the first distance beyond.
    """

    window: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("window", self.window, maximum=LIMIT - 1)

    def last_keys(self, query_positions: Any) -> tuple[Any, ...]:
        return (query_positions - self.window,)


@dataclass(frozen=True, kw_only=True, repr=False)
class SelfExtend(Windowed):
    """`rotary` with positions in groups beyond a window (Self-Extend).

    With the window w and groups of G, a key at distance d < w keeps its distance. Others have the distance
    floor(p / G) + w - floor(w / G) - floor(n / G) between a query at p and a key at n. So a model for L positions reads
    (L - w) G + w.

    Args:
        rotary: the encoding that the model was trained with.
        window: w, from which distance on positions are grouped.
        group_size: G, the number of neighbouring positions that become one.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or a number is not an integer.
        ValueError: if it has several axes, or a number is not positive.
    Source: Jin et al. 2024, section 3.2 (arXiv:2401.01325).

    >>> from posenc_core import Rotary
    >>> extended = SelfExtend(rotary=Rotary(head_dim=4, layout="half"), window=4, group_size=2)
    >>> extended.distances([7], range(8))
    array([[5., 5., 4., 4., 3., 2., 1., 0.]])
    """

    group_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("group_size", self.group_size, maximum=LIMIT - 1)

    def remapped(self, positions: Any) -> tuple[Any, ...]:
        grouped = (positions - positions % self.group_size) / self.group_size
        return positions, grouped + (self.window - self.window // self.group_size), grouped


@dataclass(frozen=True, kw_only=True, repr=False)
class ReRoPE(Windowed):
    """`rotary` with distances cut off at a window (rectified RoPE): min(d, `window`).

    Args:
        rotary: the encoding that the model was trained with.
        window: the largest distance, below the length of training.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or `window` is not an integer.
        ValueError: if it has several axes, or `window` is not positive.
    Source: Su 2023, "Transformer Upgrade Path 12: ReRoPE" (kexue.fm/archives/9708).

    >>> from posenc_core import Rotary
    >>> ReRoPE(rotary=Rotary(head_dim=4, layout="half"), window=3).distances([5], range(6))
    array([[3., 3., 3., 2., 1., 0.]])
    """

    def remapped(self, positions: Any) -> tuple[Any, ...]:
        zero = positions * 0
        return positions, zero + self.window, zero


@dataclass(frozen=True, kw_only=True, repr=False)
class LeakyReRoPE(Windowed):
    """`rotary` with distances that grow more slowly beyond a window: w + (d - w) / `factor` for d ≥ w = `window`.

    Positions may be fractions then, whose tables are within 1 ulp up to position 2**20.

    Args:
        rotary: the encoding that the model was trained with.
        window: w, up to which distances are kept.
        factor: by how much the distance slows down; 1 keeps every distance, and `ReRoPE` is the limit of large ones.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or an argument is not a number.
        ValueError: if it has several axes, `window` is not positive, or `factor` not from 1 to 65,536.
    Source: Su 2023, "Transformer Upgrade Path 12: ReRoPE" (kexue.fm/archives/9708).

    >>> from posenc_core import Rotary
    >>> LeakyReRoPE(rotary=Rotary(head_dim=4, layout="half"), window=2, factor=4).distances([6], range(7))
    array([[3.  , 2.75, 2.5 , 2.25, 2.  , 1.  , 0.  ]])
    """

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("factor", self.factor, minimum=1)
        if self.factor > LARGEST_FACTOR:
            raise ValueError(f"`factor` must be at most {LARGEST_FACTOR}, got {shown(self.factor)}; use ReRoPE.")

    def remapped(self, positions: Any) -> tuple[Any, ...]:
        slower = positions / self.factor
        return positions, (positions + self.window * (self.factor - 1)) / self.factor, slower


@dataclass(frozen=True, kw_only=True, repr=False)
class DualChunk(RemappedRotary):
    """`rotary` with positions counted within chunks (dual chunk attention, DCA).

    With chunks of L = `chunk_size` - `local_size` tokens, a key at n is rotated by n mod L. A query at p is rotated by

    * p mod L for keys of its own chunk (intra-chunk),
    * min(p mod L + L, `chunk_size`) for those of the chunk before (successive chunks), so that the last `local_size`
      keys keep their distance,
    * min(2 L - 1, `chunk_size`) for those of earlier chunks (inter-chunk).

    Args:
        rotary: the encoding that the model was trained with.
        chunk_size: the largest distance, below the length of training.
        local_size: the number of keys before a chunk that keep their distance.
    Raises:
        TypeError: if `rotary` is not a rotary encoding, or a number is not an integer.
        ValueError: if it has several axes, or `local_size` is not below `chunk_size`.
    Source: An et al. 2024, section 3 (arXiv:2402.17463), with the bounds of its code and of Qwen2.5-1M in vLLM; the
        paper bounds queries by the length of training - 1.

    >>> from posenc_core import Rotary
    >>> DualChunk(rotary=Rotary(head_dim=4, layout="half"), chunk_size=5, local_size=2).distances([7], range(8))
    array([[5., 4., 3., 4., 3., 2., 1., 0.]])
    """

    chunk_size: int
    local_size: int

    regions: ClassVar[tuple[tuple[int, int], ...]] = ((0, 0), (1, 0), (2, 0))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("chunk_size", self.chunk_size, maximum=LIMIT - 1)
        check_integer("local_size", self.local_size)
        if self.local_size >= self.chunk_size:
            raise ValueError(
                f"`local_size` must be below `chunk_size` {self.chunk_size}, got {shown(self.local_size)}."
            )

    @property
    def chunk_len(self) -> int:
        """L, the number of tokens in a chunk."""
        return self.chunk_size - self.local_size

    def remapped(self, positions: Any) -> tuple[Any, ...]:
        xp, within, chunk_len = namespace_of(positions), positions % self.chunk_len, self.chunk_len
        successive = xp.minimum(within + chunk_len, xp.full_like(within, self.chunk_size))
        return within, successive, within * 0 + min(2 * chunk_len - 1, self.chunk_size)

    def last_keys(self, query_positions: Any) -> tuple[Any, ...]:
        first = query_positions - query_positions % self.chunk_len
        return first - 1, first - self.chunk_len - 1
