"""The layer that rotates queries and keys (RoPE)."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeAlias

import numpy as np

from .._array_api.checks import check_integer, check_known, check_positions_shape, shown
from .._array_api.kernels import kernel_for
from .._array_api.namespace import aligned, aligned_by_head, name_of_dtype, shape_of
from ..encodings.attention_encoding import QueryKeyEncoding
from ..encodings.base import TokenRows, columns_of_heads
from ..positions.sequences import LIMIT
from ..rotation import per_channel
from .backend import Given, Host, Tensor
from .base import check_encoding
from .heads import Heads, parse_heads
from .inputs import batch_size, first_of, known_integers, past_frequencies, sequence_axis
from .tables import TableLayer, check_auto_expand

if TYPE_CHECKING:
    from .base import called_like

Columns: TypeAlias = Literal["pairs", "channels"]
COLUMNS = ("pairs", "channels")
USUAL, MOST = 2**11, 2**18  # rows of tables of which no number is given; the most are 128 MiB for 128 channels


class RotaryEmbedding(TableLayer):
    """Rotates queries and keys by the angles of their positions (RoPE).

    Args:
        encoding: a rotary encoding.
        max_len: number of positions in the tables at the start. By default the longest length for which the encoding
            is defined, at least 2,048 and at most 262,144.
        seq_axis: the axis of the sequence in calls that name none; 1 for `(batch, length, heads, head_dim)`.
        auto_expand: whether eager calls beyond `max_len` grow the tables; False raises there, as traced code does.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `encoding` is not rotary.
        ValueError: if `max_len` is not positive, `seq_axis` the last axis, or `auto_expand` False for an encoding
            without tables.

    >>> import numpy as np
    >>> from posenc_backends.numpy import RotaryEmbedding
    >>> from posenc_core import Rotary
    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(np.ones((1, 1, 2, 2), np.float32)).round(4)
    array([[[[ 1.    ,  1.    ],
             [-0.3012,  1.3818]]]], dtype=float32)
    """

    encoding: Any  # QueryKeyEncoding
    seq_axis: int
    auto_expand: bool
    method: ClassVar[str] = "rotate"

    def __init__(
        self,
        encoding: QueryKeyEncoding,
        *,
        max_len: int | None = None,
        seq_axis: int = -2,
        auto_expand: bool = True,
        **native: Any,
    ) -> None:
        check_encoding(encoding, QueryKeyEncoding, "a rotary")
        seq_axis = check_integer("seq_axis", seq_axis, minimum=-LIMIT)
        if seq_axis == -1:
            raise ValueError("`seq_axis` must be an axis before the last, such as -2, got -1.")
        super().__init__(encoding, _num_positions(encoding, max_len), **native)  # type: ignore[call-arg] # of the adapter
        self.seq_axis, self.auto_expand = seq_axis, check_auto_expand(auto_expand, encoding)

    def rotate(  # noqa: PLR0913, PLR0917 - all that can be said of a call
        self,
        q: Tensor,
        k: Tensor = None,
        start: Given = 0,
        positions: Given = None,
        seq_axis: int | None = None,
        seq_len: int | None = None,
        cos_sin: tuple[Tensor, ...] | None = None,
        heads: Given = None,
        **unknown: NoReturn,
    ) -> Tensor:
        """Return `q`, or `q` and `k`, rotated by the angles of their positions.

        Args:
            q: queries, `(batch, heads, length, head_dim)`, or any shape `(..., length, head_dim)`; floating-point.
            k: keys of the same length, to rotate as well; for `PoPE`, `(..., num_heads, length, head_dim)`.
            start: the first position, an integer, or one for each batch row.
            positions: all positions, instead of `start`, `(length,)` or `(batch, length)`; `(axes, length)` or
                `(axes, batch, length)` for an encoding of several axes.
            seq_axis: the axis of the sequence, by default that of the layer.
            seq_len: length of the whole sequence, for scalings that depend on it (`DynamicNTK`, `LongRoPE`).
            cos_sin: instead of positions, what the method `cos_sin` returned for them, in pairs and in the precision of
                the tables: a model looks positions up once per step, and all its layers rotate by the same rows.
            heads: where each head has numbers of its own (`MixedRotary`, `FoPE` with `num_heads`, `PoPE`) and tokens
                have a part of the heads, as in tensor parallelism: the numbers of those of keys, consecutive ones, a
                range or an array `(heads,)`, which may be traced.
        Returns:
            An array, or two, of the shape and dtype of what was given, with `PoPE` twice as wide; half precision is
            rotated in float32, rounded once.
        Raises:
            TypeError: if `q` or `k` are not floating-point arrays of the framework, or positions are not numbers.
            ValueError: if sizes do not match, or traced code exceeds the tables.
        """
        encoding = self.encoding if seq_len is None and not unknown else self._encoding_at(seq_len, unknown)
        q = self.prepare(q, encoding.head_dim)
        k = None if k is None else self.prepare(k, encoding.head_dim)
        seq_axis = self.seq_axis if seq_axis is None else seq_axis
        is_usual = type(seq_axis) is int and seq_axis == -2
        given = positions if cos_sin is None else cos_sin
        part = None if heads is None else parse_heads(heads, self.backend)
        if cos_sin is None and encoding is self.encoding and type(seq_axis) is int:
            if is_usual and positions is not None:
                positions = known_integers(positions, self.backend)
            rotated = self._rotate_by_tables(q, k, start, positions, seq_axis)
            if rotated is not None:
                return rotated if k is not None else rotated[0]
        if encoding.needs_attention:
            raise TypeError(rotates_in_attention(encoding))
        self.check_prepared("q", q, encoding.head_dim)
        if not is_usual:
            sequence_axis(q, seq_axis, name="q")
        if k is not None:
            self._check_keys(k, q, seq_axis, is_usual)
        if given is None and encoding.needs_positions:
            raise ValueError(
                f"`positions` must be given to {shown(encoding)}: ({encoding.num_axes}, length), as `grid` makes them."
            )
        before = self.arrays if given is None and type(start) is int else {}
        look_up = self.rows if cos_sin is None else partial(self.given_rows, cos_sin)
        rows = look_up(q, start, positions, seq_axis, encoding, part)
        if k is not None and not encoding.keys_differ and encoding.table_heads is None:
            # With a start, it was asked before, unless the tables have grown: checkpoints need the same calls
            is_new = given is not None or any(self.arrays[name] is not before[name] for name in before)
            both = self._rotate_both(q, k, rows) if is_new and is_usual else None
            both = both or self.backend.rotate_both(q, k, rows, encoding.pairing, seq_axis)
            if both is not None:
                return both
        rotated = self.apply_rows(q, rows, seq_axis, keys=False)
        return rotated if k is None else (rotated, self.apply_rows(k, rows, seq_axis, keys=True, heads=part))

    def given_rows(
        self,
        cos_sin: Any,
        q: Tensor,
        start: Given,
        positions: Given,
        seq_axis: int,
        encoding: Any,
        heads: Heads | None,
    ) -> tuple[Tensor, ...]:
        """Return the rows that a call gives; raise unless they are those of its tokens, of all heads."""
        sequence = sequence_axis(q, seq_axis, name="q")
        if positions is not None or type(start) is not int or start != 0:
            raise ValueError("`cos_sin` must be given without `positions` and `start`, which it stands for.")
        count, columns = 2 * (1 + ("key_cos" in encoding.table_names)), getattr(encoding, "pairs", encoding.head_dim)
        if not isinstance(cos_sin, tuple | list) or len(cos_sin) != count:
            raise TypeError(f"`cos_sin` must be the {count} arrays that `cos_sin` returns, got {shown(type(cos_sin))}.")
        tail = (*(() if encoding.table_heads is None else (encoding.table_heads,)), shape_of(q)[sequence], columns)
        for row in cos_sin:
            if not isinstance(row, self.backend.array_types):
                raise self._wrong_framework("cos_sin", row)
            if name_of_dtype(row.dtype) not in ("float32", "float64"):
                raise TypeError(f"`cos_sin` must be float32, or float64 for such tokens, got {row.dtype}.")
            check_positions_shape("cos_sin", tuple(shape_of(row)), tail, batch_size(q, sequence))
        if heads is not None and encoding.table_heads is not None:
            cos_sin = [columns_of_heads(row, heads.numbers, len(row.shape) - 3) for row in cos_sin]
        return self.backend.beside(tuple(cos_sin), q)

    def _encoding_at(self, seq_len: int | None, unknown: dict[str, Any]) -> Any:
        """Return the encoding for sequences of this length; raise for unknown arguments of the call."""
        if unknown:
            self.refuse(unknown)
        return self.encoding.at(seq_len)

    def apply_rows(
        self, x: Tensor, rows: tuple[Tensor, ...], seq_axis: int, *, keys: bool, heads: Heads | None = None
    ) -> Tensor:
        """Return queries or keys at the positions of these rows."""
        encoding, rotate_by = self.encoding, partial(self.rotate_by, seq_axis=seq_axis)
        names = encoding.parameters() if keys and encoding.keys_differ else ()
        arrays = self.arrays if heads is None else self.arrays_of(heads)
        parameters = self.backend.beside(tuple([arrays[name] for name in names]), x)
        weights = dict(zip(names, parameters, strict=True))
        return encoding.apply(x, TokenRows(rows, rotate_by, weights, keys, seq_axis))

    if TYPE_CHECKING:

        @called_like(rotate)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def cos_sin(
        self, positions: Given, dtype: Any = "float32", columns: Columns = "pairs", seq_len: int | None = None
    ) -> tuple[Tensor, ...]:
        """Return cosine and sine of the angles of positions, as models compute them once for all their layers.

        They contain the attention factor of the encoding, as those of transformers do. Positions past the tables are
        treated as in a call of the layer: eager calls compute their rows, traced ones give NaN.

        Args:
            positions: `(length,)` or `(batch, length)`, an array of the framework, of NumPy or a list; for an encoding
                of several axes `(axes, length)` or `(axes, batch, length)`, or `(length,)` if they are the same on all.
            dtype: `"float32"`, `"float16"`, `"bfloat16"`, `"float64"`, or the framework's dtype of that name. The
                tables are float32, rounded once to a narrower dtype; in float64 they are those of float64 tokens.
            columns: `"pairs"`, one column per pair that rotates; `"channels"`, one column per channel that rotates, in
                the order of the layout: c₀ … cₙ, c₀ … cₙ (half), or c₀, c₀, c₁, c₁, … (interleaved). With the placement
                `"spread"`, channels of the whole head: cosine 1 and sine 0 where nothing rotates.
            seq_len: length of the whole sequence, for scalings that depend on it (`DynamicNTK`, `LongRoPE`).
        Returns:
            `(cos, sin)`, each `(..., length, columns)`, on the device of the positions; for an encoding whose keys have
            tables of their own (`XPos`), `(cos, sin, key_cos, key_sin)`. Where heads have tables of their own (`FoPE`
            with `num_heads`), `(..., heads, length, columns)`.
        Raises:
            TypeError: if positions are not numbers.
            ValueError: if their shape does not fit the axes of the encoding, `dtype` or `columns` is unknown, the
                framework lacks the dtype, or the encoding has no such position.
        Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Angles in radians.

        >>> from posenc_backends.numpy import RotaryEmbedding
        >>> from posenc_core import Rotary
        >>> cos, sin = RotaryEmbedding(Rotary(head_dim=4, layout="half")).cos_sin([0, 1], columns="channels")
        >>> sin
        array([[0.        , 0.        , 0.        , 0.        ],
               [0.84147096, 0.00999983, 0.84147096, 0.00999983]], dtype=float32)
        """
        check_known("columns", columns, COLUMNS)
        encoding = self.encoding if seq_len is None else self.encoding.at(seq_len)
        if encoding.needs_attention:
            raise TypeError(rotates_in_attention(encoding))

        def look_up(tokens: Tensor, start: Given, positions: Given) -> tuple[Tensor, ...]:
            rows = self.rows(tokens, start, positions, -2, encoding)
            if columns == "pairs":
                return rows
            each = zip(rows, (1.0, 0.0) * (len(rows) // 2), strict=True)
            return tuple([per_channel(row, encoding.pairing, encoding.head_dim, still) for row, still in each])

        return self.rows_at(positions, dtype, look_up)

    def _check_keys(self, k: Tensor, q: Tensor, seq_axis: int, is_usual: bool) -> None:
        """Raise unless keys have the width of the encoding and the length of queries, which were checked."""
        self.check_prepared("k", k, self.encoding.head_dim)
        if not is_usual:
            sequence_axis(k, seq_axis, name="k")
        if k.shape[seq_axis] != q.shape[seq_axis]:
            raise ValueError(
                f"`k` must be as long as `q`, got {k.shape[seq_axis]} and {q.shape[seq_axis]}; "
                "rotate them in two calls, each with its own `start`."
            )

    def _rotate_both(self, q: Tensor, k: Tensor, rows: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """Return queries and keys rotated by the same rows in one call, where there is a kernel for it; else None."""
        kernel = kernel_for(q)
        if kernel is None or kernel.rotate_rows is None:
            return None
        if len(rows[0].shape) == 2:
            return kernel.rotate_rows(q, k, *rows, (0, rows[0].shape[0]), self.encoding.pairing)
        if len(q.shape) != len(k.shape) or q.shape[0] != k.shape[0]:
            return None
        cos, sin = (aligned(row, q, seq_axis=-2) for row in rows)
        return kernel.rotate_rows(q, k, cos, sin, None, self.encoding.pairing)

    def _rotate_by_tables(
        self, q: Tensor, k: Tensor, start: Given, positions: Given, seq_axis: int
    ) -> tuple[Tensor, ...] | None:
        """Return tokens rotated by rows of the tables, where a kernel reads these in place; else None.

        All that it takes is right; what it refuses is checked.
        """
        kernel, encoding = kernel_for(q), self.encoding
        if kernel is None or kernel.rotate_rows is None:
            return None
        first = start if positions is None else first_of(positions, q.shape)
        first = first if seq_axis == -2 else None
        rotate_at = kernel.rotate_at if type(first) is not int and encoding.num_axes == 1 else None
        if (
            (type(first) is not int and rotate_at is None)
            or encoding.needs_positions
            or encoding.computes_rows
            or encoding.mixes_rows
            or encoding.keys_differ
            or encoding.table_names != ("cos", "sin")
        ):
            return None
        sizes = q.shape
        is_alike = k is None or (
            isinstance(k, self.backend.array_types) and (seq_axis != -2 or k.shape[-2:] == sizes[-2:])
        )
        if len(sizes) < 2 or sizes[-1] != encoding.head_dim or not is_alike:
            return None
        if rotate_at is None:
            tables = self.arrays
            return kernel.rotate_rows(q, k, tables["cos"], tables["sin"], (first, sizes[-2]), encoding.pairing)
        tables = self.initial_arrays
        cos, sin = tables["cos"], tables["sin"]
        if type(positions) is np.ndarray and not self._have_rows(cos, sin, positions):
            return None
        return rotate_at(q, k, cos, sin, start, positions, encoding.pairing, seq_axis)

    def _have_rows(self, cos: Tensor, sin: Tensor, positions: Host) -> bool:
        """Return whether positions are integers within the tables, and within what the encoding is for."""
        if positions.dtype.kind != "i":
            return False
        rows, limit = min(cos.shape[0], sin.shape[0]), self.encoding.max_seq_len
        return bool(positions.min(initial=0) >= 0 and positions.max(initial=-1) < min(rows, limit or rows))

    def rotate_by(self, x: Tensor, cos: Tensor, sin: Tensor, seq_axis: int) -> Tensor:
        """Return tokens rotated by rows of tables."""
        if self.encoding.table_heads is not None:
            cos, sin = (aligned_by_head(table, x, seq_axis=seq_axis) for table in (cos, sin))
        elif seq_axis != -2 or len(cos.shape) > 2:
            cos, sin = aligned(cos, x, seq_axis=seq_axis), aligned(sin, x, seq_axis=seq_axis)
        return self.backend.rotate(x, cos, sin, self.encoding.pairing)

    def rows(
        self,
        x: Tensor,
        start: Given,
        positions: Given,
        seq_axis: int,
        encoding: Any,
        heads: Heads | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the rows of the tokens in `x`: of the tables, mixed, or computed from learned frequencies."""
        if encoding.computes_rows:
            return self._rows_of_parameters(x, start, positions, seq_axis, encoding, heads)
        rows = self.lookup(x, start, positions, seq_axis, encoding)
        if not encoding.mixes_rows:
            return rows
        arrays = self.arrays if heads is None else self.arrays_of(heads)
        with self.backend.call_context(x):
            return self.backend.beside(encoding.mixed(arrays, rows), x)

    def _rows_of_parameters(
        self,
        q: Tensor,
        start: Given,
        positions: Given,
        seq_axis: int,
        encoding: Any,
        heads: Heads | None,
    ) -> tuple[Tensor, ...]:
        """Return rows that the framework computes from learned frequencies."""
        if encoding is not self.encoding and encoding != self.encoding:
            raise ValueError(f"`seq_len` asks for other frequencies than are learned; use {shown(encoding)}.")
        arrays = self.arrays if heads is None else self.arrays_of(heads)
        rows: tuple[Tensor, ...] = encoding.rows_of(arrays, self.traced_positions(q, start, positions, seq_axis))
        return self.backend.beside(rows, q)

    def warn_past_limit(self, x: Tensor, last: float, encoding: Any) -> None:
        if encoding.max_seq_len is None or last < encoding.max_seq_len:
            return
        if self.backend.is_recorded(x):
            raise ValueError(past_frequencies(encoding, last))
        warnings.warn(
            f"Position {last} lies past the {encoding.max_seq_len} that these frequencies of {shown(encoding)} are "
            "for; give `seq_len`, the length of the whole sequence.",
            stacklevel=2,
        )


def rotates_in_attention(encoding: QueryKeyEncoding) -> str:
    """Return the message that a layer alone cannot rotate by these positions."""
    return (
        f"`encoding` rotates each token several times, in attention alone, got {shown(encoding)}; give it to "
        "`MultiHeadAttention(position=…)`, or to `attend` as `Placed`."
    )


def _num_positions(encoding: QueryKeyEncoding, max_len: int | None) -> int:
    """Return the number of positions in the tables: `max_len`, or what the encoding is known to be for.

    Warns if the tables are shorter than the encoding was loaded for.
    """
    given = min(max(encoding.longest or 0, USUAL), MOST) if max_len is None else max_len
    rows = check_integer("max_len", given, maximum=LIMIT)
    loaded = min(getattr(encoding, "max_len", None) or 0, encoding.max_table_len)
    if rows < loaded and not encoding.computes_rows:
        warnings.warn(
            f"`max_len` is {rows}, but {shown(encoding)} is for {loaded} positions: eager calls grow the tables, "
            f"compiled code gives NaN past them; give `max_len={loaded}` if yours goes so far.",
            stacklevel=4,
        )
    return rows
