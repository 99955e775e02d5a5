"""The layer that multiplies queries by a factor of their position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from .._array_api.checks import check_integer
from .._array_api.namespace import aligned, in_float32
from ..encodings import QueryEncoding
from ..positions.sequences import LIMIT
from .backend import Given, Tensor
from .base import check_encoding
from .heads import parse_heads
from .rotary_embedding import MOST, USUAL
from .tables import TableLayer, check_auto_expand

if TYPE_CHECKING:
    from .base import called_like

LENGTHS = 4  # of the encoding, in a table of which no number of rows is given


class QueryScaling(TableLayer):
    """Multiplies queries by the factor of their position.

    Args:
        encoding: the factor as a function of the position.
        max_len: number of positions in the table at the start. The default is four times
            the `length` of the encoding, within 2,048 and 262,144; 2,048 for a `LearnedQueryScale`.
        auto_expand: whether eager calls beyond `max_len` grow the table; False raises there, as traced code does.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `encoding` is neither `QueryScale` nor `LearnedQueryScale`.
        ValueError: if `max_len` is not positive.

    >>> import numpy as np
    >>> from posenc_backends.numpy import QueryScaling
    >>> from posenc_core import QueryScale
    >>> QueryScaling(QueryScale(length=2, scale=1))(np.ones((3, 1), np.float32))
    array([[1.       ],
           [1.6931472],
           [1.6931472]], dtype=float32)
    """

    encoding: Any  # QueryEncoding
    auto_expand: bool
    method: ClassVar[str] = "scale"

    def __init__(
        self, encoding: QueryEncoding, *, max_len: int | None = None, auto_expand: bool = True, **native: Any
    ) -> None:
        check_encoding(encoding, QueryEncoding, "a `QueryScale` or `LearnedQueryScale`, the")
        rows = min(max(LENGTHS * getattr(encoding, "length", 0), USUAL), MOST) if max_len is None else max_len
        super().__init__(encoding, check_integer("max_len", rows, maximum=LIMIT), **native)  # type: ignore[call-arg]
        self.auto_expand = check_auto_expand(auto_expand, encoding)

    def scale(
        self, q: Tensor, start: Given = 0, positions: Given = None, heads: Given = None, **unknown: NoReturn
    ) -> Tensor:
        """Return queries times the factors of their positions.

        Args:
            q: queries, `(batch, heads, length, head_dim)`, or any shape `(..., length, head_dim)` unless each head has
                a factor of its own; floating-point.
            start: the first position, an integer, or one for each batch row.
            positions: all positions, instead of `start`, `(length,)` or `(batch, length)`; integers.
            heads: the numbers of the heads of `q` where they are a part, as in tensor parallelism: consecutive ones, a
                range or an array `(heads,)`, which may be traced.
        Returns:
            An array of the shape and dtype of `q`; half precision is multiplied in float32, rounded once.
        Raises:
            TypeError: if `q` is not a floating-point array of the framework, or positions are not integers.
            ValueError: if sizes do not match, or traced code exceeds the table.
        """
        if unknown:
            self.refuse(unknown)
        q = self.check_tokens("q", q, None)
        part = None if heads is None else parse_heads(heads, self.backend)
        self.encoding.check_queries(q, None if part is None else part.count)
        (rows,) = self.lookup(q, start, positions)
        factors = self.encoding.factors_of(
            self.arrays if part is None else self.arrays_of(part), aligned(rows, q, seq_axis=-2)
        )
        return in_float32(lambda wide, column: wide * column, q, factors)

    def rows(self, positions: Given, dtype: Any = "float32") -> Tensor:
        """Return the factors of positions themselves.

        Args:
            positions: integers of any shape `(...)`, an array of the framework, of NumPy, a list or a number.
            dtype: as in `RotaryEmbedding.cos_sin`.
        Returns:
            `(..., 1)`, on the device of the positions; `(heads, ..., 1)` where each head has a factor of its own.
        Raises:
            TypeError: if positions are not integers.
            ValueError: if the framework lacks the dtype, or the encoding has no such position.

        >>> from posenc_backends.numpy import QueryScaling
        >>> from posenc_core import QueryScale
        >>> QueryScaling(QueryScale(length=2, scale=1)).rows([0, 1])
        array([[1.       ],
               [1.6931472]], dtype=float32)
        """

        def factors(q: Tensor, start: Given, positions: Given) -> tuple[Tensor, ...]:
            return (self.encoding.factors_of(self.arrays, *self.lookup(q, start, positions)),)

        return self.rows_of_any_shape(positions, dtype, factors)

    if TYPE_CHECKING:

        @called_like(scale)
        def __call__(self, *given: Any, **named: Any) -> Any: ...
