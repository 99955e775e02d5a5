"""The layer that adds a scoring encoding to attention scores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from .._array_api.checks import check_broadcasts, check_rank, check_width, is_specialized, is_static, shown
from .._array_api.namespace import in_float32, namespace_of, shape_of
from ..attention import AttentionInputs
from ..encodings import Scoring
from ..encodings.placed import AtPositions, check_parameters
from ..encodings.scoring.base import OFFSET_TABLE
from ..positions.sequences import LIMIT
from .backend import Given, Size, Tensor
from .base import BaseLayer, check_encoding
from .heads import Heads, parse_heads
from .inputs import host_values
from .offset_table import OffsetTable

if TYPE_CHECKING:
    from .base import called_like


class AttentionBias(BaseLayer):
    """Adds the bias of a scoring encoding to attention scores.

    Args:
        encoding: a scoring encoding.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `encoding` is not a scoring one.

    >>> import numpy as np
    >>> from posenc_backends.numpy import AttentionBias
    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(np.zeros((1, 2, 2), np.float32))
    array([[[ 0.        , -0.00390625],
            [-0.00390625,  0.        ]]], dtype=float32)
    """

    encoding: Any  # Scoring
    learned_shapes: frozenset[tuple[str, tuple[int, ...]]]
    offset_table: OffsetTable | None = None
    method: ClassVar[str] = "add"

    def __init__(self, encoding: Scoring, **native: Any) -> None:
        check_encoding(encoding, Scoring, "a scoring")
        super().__init__(encoding, **native)  # type: ignore[call-arg] # of the adapter's layer
        learned = encoding.parameters().items()
        self.learned_shapes = frozenset([(name, parameter.shape) for name, parameter in learned])
        if encoding.has_offset_table:
            self.offset_table = OffsetTable()

    def add(
        self,
        scores: Tensor,
        start: Given = 0,
        query_positions: Given = None,
        key_positions: Given = None,
        q: Tensor = None,
        k: Tensor = None,
        heads: Given = None,
        **unknown: NoReturn,
    ) -> Tensor:
        """Return `scores` plus the bias.

        Args:
            scores: `(batch, heads, queries, keys)`, or without the batch; floating-point.
            start: the position of the first query, an integer, or one for each batch row; keys count from 0.
            query_positions: positions of the queries instead of `start`, `(queries,)` or `(batch, queries)`.
            key_positions: positions of the keys instead of counting from 0, `(keys,)` or `(batch, keys)`.
            q, k: queries and keys, `(batch, heads, length, head_dim)`, only for encodings that use them; all heads for
                those whose terms depend on all of them, `ForgettingBias` and `RelativeLogits`.
            heads: the numbers of the heads of `scores` where they are a part, as in tensor parallelism: consecutive
                ones, a range or an array `(heads,)`, which may be traced.
        Returns:
            An array of the shape and dtype of `scores`.
        Raises:
            TypeError: if `scores` are not a floating-point array of the framework, or `q` and `k` are missing or not
                used.
            ValueError: if sizes do not fit, or the encoding has no such position.
        """
        if unknown:
            self.refuse(unknown)
        part = None if heads is None else parse_heads(heads, self.backend)
        scores = self._check_scores("scores", scores, part)
        q, k = self._check_content(scores, q, k)
        with self.backend.call_context(scores):
            add = partial(_add_bias, self._at_scores(scores, start, query_positions, key_positions, part))
            return in_float32(add, scores) if q is None else in_float32(add, scores, q, k)

    if TYPE_CHECKING:

        @called_like(add)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def bias(self, query_positions: Given, key_positions: Given, heads: Given = None) -> Tensor:
        """Return the bias itself, without scores to add it to.

        Args:
            query_positions: `(queries,)` or `(batch, queries)`, an array of the framework, of NumPy, a list or a range.
            key_positions: likewise, `(keys,)` or `(batch, keys)`.
            heads: as in a call of the layer.
        Returns:
            `(heads, queries, keys)`, or `(batch, heads, queries, keys)`, on the device of the queries' positions.
        Raises:
            TypeError: if positions are not numbers, or the encoding looks at queries and keys as well.
            ValueError: if the encoding has no such position.

        >>> from posenc_backends.numpy import AttentionBias
        >>> from posenc_core import Alibi
        >>> AttentionBias(Alibi(num_heads=1)).bias([2], range(2))
        array([[[-0.0078125 , -0.00390625]]], dtype=float32)
        """
        if self.encoding.uses_content:
            raise TypeError(f"`bias` of {shown(self.encoding)} depends on queries and keys; call the layer with them.")
        given, types = (query_positions, key_positions), self.backend.array_types
        both: list[Any] = [one if isinstance(one, types) else host_values(one, self.backend) for one in given]
        no_tokens: Tensor = None
        for name, one in zip(("query_positions", "key_positions"), both, strict=True):
            check_rank(name, one, minimum=1, maximum=2, axes="(length,) or (batch, length)")
        x = next((one for one in both if isinstance(one, types)), self._any_array)
        batch = next((shape_of(one)[0] for one in both if len(one.shape) > 1), None)
        with self.backend.call_context(x):
            lengths = (shape_of(both[0])[-1], shape_of(both[1])[-1])
            part = None if heads is None else parse_heads(heads, self.backend)
            return self.at(x, lengths, batch, 0, both[0], both[1], part).scores(
                AttentionInputs(no_tokens, no_tokens, x)
            )

    def values(
        self,
        attention: Tensor,
        start: Given = 0,
        query_positions: Given = None,
        key_positions: Given = None,
        heads: Given = None,
    ) -> Tensor:
        """Return the term that the encoding adds to the result of attention; None if there is none.

        Args:
            attention: attention weights, `(batch, heads, queries, keys)`.
            start, query_positions, key_positions, heads: as in a call of the layer.
        Returns:
            `(batch, heads, queries, head_dim)`, or None.
        """
        part = None if heads is None else parse_heads(heads, self.backend)
        attention = self._check_scores("attention", attention, part)
        if not self.encoding.adds_values:
            return None
        return in_float32(self._at_scores(attention, start, query_positions, key_positions, part).values, attention)

    def _at_scores(
        self, scores: Tensor, start: Given, query_positions: Given, key_positions: Given, heads: Heads | None
    ) -> AtPositions:
        *_, queries, keys = sizes = shape_of(scores)
        batch = sizes[0] if len(sizes) > 3 else None
        return self.at(scores, (queries, keys), batch, start, query_positions, key_positions, heads)

    def at(
        self,
        x: Tensor,
        lengths: tuple[Size, Size],
        batch: Size,
        start: Given = 0,
        query_positions: Given = None,
        key_positions: Given = None,
        heads: Heads | None = None,
    ) -> AtPositions:
        """Return the encoding with the layer's arrays at the positions given, or counted from `start`, keys from 0.

        Args:
            x: scores or queries, prepared.
            lengths: the numbers of queries and keys.
            batch: the number of rows, or None.
            start, query_positions, key_positions: as in a call of the layer.
            heads: those of the tokens, or None for all.
        """
        (queries, keys), weights = lengths, self.arrays if heads is None else self.arrays_of(heads)
        runs_now = self.backend.compiles_each_length or not self.backend.is_recorded(x)
        for name, shape in self.learned_shapes:
            if heads is None and tuple(weights[name].shape) != shape:  # arrays of another encoding might broadcast
                check_parameters("weights", self.encoding, weights)
        at_queries = self._positions("query_positions", query_positions, queries, (start, batch), runs_now)
        at_keys = self._positions("key_positions", key_positions, keys, (0, batch), runs_now)
        kept = self.offset_table if runs_now and heads is None else None
        if kept and isinstance(at_queries, range) and isinstance(at_keys, range):
            table = kept.get(self, x, at_queries, at_keys)
            weights = weights if table is None else {**weights, OFFSET_TABLE: table}
        return AtPositions(self.encoding, at_queries, at_keys, weights)

    def _positions(self, name: str, given: Given, length: Size, rows: tuple[Given, Size], runs_now: bool) -> Tensor:
        """Return positions, checked: a range if they are consecutive, for which less has to be computed.

        Args:
            name: of the argument.
            given: positions, or None.
            length: their number.
            rows: the first position of each row of the batch, and the number of rows.
            runs_now: whether lengths are numbers, as code is not compiled for others.
        """
        start, batch = rows
        is_known = given is None and type(start) is int
        is_known = is_known and (runs_now or all(map(self._is_constant, (length, abs(start)))))
        if is_known and -LIMIT < start <= LIMIT - length:
            positions: Tensor = range(start, start + length)
            host: Tensor = positions
        else:
            positions = self.positions(name, given, length, start, batch)
            host = host_values(positions, self.backend)
        if host is not None:
            self.encoding.check_positions(name, host)
        return positions

    def _is_constant(self, size: Size) -> bool:
        """Return whether a size is the same number in each call of a compiled program."""
        return is_specialized(size, self._any_array)

    def _check_scores(self, name: str, scores: Tensor, part: Heads | None = None) -> Tensor:
        """Return scores prepared; raise unless they have the heads of the encoding, or those of `part`."""
        scores = self.check_tokens(name, scores, None)
        sizes, heads = scores.shape, self.encoding.num_heads if part is None else part.count
        if not 3 <= len(sizes) <= 4:
            check_rank(name, scores, minimum=3, maximum=4, axes="(heads, queries, keys), with a batch or without")
        if sizes[-3] != heads and is_static(sizes[-3]):
            raise ValueError(f"`{name}` must have {heads} heads, got shape {tuple(sizes)}.")
        return scores

    def _check_content(self, scores: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys prepared, if the encoding uses them; raise unless they fit the scores."""
        encoding = self.encoding
        if not encoding.uses_content:
            if q is not None or k is not None:
                raise TypeError(f"`q` and `k` must be left out for {shown(encoding)}, which looks at positions alone.")
            return None, None
        if q is None or k is None:
            raise TypeError(f"`q` and `k` must be given to {shown(encoding)}, which looks at them.")
        prepared = []
        for name, given, length in (("q", q, scores.shape[-2]), ("k", k, scores.shape[-1])):
            x = self.prepare(given, encoding.head_dim)
            if not isinstance(x, self.backend.array_types):
                raise self._wrong_framework(name, x)
            check_rank(name, x, minimum=3, maximum=4, axes="(heads, length, head_dim), with a batch or without")
            check_width(name, x, encoding.head_dim)
            heads = encoding.num_heads if encoding.mixes_heads else scores.shape[-3]
            check_broadcasts(name, x, (*scores.shape[:-3], heads, length, x.shape[-1]))
            if is_static(length) and is_static(x.shape[-2]) and x.shape[-2] != length:
                raise ValueError(f"`{name}` must be {length} long, as `scores` say, got shape {tuple(x.shape)}.")
            prepared.append(x)
        return prepared[0], prepared[1]


def _add_bias(position: AtPositions, scores: Tensor, q: Tensor = None, k: Tensor = None) -> Tensor:
    """Return scores plus the bias; encodings that do not use queries and keys take none."""
    bias: Tensor = position.scores(AttentionInputs(q, k, scores))
    return scores + (bias if bias.dtype == scores.dtype else namespace_of(scores).astype(bias, scores.dtype))
