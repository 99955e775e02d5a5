"""The layers of the JAX room."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import jax
from jax import Array
from jax import numpy as jnp

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, Encoding, Rotary, Scoring
from posenc_core.encodings.encoding import Tables
from posenc_core.lookup import Holder

from . import arrays


class Module:
    """An immutable pytree: the attributes named in `children` lead to its parameters, the others are static."""

    children: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        jax.tree_util.register_pytree_with_keys(cls, cls._flattened, cls._unflattened)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise AttributeError(f"`{name}` of a {type(self).__name__} is set for good; make another.")
        super().__setattr__(name, value)

    def _flattened(self) -> tuple[list[tuple[Any, Any]], tuple[tuple[str, Any], ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in self.children]
        return children, tuple(item for item in vars(self).items() if item[0] not in self.children)

    @classmethod
    def _unflattened(cls, static: Iterable[tuple[str, Any]], children: Iterable[Any]) -> Module:
        module = object.__new__(cls)
        vars(module).update(static)
        vars(module).update(zip(cls.children, children, strict=True))
        return module


@dataclass(frozen=True)
class Constants:
    """The arrays that a layer's encoding implies: no leaves; between two layers of one encoding, a number of rows."""

    rows: int
    arrays: dict[str, Array] = field(default_factory=dict, compare=False, repr=False)


class Layer(Holder, Module):
    """Holds an encoding: its constants as float32 arrays that no map over leaves reaches, its parameters as leaves."""

    room = arrays
    children = ("parameters",)
    constants: Constants

    def __init__(self, encoding: Encoding, max_len: int = 0, key: Any = None) -> None:
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        named = encoding.parameters().items()
        keys = split(key, len(named))
        self.parameters = {name: normal(key, p.shape, p.std) for (name, p), key in zip(named, keys, strict=True)}

    def hold(self, constants: Tables) -> None:
        ours = {name: arrays.from_numpy(constant) for name, constant in constants.items()}
        rows = max((len(constant) for constant in ours.values()), default=0)
        vars(self)["constants"] = Constants(rows, ours)  # others than before, so that what was compiled is so again

    @property
    def held(self) -> dict[str, Any]:
        return {**self.constants.arrays, **self.parameters}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding})"


class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in calls that bring a `key`.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.
        key: what parameters are drawn from; `jax.random.key(0)` by default.

    >>> PositionalEncoding(4)(jnp.zeros((1, 2, 4)))
    Array([[[0.        , 1.        , 0.        , 1.        ],
            [0.84147096, 0.5403023 , 0.00999983, 0.99995   ]]], dtype=float32)
    """

    def __init__(
        self,
        num_hiddens: int,
        dropout: float = 0.0,
        max_len: int = 1000,
        *,
        encoding: Additive | None = None,
        combine: Combine = "add",
        key: Any = None,
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len, key)
        self.combine = combine
        self.dropout = dropout

    @property
    def P(self) -> Array:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.tables[0][None]

    def __call__(self, x: Array, start: Any = 0, positions: Any = None, *, key: Any = None) -> Array:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return dropped(self.added(jnp.asarray(x), start, positions), self.dropout, key)


class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a `Rotary`.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.

    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> rope(jnp.ones((1, 1, 2, 2)))
    Array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]], dtype=float32)
    """

    def __init__(self, encoding: Rotary, *, max_len: int = 2048) -> None:
        layers.check_kind(encoding, Rotary)
        super().__init__(encoding, max_len)

    def __call__(
        self, q: Array, k: Array | None = None, start: Any = 0, positions: Any = None, seq_axis: int = -2
    ) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says."""
        return self.rotated(jnp.asarray(q), None if k is None else jnp.asarray(k), start, positions, seq_axis)


class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.
        key: what parameters are drawn from; `jax.random.key(0)` by default.

    >>> from posenc_core import Alibi
    >>> AttentionBias(Alibi(num_heads=1))(jnp.zeros((1, 1, 2, 2)))
    Array([[[[ 0.        , -0.00390625],
             [-0.00390625,  0.        ]]]], dtype=float32)
    """

    def __init__(self, encoding: Scoring, *, key: Any = None) -> None:
        layers.check_kind(encoding, Scoring)
        super().__init__(encoding, key=key)

    def __call__(self, scores: Array, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Array:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0."""
        return self.biased(jnp.asarray(scores), start, query_positions, key_positions)


class Linear(Module):
    """`x @ weight`, plus a bias if there is one: `(..., width) -> (..., width)`."""

    children = ("weight", "bias")

    def __init__(self, width: int, bias: bool, key: Array) -> None:
        self.weight = normal(key, (width, width), 1 / math.sqrt(width))
        self.bias = jnp.zeros(width, jnp.float32) if bias else None

    def __call__(self, x: Array) -> Array:
        product = x @ self.weight
        return product if self.bias is None else product + self.bias


class MultiHeadAttention(layers.Attention, Module):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in calls that bring a `key`.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.
        key: what parameters are drawn from; `jax.random.key(0)` by default.

    >>> MultiHeadAttention(100, 5, 0.5)(*[jnp.ones((2, 4, 100))] * 3, jnp.array([3, 2])).shape
    (2, 4, 100)
    """

    room = arrays
    children = ("W_q", "W_k", "W_v", "W_o", "rotary", "scoring")

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
        key: Any = None,
    ) -> None:
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        *keys, scoring_key = split(key, 5)
        self.num_hiddens, self.num_heads = num_hiddens, num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (Linear(num_hiddens, bias, key) for key in keys)
        self.dropout = dropout
        self.rotary = RotaryEmbedding(position) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position, key=scoring_key) if isinstance(position, Scoring) else None

    def __call__(self, queries: Array, keys: Array, values: Array, valid_lens: Any = None, *, key: Any = None) -> Array:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count."""
        return self.attended(queries, keys, values, valid_lens, partial(dropped, rate=self.dropout, key=key))


def split(key: Any, count: int) -> list[Array]:
    """As many keys, drawn from one, which is `jax.random.key(0)` by default."""
    return list(jax.random.split(jax.random.key(0) if key is None else key, count))


def normal(key: Array, shape: tuple[int, ...], std: float) -> Array:
    """Normally distributed numbers of mean 0, float32 also where JAX would take float64."""
    return std * jax.random.normal(key, shape, jnp.float32)


def dropped(x: Array, rate: float, key: Any) -> Array:
    """`x` with the share `rate` of its numbers set to 0 and the others scaled up; as it is without a key."""
    if key is None or rate == 0:
        return x
    kept = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(kept, x / (1 - rate), 0)
