"""The layer that adds an encoding to tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._array_api.checks import check_integer, check_known, check_number, shown
from .._array_api.namespace import shape_of
from ..addition import COMBINES, Combine, combine_checked
from ..encodings import Additive, Encoding, Sinusoidal
from ..positions.sequences import from_array
from .backend import Given, Tensor
from .inputs import batch_size, check_axes, check_positions, is_real
from .tables import TableLayer, check_auto_expand

if TYPE_CHECKING:
    from .base import called_like


class PositionalEncoding(TableLayer):
    """Adds (or appends) the rows of an additive encoding to tokens; by default the sinusoids of the paper.

    Args:
        num_hiddens: width of the encoding; also of the tokens, unless `combine="concat"`.
        dropout: probability of dropping an entry of the result in training.
        max_len: number of rows in the table at the start.
        encoding: an additive encoding with `dim` equal to `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.
        auto_expand: whether eager calls beyond `max_len` grow the table; False raises there, as traced code does.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `encoding` is not additive, or a size is not an integer.
        ValueError: if `encoding` has another `dim` than `num_hiddens`, `dropout` is not from 0 to below 1, or `combine`
            is unknown, or `auto_expand` False for an encoding without a table.

    >>> import numpy as np
    >>> from posenc_backends.numpy import PositionalEncoding
    >>> PositionalEncoding(4)(np.zeros((1, 2, 4), np.float32)).round(4)
    array([[[0.    , 1.    , 0.    , 1.    ],
            [0.8415, 0.5403, 0.01  , 1.    ]]], dtype=float32)
    """

    encoding: Any  # Additive
    combine: Any  # Combine
    auto_expand: bool
    dropout: Any
    method: ClassVar[str] = "add"

    def __init__(
        self,
        num_hiddens: int,
        dropout: float = 0.0,
        max_len: int = 1000,
        *,
        encoding: Additive | None = None,
        combine: Combine = "add",
        auto_expand: bool = True,
        **native: Any,
    ) -> None:
        check_dropout(dropout)
        super().__init__(additive_for(num_hiddens, encoding, combine), max_len, **native)  # type: ignore[call-arg]
        self.combine, self.auto_expand = combine, check_auto_expand(auto_expand, self.encoding)
        self.dropout = self.backend.dropout(dropout)

    @property
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, read-only."""
        if not self.tables:
            raise TypeError(
                f"`P` is a table, and a layer of {shown(self.encoding)} holds none: it computes what it is asked for."
            )
        return self.tables[0][None, ...]

    def add(self, x: Tensor, start: Given = 0, positions: Given = None, **native: Any) -> Tensor:
        """Return tokens with the encoding of their positions.

        Args:
            x: tokens, `(..., length, num_hiddens)`; floating-point.
            start: the first position, an integer, or one for each batch row.
            positions: all positions, instead of `start`, `(length,)` or `(batch, length)`; `(axes, length)` or
                `(axes, batch, length)` for an encoding of several axes.
            native: options of the framework's dropout, such as JAX's `key`.
        Returns:
            An array of the dtype and shape of `x`; with `combine="concat"`, wider by the encoding.
        Raises:
            TypeError: if `x` is not a floating-point array of the framework, or positions are not numbers.
            ValueError: if sizes do not match, or traced code exceeds the table.
        """
        dropout = self.dropout_with(native) if native else self.active_dropout()
        encoding = self.encoding
        width = encoding.dim if self.combine == "add" else None
        x = self.check_prepared("x", self.prepare(x, width), width)
        if positions is None and encoding.num_axes > 1:
            raise ValueError(
                f"`positions` must be given to {shown(encoding)}: ({encoding.num_axes}, length), as `grid` makes them."
            )
        result = combine_checked(x, self._rows(x, start, positions)[0], self.combine)
        return result if dropout is None else dropout(result)

    if TYPE_CHECKING:

        @called_like(add)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def rows(self, positions: Given, dtype: Any = "float32") -> Tensor:
        """Return the encoding of positions itself, without tokens to add it to and without dropout.

        Args:
            positions: of any shape `(...)`, an array of the framework, of NumPy, a list or a number; for an encoding of
                several axes `(axes, ...)`, or `(length,)` if they are the same on all. Those past the table are treated
                as in a call of the layer.
            dtype: as in `RotaryEmbedding.cos_sin`.
        Returns:
            `(..., num_hiddens)`, on the device of the positions.
        Raises:
            TypeError: if positions are not numbers.
            ValueError: if their shape does not fit the axes of the encoding, the framework lacks the dtype, or the
                encoding has no such position.

        >>> from posenc_backends.numpy import PositionalEncoding
        >>> PositionalEncoding(2).rows([[0, 1], [2, 3]])[1]
        array([[ 0.9092974 , -0.41614684],
               [ 0.14112   , -0.9899925 ]], dtype=float32)
        """
        return self.rows_of_any_shape(positions, dtype, self._rows)

    def _rows(self, x: Tensor, start: Given, positions: Given) -> tuple[Tensor, ...]:
        """Return the rows of the tokens in `x`."""
        encoding = self.encoding
        if encoding.computes_rows:
            rows = encoding.rows_of(self.arrays, self.traced_positions(x, start, positions))
            return self.backend.beside(rows, x)
        if positions is not None and encoding.mixes_axes:
            return self.backend.beside(self._rows_of_mixed_axes(x, positions), x)
        return self.lookup(x, start, positions)

    def _rows_of_mixed_axes(self, x: Tensor, positions: Given) -> tuple[Tensor, ...]:
        """Return rows whose columns change with all axes at once, which no table can have."""
        length, batch, axes = shape_of(x)[-2], batch_size(x, len(x.shape) - 2), self.encoding.num_axes
        given = positions if hasattr(positions, "shape") else np.asarray(positions)
        check_axes(given, axes)
        by_axis = [given[axis, ...] for axis in range(axes)]
        check_positions("positions", by_axis[0], (length,), batch)
        if not isinstance(given, np.ndarray) and self.backend.is_unread(given):
            return self.backend.eager(self.encoding.traced_rows, *by_axis)
        host = from_array(given if isinstance(given, np.ndarray) else self.backend.to_numpy(given))
        dtype = np.float64 if self._is_float64(x) else np.float32
        row = self.to_backend(self.backend.eager(self.encoding.rows, host, dtype)["table"])
        if is_real(given) and self.backend.stop_gradient(given) is not given:
            derivatives = self.encoding.derivatives(host)["table"]
            row = self.follow_positions(row, by_axis, derivatives, self.encoding.angular_frequencies())
        return (row,)


def additive_for(num_hiddens: int, encoding: Encoding | None, combine: str) -> Additive:
    """Return the encoding of a `PositionalEncoding`: the given one if it fits, by default that of the paper."""
    if isinstance(num_hiddens, Additive) and encoding is None:
        raise TypeError(f"`num_hiddens` must be an integer, got {shown(num_hiddens)}; give that as `encoding=…`.")
    num_hiddens = check_integer("num_hiddens", num_hiddens)
    check_known("combine", combine, COMBINES)
    if encoding is None:
        return Sinusoidal(dim=num_hiddens)
    if not isinstance(encoding, Additive):
        raise TypeError(f"`encoding` must be an additive encoding, got {shown(encoding)}.")
    if encoding.dim != num_hiddens:
        raise ValueError(f"`encoding` must have `dim` {num_hiddens}, as `num_hiddens` says, got {shown(encoding)}.")
    return encoding


def check_dropout(dropout: float) -> None:
    """Raise unless `dropout` is a probability below 1."""
    check_number("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be from 0 up to but not including 1, got {shown(dropout)}.")
