"""The layers of the MXNet backend."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from posenc_core import layers
from posenc_core._array_api.kernels import kernel_for
from posenc_core.layers.base import POSITION_LAYERS
from posenc_core.layers.inputs import check_valid_lens, host_values

from .base import Block, Layer, called
from .state import EncodingTag
from .symbolic import views


class PositionalEncoding(layers.PositionalEncoding, Layer):
    view = views.PositionalEncodingView
    inputs = ("x",)
    __call__ = called(layers.PositionalEncoding.add)

    def graph_inputs(self, x: Any, **_: Any) -> tuple[Any, ...]:
        """Return the tokens, checked; grow the table for them."""
        self.reserve(self.check_tokens("x", x, self.encoding.dim if self.combine == "add" else None))
        return (x,)


class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    view = views.RotaryEmbeddingView
    inputs = ("q", "k")
    __call__ = called(layers.RotaryEmbedding.rotate)

    def has_graph(self, arguments: dict[str, Any]) -> bool:
        """Return whether the layer's own graph computes this call: it rotates `q` or `k` by the same tables."""
        lengths = {x.shape[-2:-1] for x in (arguments["q"], arguments["k"]) if isinstance(x, mx.np.ndarray)}
        is_usual = self.seq_axis == -2 and not self.encoding.keys_differ
        return super().has_graph(arguments) and is_usual and len(lengths) == 1

    def graph_inputs(self, q: Any, k: Any, **_: Any) -> tuple[Any, ...]:
        """Return the tokens, checked; grow the tables for them."""
        given = (q,) if k is None else (q, k)
        for name, x in zip(("q", "k"), given, strict=False):
            self.reserve(self.check_tokens(name, x, self.encoding.head_dim))
        return given

    def run_graph(self, *inputs: mx.np.ndarray) -> Any:
        """Return each rotated by the kernel, if there is one, else by the graph, which is there to be exported."""
        self.trace(inputs[0])
        if all(kernel_for(x) is not None for x in inputs):
            return layers.RotaryEmbedding.rotate(self, *inputs)
        rotated = tuple(super(RotaryEmbedding, self).run_graph(x) for x in inputs)
        return rotated if len(rotated) > 1 else rotated[0]

    def cos_sin(
        self, positions: Any, dtype: Any = "float32", columns: Any = "pairs", seq_len: int | None = None
    ) -> tuple[Any, ...]:
        if not self.backend.is_traced(positions):
            return super().cos_sin(positions, dtype, columns, seq_len)
        return self.view(self).cos_sin_symbols(positions, dtype, columns, seq_len)


class AttentionBias(layers.AttentionBias, Layer):
    view = views.AttentionBiasView
    inputs = ("scores", "q", "k")
    __call__ = called(layers.AttentionBias.add)

    def graph_inputs(self, scores: Any, q: Any, k: Any, **_: Any) -> tuple[Any, ...]:
        """Return the scores, and queries and keys where they are used, checked."""
        scores = self._check_scores("scores", scores)
        return tuple(x for x in (scores, *self._check_content(scores, q, k)) if x is not None)

    def values(
        self,
        attention: Any,
        start: Any = 0,
        query_positions: Any = None,
        key_positions: Any = None,
        heads: Any = None,
    ) -> Any:
        if not self.backend.is_traced(attention):
            return super().values(attention, start, query_positions, key_positions, heads)
        positions = {"query_positions": query_positions, "key_positions": key_positions}
        return self.view(self).run("values", {"attention": attention, "start": start, **positions})


class QueryScaling(layers.QueryScaling, Layer):
    view = views.QueryScalingView
    inputs = ("q",)
    __call__ = called(layers.QueryScaling.scale)

    def graph_inputs(self, q: Any, **_: Any) -> tuple[Any, ...]:
        """Return the queries, checked; grow the table for them."""
        self.reserve(self.check_tokens("q", q, None))
        return (q,)


class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    view = views.QueryKeyNormView
    inputs = ("q", "k")
    __call__ = called(layers.QueryKeyNorm.normalize)


class MultiHeadAttention(layers.MultiHeadAttention, Block):
    view = views.MultiHeadAttentionView
    inputs = ("queries", "keys", "values", "valid_lens", "causal")
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm
    rotary: Any

    __call__ = called(layers.MultiHeadAttention.attend)

    def has_graph(self, arguments: dict[str, Any]) -> bool:
        """Return whether the layer's own graph computes this call: not if its frequencies are for shorter sequences."""
        limit = None if self.rotary is None else self.rotary.encoding.max_seq_len
        is_long = limit is not None and max(arguments[name].shape[1] for name in ("queries", "keys")) > limit
        return super().has_graph(arguments) and not is_long

    def hybrid_forward(self, F: Any, *inputs: Any, **parameters: Any) -> Any:  # noqa: N803
        """Return the layer's own graph, whose lengths make it causal; remapped positions ask for `causal` as well."""
        remaps = self.rotary is not None and self.rotary.encoding.needs_attention
        causal = (True,) if remaps and len(inputs) == len(self.inputs) - 1 else ()
        return super().hybrid_forward(F, *inputs, *causal, **parameters)

    def graph_inputs(
        self, queries: Any, keys: Any, values: Any, valid_lens: Any, causal: bool, **_: Any
    ) -> tuple[Any, ...]:
        """Return the tokens, checked, and lengths, which the one graph always has; causal masks are lengths as well."""
        self.check_order(causal)
        self.check_tokens(queries, keys, values)
        if self.rotary is not None:
            for tokens in (queries, keys):
                self.rotary.reserve(tokens)
        if self.query_scale is not None:
            self.scaling.reserve(queries)
        sizes = (len(queries), queries.shape[1], keys.shape[1])
        lengths: Any = np.full(len(keys), sizes[2]) if valid_lens is None else host_values(valid_lens, self.backend)
        check_valid_lens(lengths.shape, lengths, sizes)
        if causal:
            lengths = np.minimum(lengths.reshape(len(lengths), -1), 1 + np.arange(sizes[1]))
        return queries, keys, values, self.backend.from_numpy(lengths.astype(np.int32), like=queries)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, gluon.Parameter]:
        """Return what is saved: parameters, and the encodings of the parts, also of those that learn nothing."""
        saved: dict[str, gluon.Parameter] = super()._collect_params_with_prefix(prefix)
        start = f"{prefix}." if prefix else ""
        parts = {f"{start}{name}": getattr(self, name) for name in POSITION_LAYERS}
        unlearned = {name: part for name, part in parts.items() if part is not None and f"{name}.encoding" not in saved}
        learned = next(parameter for parameter in saved.values() if not isinstance(parameter, EncodingTag))
        return {f"{name}.encoding": EncodingTag(part.encoding, learned) for name, part in unlearned.items()} | saved
