"""Config: the sizes of a Transformer, its encoding, and its arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._array_api.checks import check_integer, shown
from .._values import Value
from ..encodings import Additive, Encoding, Parameter, RotaryEncoding
from ..encodings.attention_encoding import AttentionEncoding
from ..encodings.base import Tables

PAD, START, END = 0, 1, 2  # special tokens
RESIDUAL = 0.3  # residual branches start small: rounding errors grow slowly, and training is steadier
SIZES = ("vocabulary", "max_len", "num_hiddens", "ffn_hiddens", "num_heads", "num_blocks")


@dataclass(frozen=True, kw_only=True, repr=False)
class Transformer(Value):
    """The sizes of a Transformer, and its position encoding.

    Args:
        vocabulary: number of tokens of questions and answers; 0 is padding, 1 starts an answer, 2 ends it.
        max_len: length of the longest sequence; frequencies that depend on a length are those of this one.
        position: an additive, rotary or scoring encoding; None for no positions: the encoder cannot see the order of
            tokens.
        num_hiddens: width of tokens.
        ffn_hiddens: width inside the feed-forward layers.
        num_heads: number of heads, a divisor of `num_hiddens`.
        num_blocks: number of blocks of the encoder, and of the decoder.
    Raises:
        TypeError: if `position` is not an encoding.
        ValueError: if a size is not positive, the heads do not divide the width, or `position` does not fit them.
    Source: Vaswani et al. 2017, section 3 (arXiv:1706.03762). Projections have no bias: a bias of the keys would not
        change the result, and Adam would amplify the rounding errors of its gradient.

    >>> Transformer(vocabulary=5, max_len=4).parameters()["embedding"]
    Parameter(shape=(5, 64), std=0.125, mean=0.0)
    """

    vocabulary: int
    max_len: int
    position: Encoding | None = None
    num_hiddens: int = 64
    ffn_hiddens: int = 128
    num_heads: int = 4
    num_blocks: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in SIZES:
            check_integer(name, getattr(self, name))
        if self.num_hiddens % self.num_heads:
            raise ValueError(f"`num_heads` must divide the `num_hiddens` {self.num_hiddens}, got {self.num_heads}.")
        if self.position is not None:
            self._check_position(self.position)

    @property
    def head_dim(self) -> int:
        """Width of each head."""
        return self.num_hiddens // self.num_heads

    @property
    def encoding(self) -> Encoding | None:
        """`position`, for sequences of `max_len` positions."""
        return self.position.at(self.max_len) if isinstance(self.position, RotaryEncoding) else self.position

    def parameters(self) -> dict[str, Parameter]:
        """Return the trained arrays, by name. Each side has its own position parameters; its blocks share them."""
        parameters = {"embedding": Parameter(shape=(self.vocabulary, self.num_hiddens), std=self.num_hiddens**-0.5)}
        learned = {} if self.position is None else self.position.parameters()
        for side, attentions in (("encoder", ("attention",)), ("decoder", ("attention", "cross"))):
            parameters |= {f"{side}.position.{name}": parameter for name, parameter in learned.items()}
            for block in range(self.num_blocks):
                parameters |= {f"{side}.{block}.{name}": p for name, p in self._block(attentions).items()}
        return parameters

    def _block(self, attentions: tuple[str, ...]) -> dict[str, Parameter]:
        width, inner = self.num_hiddens, self.ffn_hiddens
        parameters = {}
        for layer in attentions:
            for matrix in ("query", "key", "value"):
                parameters[f"{layer}.{matrix}"] = Parameter(shape=(width, width), std=width**-0.5)
            parameters[f"{layer}.output"] = Parameter(shape=(width, width), std=RESIDUAL * width**-0.5)
        parameters["feed_forward.inner"] = Parameter(shape=(width, inner), std=width**-0.5)
        parameters["feed_forward.inner_bias"] = Parameter(shape=(inner,), std=0.0)
        parameters["feed_forward.outer"] = Parameter(shape=(inner, width), std=RESIDUAL * inner**-0.5)
        parameters["feed_forward.outer_bias"] = Parameter(shape=(width,), std=0.0)
        for layer in (*attentions, "feed_forward"):
            parameters[f"{layer}.scale"] = Parameter(shape=(width,), std=0.0, mean=1.0)
            parameters[f"{layer}.shift"] = Parameter(shape=(width,), std=0.0)
        return parameters

    def initial(self, *, seed: int) -> Tables:
        """Return the initial values of the parameters, float32: the same on every machine, for every framework.

        Raises:
            TypeError, ValueError: if `seed` is not an integer from 0 to 2**32 - 1.
        """
        seed = check_integer("seed", seed, minimum=0, maximum=2**32 - 1)
        random = np.random.RandomState(seed)
        return {
            name: p.initial(random.standard_normal(p.shape)).astype(np.float32) for name, p in self.parameters().items()
        }

    def constants(self) -> Tables:
        """Return the arrays that are not trained: the tables of the encoding, and one-hot rows for the tokens."""
        labels = np.eye(self.vocabulary, dtype=np.float32)
        labels[PAD] = 0  # padding adds nothing to the loss
        return {"labels": labels} | {f"position.{name}": table for name, table in self._tables().items()}

    def _tables(self) -> Tables:
        encoding = self.encoding
        if encoding is None:
            return {}
        if isinstance(encoding, RotaryEncoding) and encoding.num_axes > 1 and not encoding.computes_rows:
            # a token has the same position on all axes
            return dict(zip(("cos", "sin"), encoding.cos_sin(range(self.max_len)), strict=True))
        return encoding.constants(self.max_len)

    def _check_position(self, position: Encoding) -> None:
        if not isinstance(position, Additive | AttentionEncoding) or position.needs_attention:
            raise TypeError(
                f"`position` must be an additive, rotary or scoring encoding, or None, got {shown(position)}."
            )
        if isinstance(position, AttentionEncoding):
            position.check_sizes(self.head_dim, self.num_heads, self.num_heads)
        elif position.dim != self.num_hiddens:
            raise ValueError(
                f"`position` must have `dim` {self.num_hiddens} to fit the other sizes, got {shown(position)}."
            )
        elif position.num_axes > 1:
            raise ValueError(f"`position` must have one axis, as tokens have, got {shown(position)}.")
        if position.limit < self.max_len:
            raise ValueError(
                f"`max_len` must be at most {position.limit}, the length of {shown(position)}, got {self.max_len}."
            )
