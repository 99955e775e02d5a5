"""The layers as modules of `flax.nnx`: parameters are `nnx.Param`, tables are constants.

>>> from flax import nnx
>>> from jax import numpy as jnp
>>> from posenc_backends.jax.flax import MultiHeadAttention
>>> from posenc_core import T5Bias
>>> attention = MultiHeadAttention(16, 2, position=T5Bias(num_heads=2), rngs=nnx.Rngs(0))
>>> x = jnp.ones((1, 5, 16))
>>> attention(x, x, x).shape
(1, 5, 16)
>>> sorted(nnx.state(attention, nnx.Param))
['W_k', 'W_o', 'W_q', 'W_v', 'scoring']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from posenc_backends import require

require("flax")

from flax import nnx

if not hasattr(nnx, "data"):
    raise ImportError("`posenc_backends.jax.flax` needs flax 0.12 or newer; run `pip install -U flax`.", name="flax")

import jax
from jax import Array
from jax import numpy as jnp

from posenc_core import layers
from posenc_core.encodings import Encoding
from posenc_core.layers import Backend
from posenc_core.layers.base import POSITION_LAYERS, PROJECTIONS

from . import base
from .backend import JaxBackend
from .module import normal
from .namespace import product_sharding

__all__ = ["AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding"]


class FlaxBackend(JaxBackend):
    """JAX, with the projections and the dropout of `flax.nnx`."""

    check_shared = layers.Backend.check_shared  # a module that several blocks hold is one module in `nnx.split`

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> nnx.Linear:
        """Return a projection of flax."""
        options = {"promote_dtype": _to_tokens_dtype, "dot_general": _dot_general, **options}
        return nnx.Linear(width, out, use_bias=bias, **options)

    def dropout(self, rate: float, /) -> nnx.Dropout:
        """Return a dropout of flax, which `train()` and `eval()` of a model switch."""
        return nnx.Dropout(rate)


class Module(base.Prepared, nnx.Module):
    """The base of every layer, attention included.

    Args:
        rngs: the random keys: `params` draws initial parameters, and must be given to a layer that draws some;
            `dropout` draws the numbers to drop, without it each call in training must have `rngs`.
        param_dtype: the dtype of the parameters.
        linear: options of `nnx.Linear` for the projections: `kernel_init`, `bias_init`, `dtype`, `kernel_metadata`,
            `bias_metadata` …; `out_kernel_init` and `out_kernel_metadata` are those of the last projection, whose
            rows tensor parallelism splits.
    Raises:
        TypeError: if the keys are missing where numbers are drawn.
    """

    backend: Backend = FlaxBackend()
    dropout: nnx.Dropout

    def __init__(self, *, rngs: nnx.Rngs | None = None, param_dtype: Any = jnp.float32, **linear: Any) -> None:
        super().__init__()

    def active_dropout(self, *, deterministic: bool | None = None, rngs: Any = None) -> Any:
        """Return the dropout of this call, or None without dropout.

        Args:
            deterministic: whether to drop nothing, by default as `train()` or `eval()` set it; a new layer drops.
            rngs: the random keys for dropout, by default those of the layer.
        """
        return partial(self.dropout, deterministic=deterministic, rngs=rngs) if self.dropout.rate else None

    def part_options(
        self, *, rngs: nnx.Rngs | None = None, param_dtype: Any = jnp.float32, **linear: Any
    ) -> dict[str, dict[str, Any]]:
        """Return the random keys for each part that has parameters, and how projections are made."""
        own = {"rngs": _checked(rngs, is_needed=True), "param_dtype": param_dtype}
        of_last = {name.removeprefix("out_"): linear.pop(name) for name in [*linear] if name.startswith("out_")}
        linear |= own
        parts = dict.fromkeys(POSITION_LAYERS, own) | dict.fromkeys(PROJECTIONS, linear)
        return {**parts, "W_o": {**linear, **of_last}}


class Layer(base.EncodingArrays, Module):
    """A layer whose parameters are `nnx.Param`."""

    def __init__(
        self,
        encoding: Encoding,
        max_len: int = 0,
        /,
        *,
        rngs: nnx.Rngs | None = None,
        param_dtype: Any = jnp.float32,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.set_tables(encoding.constants(max_len))
        named = encoding.parameters().items()
        rngs = _checked(rngs, is_needed=any(parameter.is_drawn for _, parameter in named))
        drawn = {name: p.initial(normal(rngs.params(), p.shape)) for name, p in named}
        self.parameters = nnx.data({name: nnx.Param(jnp.asarray(own, param_dtype)) for name, own in drawn.items()})


def _checked(rngs: nnx.Rngs | None, *, is_needed: bool) -> nnx.Rngs:
    """Return the random keys; raise if they are missing and needed."""
    if rngs is None and is_needed:
        raise TypeError("`rngs` must be given to a layer that draws initial parameters, such as `nnx.Rngs(0)`.")
    return nnx.Rngs(0) if rngs is None else rngs


def _with_keys(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of a layer that gives its dropout the random keys."""

    @wraps(init)
    def with_keys(self: Any, *args: Any, rngs: nnx.Rngs | None = None, **options: Any) -> None:
        init(self, *args, rngs=rngs, **options)
        if self.dropout.rate and rngs is not None:
            self.dropout = nnx.Dropout(self.dropout.rate, rngs=rngs)

    return with_keys


class PositionalEncoding(layers.PositionalEncoding, Layer):
    __init__ = _with_keys(layers.PositionalEncoding.__init__)
    __call__ = layers.PositionalEncoding.add


class RotaryEmbedding(layers.RotaryEmbedding, Layer):
    __call__ = layers.RotaryEmbedding.rotate


class AttentionBias(layers.AttentionBias, Layer):
    __call__ = layers.AttentionBias.add


class QueryScaling(layers.QueryScaling, Layer):
    __call__ = layers.QueryScaling.scale


class QueryKeyNorm(layers.QueryKeyNorm, Layer):
    __call__ = layers.QueryKeyNorm.normalize


class MultiHeadAttention(layers.MultiHeadAttention, Module):
    rotary_layer = RotaryEmbedding
    scoring_layer = AttentionBias
    scaling_layer = QueryScaling
    norm_layer = QueryKeyNorm

    __init__ = _with_keys(layers.MultiHeadAttention.__init__)
    __call__ = layers.MultiHeadAttention.attend


def _dot_general(x: Array, kernel: Array, *numbers: Any, out_sharding: Any = None, **options: Any) -> Array:
    """Return their product, with the sharding that JAX asks for where both are sharded along the axis summed."""
    sharding = product_sharding(x, kernel) if out_sharding is None else out_sharding
    return jax.lax.dot_general(x, kernel, *numbers, out_sharding=sharding, **options)


def _to_tokens_dtype(arrays: tuple[Any, ...], *, dtype: Any = None, **_: Any) -> tuple[Array | None, ...]:
    """Return tokens, kernel and bias in this dtype, by default that of the tokens, as in every backend."""
    dtype = arrays[0].dtype if dtype is None else dtype
    return tuple([None if array is None else jnp.asarray(array).astype(dtype) for array in arrays])
