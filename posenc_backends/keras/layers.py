"""The layers of the Keras room."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import keras

from posenc_core import layers
from posenc_core.addition import Combine
from posenc_core.encodings import Additive, Encoding, Rotary, Scoring
from posenc_core.encodings.encoding import Tables
from posenc_core.lookup import Holder

from . import arrays

Tensor: TypeAlias = Any  # TensorFlow's, JAX's or PyTorch's
Shape: TypeAlias = tuple[Any, ...]

register = keras.saving.register_keras_serializable(package="posenc")


class Shell(keras.layers.Layer):
    """A Keras layer that takes its arguments as they come: the dtype policy is for tokens, and rounds no position."""

    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_masking = True
        self.built = True

    def tokens(self, x: Any) -> Any:
        """`x` as a tensor in the dtype in which the policy computes."""
        return self.dtype_policy.convert_input(keras.ops.convert_to_tensor(x), True, self.compute_dtype)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Shell:
        encodings = {name: Encoding.from_dict(config[name]) for name in ("encoding", "position") if config.get(name)}
        return super().from_config({**config, **encodings})


class Layer(Holder, Shell):
    """Holds an encoding: its constants as float32 tensors that are no weights, its parameters as weights."""

    room = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.encoding = encoding
        self.max_len = max_len
        self.hold(encoding.constants(max_len))
        self.learned = {
            name: self.add_weight(
                shape=parameter.shape,
                initializer=keras.initializers.RandomNormal(stddev=parameter.std),
                autocast=False,
                name=name,
            )
            for name, parameter in encoding.parameters().items()
        }

    def hold(self, constants: Tables) -> None:
        tensors = {name: keras.ops.convert_to_tensor(arrays.from_numpy(table)) for name, table in constants.items()}
        self.constants = MappingProxyType(tensors)  # Keras would track a dict

    @property
    def held(self) -> dict[str, Any]:
        return {**self.constants, **{name: variable.value for name, variable in self.learned.items()}}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoding": self.encoding.to_dict()}


@register
class PositionalEncoding(layers.Addition, Layer):
    """Adds (or appends) the rows of an additive encoding to tokens; without `encoding`, the paper's sinusoids.

    Args:
        num_hiddens: width of the encoding; of the tokens too, unless `combine="concat"`.
        dropout: probability that a number of the result is dropped in training.
        max_len: number of rows held from the start; eager calls beyond it grow the table.
        encoding: an additive encoding of `dim` `num_hiddens`.
        combine: `"add"`, or `"concat"` to append the columns.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> arrays.to_numpy(PositionalEncoding(4)(keras.ops.zeros((1, 2, 4))))
    array([[[0.        , 1.        , 0.        , 1.        ],
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
        **options: Any,
    ) -> None:
        layers.check_dropout(dropout)
        super().__init__(layers.additive_for(num_hiddens, encoding, combine), max_len, **options)
        self.combine = combine
        self.dropout = keras.layers.Dropout(dropout, autocast=False)

    @property
    def P(self) -> Tensor:  # noqa: N802
        """The table, `(1, max_len, num_hiddens)`, as it is held: to read, not to write."""
        return self.tables[0][None]

    def call(self, x: Tensor, start: Any = 0, positions: Any = None, training: bool | None = None) -> Tensor:
        """`x`, `(..., length, num_hiddens)`, with its positions; they count from `start`, or are given."""
        return self.dropout(self.added(self.tokens(x), start, positions), training=training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], input_shape[-1] + (self.combine == "concat") * self.encoding.dim)

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.encoding.dim, "dropout": self.dropout.rate, "max_len": self.max_len}
        return {**super().get_config(), **sizes, "combine": self.combine}


@register
class RotaryEmbedding(layers.Rotation, Layer):
    """Rotates queries and keys by the angles of their positions.

    Args:
        encoding: a `Rotary`.
        max_len: number of positions held from the start; eager calls beyond it grow the tables.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> rope = RotaryEmbedding(Rotary(head_dim=2, layout="half"))
    >>> arrays.to_numpy(rope(keras.ops.ones((1, 1, 2, 2))))
    array([[[[ 1.        ,  1.        ],
             [-0.30116868,  1.3817732 ]]]], dtype=float32)
    """

    def __init__(self, encoding: Rotary, *, max_len: int = 2048, **options: Any) -> None:
        layers.check_kind(encoding, Rotary)
        super().__init__(encoding, max_len, **options)

    def call(
        self, q: Tensor, k: Tensor | None = None, start: Any = 0, positions: Any = None, seq_axis: int = -2
    ) -> Any:
        """What was given, `q` or `q` and `k`, rotated; `(batch, heads, length, head_dim)`, or as `seq_axis` says."""
        return self.rotated(self.tokens(q), None if k is None else self.tokens(k), start, positions, seq_axis)

    def compute_output_shape(self, q_shape: Shape, k_shape: Shape | None = None) -> Any:
        return q_shape if k_shape is None else (q_shape, k_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_len": self.max_len}


@register
class AttentionBias(layers.Bias, Layer):
    """Adds to attention scores what a scoring encoding knows of the positions.

    Args:
        encoding: a scoring encoding.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> from posenc_core import Alibi
    >>> arrays.to_numpy(AttentionBias(Alibi(num_heads=1))(keras.ops.zeros((1, 1, 2, 2))))
    array([[[[ 0.        , -0.00390625],
             [-0.00390625,  0.        ]]]], dtype=float32)
    """

    def __init__(self, encoding: Scoring, **options: Any) -> None:
        layers.check_kind(encoding, Scoring)
        super().__init__(encoding, **options)

    def call(self, scores: Tensor, start: Any = 0, query_positions: Any = None, key_positions: Any = None) -> Tensor:
        """`scores`, `(batch, heads, queries, keys)`, plus the bias; queries count from `start`, keys from 0."""
        return self.biased(self.tokens(scores), start, query_positions, key_positions)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@register
class MultiHeadAttention(layers.Attention, Shell):
    """Multi-head attention, as in d2l, with the positions inside where a rotary or scoring encoding is given.

    Args:
        num_hiddens: width of queries, keys, values and result.
        num_heads: number of heads; divides `num_hiddens`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have a bias.
        position: a rotary or scoring encoding.
        options: those of every Keras layer: `name`, `dtype`, `trainable`.

    >>> tuple(MultiHeadAttention(100, 5, 0.5)(*[keras.ops.ones((2, 4, 100))] * 3, [3, 2]).shape)
    (2, 4, 100)
    """

    room = arrays

    def __init__(
        self,
        num_hiddens: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = False,
        *,
        position: Rotary | Scoring | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        layers.check_attention(num_hiddens, num_heads, position)
        layers.check_dropout(dropout)
        self.num_hiddens, self.num_heads, self.bias, self.position = num_hiddens, num_heads, bias, position
        linear = partial(projection, num_hiddens, use_bias=bias, dtype=self.dtype_policy)
        self.W_q, self.W_k, self.W_v, self.W_o = linear(), linear(), linear(), linear()
        self.dropout = keras.layers.Dropout(dropout, autocast=False)
        self.rotary = RotaryEmbedding(position, dtype=self.dtype_policy) if isinstance(position, Rotary) else None
        self.scoring = AttentionBias(position) if isinstance(position, Scoring) else None

    def call(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        valid_lens: Any = None,
        keys_mask: Any = None,
        training: bool | None = None,
    ) -> Tensor:
        """`(batch, queries, num_hiddens)`; `valid_lens`, `(batch,)` or `(batch, queries)`, says how many keys count.

        Keras itself gives `keys_mask`, where the keys come from a layer with a mask.
        """
        return self.attended(queries, keys, values, valid_lens, partial(self.dropout, training=training), keys_mask)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        sizes = {"num_hiddens": self.num_hiddens, "num_heads": self.num_heads, "dropout": self.dropout.rate}
        position = None if self.position is None else self.position.to_dict()
        return {**super().get_config(), **sizes, "bias": self.bias, "position": position}


def projection(num_hiddens: int, **options: Any) -> keras.layers.Dense:
    """A `Dense` layer that has its weights from the start."""
    dense = keras.layers.Dense(num_hiddens, **options)
    dense.build((None, num_hiddens))
    return dense
