"""The base classes of additive encodings, and of those whose columns are sines and cosines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._array_api.checks import WIDEST, check_integer
from ..._array_api.lazy import tables_by_block
from ..._array_api.namespace import Array, beside, namespace_of
from ...tables._fixed_point import Frequencies
from ...tables.angles import angles_of
from ...tables.frequencies import as_float64
from ...tables.sincos import DType, check_dtype, write_cos_sin, write_derivatives
from ..base import Tables, Tabular
from ..rotary.rotary import Rotary

NONE = slice(0)


class Series(NamedTuple):
    """Frequencies, the columns of their sines and cosines, and the axis of the positions that they multiply.

    There may be fewer columns than frequencies; the last frequencies then have no column.
    """

    frequencies: Frequencies
    sin: slice = NONE
    cos: slice = NONE
    axis: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class Additive(Tabular):
    """An encoding whose rows are added to tokens, or appended to them."""

    dim: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dim", self.dim, maximum=WIDEST)

    layer_name: ClassVar[str] = "PositionalEncoding"
    table_names: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def needs_positions(self) -> bool:  # type: ignore[override]
        return self.num_axes > 1

    @property
    def mixes_axes(self) -> bool:
        """Whether a column depends on more than one axis."""
        return False

    def table(self, positions: Any, dtype: DType = np.float32) -> npt.NDArray[Any]:
        """Return the rows of positions: `(..., length) -> (..., length, dim)`.

        `dtype` is `numpy.float32`, or `numpy.float64` for tokens of float64.

        Positions on several axes are `(axes, ..., length)`, or `(length,)` if they are the same on all of them.

        Raises:
            TypeError: if positions are not numbers, or `dtype` is another.
            ValueError: if the encoding has no such position.
        """
        return tables_by_block(partial(self._table, dtype=check_dtype(dtype)), positions)

    def _table(self, positions: Any, dtype: DType = np.float32) -> npt.NDArray[Any]:
        return self.rows(positions, dtype)["table"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SinusoidalColumns(Additive):
    """An encoding each of whose columns is a sine or cosine of the positions on one axis, or 0."""

    @abstractmethod
    def _series(self) -> tuple[Series, ...]:
        """Return all frequencies, with their columns."""

    @cached_property
    def _all_series(self) -> tuple[Series, ...]:
        """`_series()`, computed once: 160 frequencies in 110 digits take some ten milliseconds."""
        return self._series()

    def _table(self, positions: Any, dtype: DType = np.float32) -> npt.NDArray[Any]:
        known = self._known(positions)
        if known.ndim == 1 or self.num_axes == 1:
            return super()._table(known, dtype)
        if len(known) != self.num_axes:
            raise ValueError(f"`positions` must have shape ({self.num_axes}, ..., length), got {known.shape}.")
        return self._table_by_axis(list(known), write_cos_sin, dtype)["table"]

    def rows(self, positions: Any, dtype: DType = np.float32) -> Tables:
        """Return the rows of positions that are the same on all axes."""
        return self._table_by_axis([self._known(positions)] * self.num_axes, write_cos_sin, dtype)

    def derivatives(self, positions: Any) -> Tables:
        """Return the derivative of each column with respect to the position on its axis, the same on all axes."""
        return self._table_by_axis([self._known(positions)] * self.num_axes, write_derivatives)

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        frequencies = np.zeros(self.dim)
        for series in self._all_series:
            for part in (frequencies[series.sin], frequencies[series.cos]):
                part[:] = as_float64(series.frequencies)[: len(part)]
        return frequencies

    def plain_rope(self) -> Rotary | None:
        frequencies = np.unique(self.angular_frequencies())[::-1]
        frequencies = frequencies[frequencies > 0]
        plain = Rotary(head_dim=2 * len(frequencies), layout="interleaved", frequencies=frequencies)
        return plain if self.num_axes == 1 else None

    def traced_rows(self, positions: Array) -> tuple[Array, ...]:
        return (in_columns(angles_of(positions, as_float64(self._frequencies())), self._places()),)

    def constants(self, max_len: int) -> Tables:
        tables = super().constants(max_len)
        return tables if self.num_axes == 1 else tables | {"turns_by": self._axis_mask()}

    def _table_by_axis(
        self, positions: Sequence[npt.NDArray[Any]], write: Callable[..., None], dtype: DType = np.float32
    ) -> Tables:
        """Write the table of positions on each axis."""
        shape = positions[0].shape
        table = np.empty((positions[0].size, self.dim), check_dtype(dtype))
        table[:, ~self._axis_mask().any(axis=0)] = 0
        for series in self._all_series:
            parts = {"sin": table[:, series.sin], "cos": table[:, series.cos]}
            nonempty = {name: part for name, part in parts.items() if part.size}
            write(positions[series.axis].ravel(), series.frequencies, **nonempty)
        return {"table": table.reshape(*shape, self.dim)}

    def _axis_mask(self) -> npt.NDArray[np.float32]:
        """Return which columns depend on which axis: 1 where they do, `(axes, dim)`."""
        mask = np.zeros((self.num_axes, self.dim), np.float32)
        for series in self._all_series:
            mask[series.axis, series.sin] = mask[series.axis, series.cos] = 1
        return mask

    def _frequencies(self) -> Frequencies:
        """Return the frequencies of all series, one after the other."""
        return tuple(frequency for series in self._all_series for frequency in series.frequencies)

    def _places(self) -> npt.NDArray[np.float32]:
        """Return where `in_columns` finds each column."""
        series, count, first = self._all_series, len(self._frequencies()), 0
        places = np.full(self.dim, 2 * count, np.float32)
        for each in series:
            for begin, part in ((first, places[each.sin]), (first + count, places[each.cos])):
                part[:] = begin + np.arange(len(part))
            first += len(each.frequencies)
        return places


def in_columns(angles: Array, places: Any) -> Array:
    """Return sines and cosines of angles, in the order of columns: `(..., length, frequencies) -> (..., length, dim)`.

    Args:
        angles: radians.
        places: for each column its place in the list of all sines, then all cosines, then one 0.
    """
    xp = namespace_of(angles)
    if isinstance(places, np.ndarray):
        places = xp.asarray(places, **beside(angles))
    sin, cos = xp.sin(angles), xp.cos(angles)
    zero = xp.zeros_like(xp.sum(angles, axis=-1, keepdims=True))
    return xp.take(xp.concat([sin, cos, zero], axis=-1), xp.astype(places, xp.int32), axis=-1)
