"""Multi-head attention with positional encodings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .._array_api.checks import (
    check_broadcasts,
    check_flag,
    check_floating,
    check_integer,
    check_not_masked,
    check_rank,
    check_width,
    is_static,
    shown,
)
from .._array_api.namespace import namespace_of, shape_of
from ..attention import Dropout, merge_heads, split_heads
from ..attention.attend import Additions, Position, attend_checked, weights_checked
from ..encodings import QKNorm, QueryEncoding
from ..encodings.attention_encoding import AttentionEncoding
from ..encodings.placed import AtRows, RotatedAndBiased, RotatedTokens, check_part_of_heads
from .attention_bias import AttentionBias
from .attention_checks import (
    as_pair,
    check_attention,
    check_qk_norm,
    check_query_scale,
    check_table_options,
    missing_tokens,
)
from .attention_output import AttentionOutput
from .backend import Backend, Given, Tensor
from .base import POSITION_LAYERS, PROJECTIONS, Documented
from .heads import ALL_HEADS, Heads, PartOfHeads, parse_heads
from .positional_encoding import check_dropout
from .query_key_norm import QueryKeyNorm
from .query_scaling import QueryScaling
from .rotary_embedding import RotaryEmbedding
from .token_positions import TokenPositions, rotate_heads, rotates_no_rows, token_positions
from .visible_keys import visible_keys

if TYPE_CHECKING:
    from .base import called_like


class MultiHeadAttention(Documented):
    """Multi-head attention, as in d2l, with an optional rotary or scoring encoding.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability of dropping an attention weight in training.
        bias: whether the projections `W_q`, `W_k`, `W_v`, `W_o` have a bias.
        position: a rotary or scoring encoding, a layer with one, or a pair of a rotary and a scoring one; blocks with
            the same layer share its table. With one that remaps positions, like `SelfExtend`, calls need `causal=True`.
            In a pair, a scoring encoding that looks at queries and keys sees them before the rotation, and a cache
            has keys that are not rotated yet; where rotary positions have several axes, it counts the tokens.
        num_kv_heads: number of heads of keys and values, if fewer; each serves several neighbouring query heads.
        query_scale: the factor of queries as a function of their position, applied after any rotation. Terms of
            `position` that contain the query are scaled as well; biases are not.
        qk_norm: the RMS norm of queries and keys, before or after their rotation. Rotations inside attention, such as
            those of `SelfExtend`, and terms that look at queries and keys use the normalized ones.
        max_len: number of positions in the tables of a rotary encoding and of `query_scale` at the start.
        window: a query sees keys that are fewer positions away than this, as by `sliding_window`; with `causal=True`
            the last `window` tokens, itself included. By default all.
        auto_expand: whether eager calls beyond `max_len` grow the tables; False raises there, as traced code does.
        native: options of the framework's layer, see `Layer` of the backend.
    Raises:
        TypeError: if `position` is neither rotary nor scoring, or a layer of another framework, `query_scale` is
            neither a `QueryScale` nor a `LearnedQueryScale`, or `qk_norm` no `QKNorm`.
        ValueError: if `num_heads` does not divide `num_hiddens`, `num_kv_heads` does not divide `num_heads`, or
            `position`, `query_scale` or `qk_norm` has other sizes than the heads, `position` several axes with a
            `query_scale`, an option of tables is given where attention makes none, or a `qk_norm` comes after a
            rotation where nothing rotates before attention.

    >>> import numpy as np
    >>> from posenc_backends.numpy import MultiHeadAttention
    >>> tokens = np.ones((2, 4, 100), np.float32)
    >>> MultiHeadAttention(100, 5, 0.5)(tokens, tokens, tokens, np.array([3, 2])).shape
    (2, 4, 100)
    """

    num_hiddens: int
    num_heads: int
    num_kv_heads: int
    position: AttentionEncoding | tuple[AttentionEncoding, AttentionEncoding] | None
    rotates_in_attention: bool
    dropout: Any
    W_q: Callable[[Tensor], Tensor]
    W_k: Callable[[Tensor], Tensor]
    W_v: Callable[[Tensor], Tensor]
    W_o: Callable[[Tensor], Tensor]
    rotary: Any  # RotaryEmbedding | None, likewise the three below
    scoring: Any
    scaling: Any
    norm: Any
    query_scale: QueryEncoding | None
    qk_norm: QKNorm | None
    window: int | None
    # from the adapter, as in every layer (`AdapterLayer`), and its classes of the parts
    backend: Backend
    prepare: Callable[[Tensor, int | None], Tensor]
    active_dropout: Callable[..., Dropout | None]
    part_options: Callable[..., dict[str, dict[str, Any]]]  # of the native options, those of each part, by its name
    rotary_layer: Callable[..., RotaryEmbedding]
    scoring_layer: Callable[..., AttentionBias]
    scaling_layer: Callable[..., QueryScaling]
    norm_layer: Callable[..., QueryKeyNorm]
    method: ClassVar[str] = "attend"

    def __init__(  # noqa: PLR0913 - all that can be said of a layer
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Any = None,
        num_kv_heads: int | None = None,
        max_len: int | None = None,
        query_scale: QueryEncoding | None = None,
        window: int | None = None,
        auto_expand: bool = True,
        qk_norm: QKNorm | None = None,
        **native: Any,
    ) -> None:
        super().__init__(**native)  # of the adapter's module
        given = as_pair(position)
        shared = [self._checked_layer(one) for one in given]
        encodings = tuple([one if layer is None else layer.encoding for one, layer in zip(given, shared, strict=True)])
        num_hiddens, num_heads, self.num_kv_heads = check_attention(num_hiddens, num_heads, encodings, num_kv_heads)
        check_dropout(dropout)
        self.window = None if window is None else check_integer("window", window)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.position = encodings if len(encodings) > 1 else encodings[0] if encodings else None
        narrow = self.num_kv_heads * num_hiddens // num_heads
        parts = self.part_options(**native)
        for name, out in zip(PROJECTIONS, (num_hiddens, narrow, narrow, num_hiddens), strict=True):
            setattr(self, name, self.backend.linear(num_hiddens, out, check_flag("bias", bias), **parts.get(name, {})))
        self.dropout = self.backend.dropout(dropout)
        rotary = scoring = scaling = None
        tables: Any = {"auto_expand": check_table_options(max_len, auto_expand, (*given, query_scale))}
        for encoding, layer in zip(encodings, shared, strict=True):
            if encoding.adds_scores:  # a layer may be an empty container, which is false
                scoring = self.scoring_layer(encoding, **parts.get("scoring", {})) if layer is None else layer
            elif layer is None:
                rotary = self.rotary_layer(encoding, max_len=max_len, **tables, **parts.get("rotary", {}))
            else:
                rotary = layer
        self.rotary, self.scoring = rotary, scoring
        sees_tokens = len(encodings) > 1 and encodings[1].uses_content
        self.rotates_in_attention = rotary is not None and (sees_tokens or encodings[0].needs_attention)
        if query_scale is not None:
            check_query_scale(query_scale, encodings, num_heads)
            rows = encodings[0].longest if max_len is None and encodings else max_len
            scaling = self.scaling_layer(query_scale, max_len=rows, **tables, **parts.get("scaling", {}))
        self.query_scale, self.scaling = query_scale, scaling
        norm = None
        if qk_norm is not None:
            sizes = (num_hiddens // num_heads, num_heads, self.num_kv_heads)
            check_qk_norm(qk_norm, sizes, rotates=rotary is not None and not self.rotates_in_attention)
            norm = self.norm_layer(qk_norm, **parts.get("norm", {}))
        self.qk_norm, self.norm = qk_norm, norm

    def _checked_layer(self, position: Any) -> Any:
        """Return the layer that is given as a position; None if it is none. Raise unless blocks can share it."""
        if not isinstance(position, RotaryEmbedding | AttentionBias):
            return None
        if type(position.backend) is not type(self.backend):
            raise TypeError(
                f"`position` must be a layer of the framework that attends, got {shown(position)} of another; "
                "give its `encoding`."
            )
        self.backend.check_shared(position)
        return position

    def attend(  # noqa: PLR0913 - all that can be said of a call
        self,
        queries: Tensor,
        keys: Tensor = None,
        values: Tensor = None,
        valid_lens: Given = None,
        start: Given = 0,
        *,
        positions: Given = None,
        key_positions: Given = None,
        mask: Tensor = None,
        causal: bool | Literal["order"] = False,
        cache: Any = None,
        weights: bool = False,
        heads: Given = None,
        cos_sin: tuple[Tensor, ...] | None = None,
        **native: Any,
    ) -> Tensor:
        """Return multi-head attention, `(batch, queries, num_hiddens)`.

        Args:
            queries, keys, values: `(batch, length, num_hiddens)`; keys and values have one length.
            valid_lens: the number of valid keys, including cached keys, `(batch,)` or `(batch, queries)`.
            start: the position of the first query, or one for each batch row; with a cache, its number of tokens.
            positions: positions of the queries instead of `start`, `(queries,)` or `(batch, queries)`.
            key_positions: positions of the keys, including cached keys, instead of counting from 0.
            mask: True where a query may attend to a key; broadcasts to `(batch, num_heads, queries, keys)`.
            causal: whether to hide keys with positions after that of the query; `"order"` hides the keys that come
                after the query in the arrays, whatever their positions are, as fused kernels do.
            cache: keys and values of earlier tokens, as returned by the previous call, or `()` for an empty cache.
            weights: whether to return the attention weights.
            heads: the numbers of the heads of this process where its projections return a part of them: consecutive
                ones, a range or an array `(heads,)`, which may be traced. Sharded weights of a framework tell them.
            cos_sin: for the rotation of queries and new keys, which are as many, in place of a look-up: what `cos_sin`
                of the layer `rotary` returned for their positions. All blocks of a model take the same rows, looked up
                once per step. Masks and scores follow `start` or `positions` as ever.
            native: options of the framework's dropout, such as JAX's `key`.
        Returns:
            An array, or `AttentionOutput` if `weights` or a `cache` is requested.
        Raises:
            TypeError: if tokens are not floating-point arrays, or a position is not a number.
            ValueError: if sizes do not match, or traced code exceeds the tables.
        """
        by_order = isinstance(causal, str) and causal == "order"
        causal, weights = by_order or check_flag("causal", causal), check_flag("weights", weights)
        keys_mask = native.pop("keys_mask", None)
        dropout = self.dropout_with(native) if native else self.active_dropout()
        is_one_sequence = queries is keys
        queries, keys, values = self._prepare_tokens(queries, keys, values)
        self.check_tokens(queries, keys, values)
        processes: Any  # that share the heads, or None
        with self.backend.call_context(self.W_q) as processes:
            part = ALL_HEADS if heads is processes is None else self._part(heads, processes)
            q = self._heads("W_q", queries, self.num_heads, part.of_queries)  # (batch, heads, length, width)
            k = self._heads("W_k", keys, self.num_kv_heads, part.of_keys)
            v = self._heads("W_v", values, self.num_kv_heads, part.of_keys)
            encoding, kind = None if self.rotary is None else self.rotary.encoding, (1, 1)
            if encoding is not None:
                kind = 1 if self.rotates_in_attention else encoding.widening, encoding.num_axes
            at = token_positions(q, k, start, (positions, key_positions), cache, kind, self.backend)
            at = at._replace(is_one_sequence=is_one_sequence or at.is_one_length(q))
            self.check_order(causal)
            rotary = None if self.rotates_in_attention else self.rotary
            if rotary is None and cos_sin is not None:
                raise ValueError(rotates_no_rows(self.position))
            if self.norm is not None:
                q, k = self.norm.normalize_and_rotate(rotary, q, k, at, part, cos_sin)
            elif rotary is not None:
                q, k = rotate_heads(rotary, (q, k), at, part.of_keys, cos_sin)
            if self.query_scale is not None:
                options = {} if part.of_queries is None else {"heads": part.of_queries}
                q = self.scaling(q, start=at.start, positions=at.positions, **options)
            if at.cached:
                k, v = (namespace_of(k).concat([old, new], axis=2) for old, new in zip(cache, (k, v), strict=True))
            position, order = self._position(q, k, at, part), at.by_index if by_order else at
            hides_later = causal and not order.is_last
            is_causal = hides_later and order.starts_at_0 and not weights and valid_lens is mask is keys_mask is None
            is_causal = is_causal and (self.window is None or at.is_within(self.window))
            hidden_by = order if hides_later and not is_causal else None
            visible = visible_keys(
                q, at, self.backend, valid_lens=valid_lens, mask=mask, keys_mask=keys_mask, order=hidden_by,
                window=self.window, num_heads=self.num_heads, part=part.of_queries,
            )  # fmt: skip
            added = Additions(position, mask=visible)
            mixed = attend_checked(q, k, v, added, is_causal=is_causal, dropout=dropout)
            merged = merge_heads(mixed)
            result = self.W_o(merged if processes is None else processes.join(merged, self.W_o))
            if cache is None and not weights:
                return result
            shares = weights_checked(q, k, added) if weights else ()
            return AttentionOutput(result, shares, () if cache is None else (k, v))

    if TYPE_CHECKING:

        @called_like(attend)
        def __call__(self, *given: Any, **named: Any) -> Any: ...

    def _prepare_tokens(self, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens as the layer uses them; those that are given twice are prepared once."""
        q = self.prepare(queries, self.num_hiddens)
        k = q if keys is queries else self.prepare(keys, self.num_hiddens)
        if values is keys:
            return q, k, k
        return q, k, q if values is queries else self.prepare(values, self.num_hiddens)

    def check_tokens(self, queries: Tensor, keys: Tensor, values: Tensor) -> None:
        """Raise unless all are tokens of one batch, with a value for every key."""
        if keys is None or values is None:
            raise missing_tokens(self, keys)
        self._check_tokens("queries", queries, queries)
        if keys is not queries:
            self._check_tokens("keys", keys, queries)
        if values is keys:
            return
        self._check_tokens("values", values, queries)
        if is_static(keys.shape[1]) and is_static(values.shape[1]) and keys.shape[1] != values.shape[1]:
            raise ValueError(f"`values` must be as long as `keys`, got {values.shape[1]} and {keys.shape[1]}.")

    def _check_tokens(self, name: str, tokens: Tensor, queries: Tensor) -> None:
        """Raise unless they are tokens, of as many rows as the queries; few questions suffice for the usual ones."""
        check_not_masked(name, tokens)
        if isinstance(tokens, self.backend.array_types) and len(tokens.shape) == 3:
            (rows, _, width), batch = tokens.shape, queries.shape[0]
            is_usual = type(rows) is type(width) is type(batch) is int and rows == batch and width == self.num_hiddens
            if is_usual and self.backend.is_floating(tokens):
                return
        check_floating(name, tokens)
        check_rank(name, tokens, minimum=3, maximum=3, axes="(batch, length, num_hiddens)")
        check_width(name, tokens, self.num_hiddens)
        check_broadcasts(name, tokens, (shape_of(queries)[0], *shape_of(tokens)[1:]))

    def _part(self, heads: Given, processes: Any) -> PartOfHeads:
        """Return the heads of this process."""
        if self.qk_norm is not None and self.qk_norm.num_heads is not None:
            raise ValueError(
                f"`qk_norm` must leave out `num_heads` where processes share the heads, got {shown(self.qk_norm)}."
            )
        if heads is not None:
            check_part_of_heads(None if self.scoring is None else self.scoring.encoding)
        part: Any = parse_heads(heads, self.backend)
        part = processes.part(self.num_heads) if part is None else replace(part, processes=processes)
        return PartOfHeads(part, part.of_keys(self.num_heads, self.num_kv_heads))

    def _heads(self, name: str, tokens: Tensor, heads: int, part: Heads | None) -> Tensor:
        """Return projected tokens by head, those of this process."""
        projected = getattr(self, name)(tokens)
        if part is not None and part.processes is not None:
            projected = part.processes.split(projected)
        heads = heads if part is None else part.count
        width = heads * self.num_hiddens // self.num_heads
        if projected.shape[-1] != width:
            check_width(f"{name}(…)", projected, width)
        return split_heads(projected, heads)

    def no_weight_decay(self) -> set[str]:
        """Return the names, from the layer on, of what its encodings learn, as in `BaseLayer.no_weight_decay`."""
        parts = {name: getattr(self, name) for name in POSITION_LAYERS}
        held = {name: part for name, part in parts.items() if part is not None}
        return {f"{name}.{parameter}" for name, part in held.items() for parameter in part.no_weight_decay()}

    def check_order(self, is_causal: bool) -> None:
        """Raise if positions are remapped, which hides keys after their query, and the call does not ask for that."""
        if self.rotary is not None and self.rotary.encoding.needs_attention and not is_causal:
            raise ValueError(
                f"`causal` must be True for {shown(self.position)}, which is for causal attention, got False."
            )

    def _position(self, q: Tensor, k: Tensor, at: TokenPositions, part: PartOfHeads) -> Tensor:
        """Return the encoding at the positions of queries and all keys, if it acts in attention; else None."""
        bias: Tensor = None
        rotation: Tensor = None
        if self.scoring is not None:
            (batch, length, count), order = at.sizes, at if at.axes == 1 else at.in_order()
            self.scoring.prepare(q, None)  # its constants may have to follow the tokens to their device
            given = (order.start, order.positions, order.key_positions)
            bias = self.scoring.at(q, (length, count), batch, *given, part.of_queries)
        if self.rotary is not None and self.rotates_in_attention:
            rotation = self._rotation(q, k, at, part.of_keys)
        elif self.rotary is not None and self.rotary.encoding.widening > 1:
            rotation = RotatedTokens(self.rotary.encoding)
        if bias is None:
            return rotation
        tokens = (q, k) if bias.encoding.uses_content else None
        if part.of_queries is not None and bias.encoding.mixes_heads:
            tokens = part.of_queries.processes.gather(q), part.of_queries.processes.gather(k)
        elif rotation is None:
            return bias
        return RotatedAndBiased(Position() if rotation is None else rotation, bias, tokens)

    def _rotation(self, q: Tensor, k: Tensor, at: TokenPositions, part: Heads | None) -> AtRows:
        """Return the rotary encoding at the rows of queries and all keys, for attention to rotate them."""
        layer, encoding = self.rotary, self.rotary.encoding
        layer.prepare(q, None)
        encoding = encoding.at(at.seq_len) if encoding.max_seq_len and at.seq_len > encoding.max_seq_len else encoding
        given = (q, at.start, at.positions), (k, 0, at.key_positions)
        at_queries, at_keys = (layer.rows(*tokens, -2, encoding, part) for tokens in given)
        arrays = layer.arrays if part is None else layer.arrays_of(part)
        learned = {name: arrays[name] for name in encoding.parameters()}
        rotate_by = partial(layer.rotate_by, seq_axis=-2)
        return AtRows(encoding, at_queries, at_keys, learned, rotate_by, *at.arrays(q, self.backend))
