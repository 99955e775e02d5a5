"""Architecture: the sizes of a Transformer, its encoding, and the arrays that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._array_api.checks import check_integer
from .._values import Value
from ..encodings import Additive, ContentScoring, Encoding, Parameter, RotaryEncoding, Scoring
from ..encodings.base import Tables

PAD, START, END = 0, 1, 2  # tokens that are no characters
RESIDUAL = 0.3  # what layers add to tokens starts small: rounding errors grow slowly, and learning is steadier
SIZES = ("vocabulary", "max_len", "num_hiddens", "ffn_hiddens", "num_heads", "num_blocks")


@dataclass(frozen=True, kw_only=True, repr=False)
class Transformer(Value):
    """The sizes of a Transformer, and how it is told positions.

    Args:
        vocabulary: number of tokens, of questions and answers alike; 0 is padding, 1 comes before an answer, 2 after it.
        max_len: length of the longest sequence; frequencies that depend on a length are those for this one.
        position: an additive, rotary or scoring encoding; without one, the encoder does not see the order of its tokens.
        num_hiddens: width of tokens.
        ffn_hiddens: width inside the feed-forward layers.
        num_heads: number of heads; divides `num_hiddens`.
        num_blocks: number of blocks of the encoder, and of the decoder.
    Raises:
        TypeError: if `position` is no encoding.
        ValueError: if a size is not positive, the heads do not divide the width, or `position` does not fit them.
    Source: Vaswani et al. 2017, section 3 (arXiv:1706.03762). Projections have no bias: that of keys would not change
        the result, and Adam would blow up the rounding errors of its gradient.

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
            self._check(self.position)

    @property
    def head_dim(self) -> int:
        """Width of each head."""
        return self.num_hiddens // self.num_heads

    @property
    def encoding(self) -> Encoding | None:
        """`position`, for sequences of `max_len` positions."""
        return self.position.at(self.max_len) if isinstance(self.position, RotaryEncoding) else self.position

    def parameters(self) -> dict[str, Parameter]:
        """The arrays that are trained, by name. Encoder and decoder learn their positions apart, their blocks together."""
        named = {"embedding": Parameter(shape=(self.vocabulary, self.num_hiddens), std=self.num_hiddens**-0.5)}
        learned = {} if self.position is None else self.position.parameters()
        for side, attentions in (("encoder", ("attention",)), ("decoder", ("attention", "cross"))):
            named |= {f"{side}.position.{name}": parameter for name, parameter in learned.items()}
            for block in range(self.num_blocks):
                named |= {f"{side}.{block}.{name}": p for name, p in self._block(attentions).items()}
        return named

    def _block(self, attentions: tuple[str, ...]) -> dict[str, Parameter]:
        wide, inner = self.num_hiddens, self.ffn_hiddens
        named = {}
        for layer in attentions:
            for matrix in ("query", "key", "value"):
                named[f"{layer}.{matrix}"] = Parameter(shape=(wide, wide), std=wide**-0.5)
            named[f"{layer}.output"] = Parameter(shape=(wide, wide), std=RESIDUAL * wide**-0.5)
        named["feed_forward.inner"] = Parameter(shape=(wide, inner), std=wide**-0.5)
        named["feed_forward.inner_bias"] = Parameter(shape=(inner,), std=0.0)
        named["feed_forward.outer"] = Parameter(shape=(inner, wide), std=RESIDUAL * inner**-0.5)
        named["feed_forward.outer_bias"] = Parameter(shape=(wide,), std=0.0)
        for layer in (*attentions, "feed_forward"):
            named[f"{layer}.scale"] = Parameter(shape=(wide,), std=0.0, mean=1.0)
            named[f"{layer}.shift"] = Parameter(shape=(wide,), std=0.0)
        return named

    def initial(self, *, seed: int) -> Tables:
        """What training starts from, float32: the same numbers on every machine, for every framework."""
        numbers = np.random.RandomState(seed)
        return {
            name: (p.mean + p.std * numbers.standard_normal(p.shape)).astype(np.float32)
            for name, p in self.parameters().items()
        }

    def constants(self) -> Tables:
        """The arrays that are not trained: those of the encoding, and for each token a row that has a 1 in its column."""
        labels = np.eye(self.vocabulary, dtype=np.float32)
        labels[PAD] = 0  # padding is no answer, and adds nothing to a loss
        return {"labels": labels} | {f"position.{name}": table for name, table in self._fixed().items()}

    def _fixed(self) -> Tables:
        encoding = self.encoding
        if encoding is None:
            return {}
        if isinstance(encoding, RotaryEncoding) and encoding.num_axes > 1:  # words count the same on all of them
            return dict(zip(("cos", "sin"), encoding.cos_sin(range(self.max_len)), strict=True))
        return encoding.constants(self.max_len)

    def _check(self, position: Encoding) -> None:
        if not isinstance(position, Additive | RotaryEncoding | Scoring):
            raise TypeError(f"`position` must be an additive, rotary or scoring encoding, or None, got {position!r}.")
        fits: tuple[tuple[type, str, int], ...] = (
            (Additive, "dim", self.num_hiddens),
            (RotaryEncoding, "head_dim", self.head_dim),
            (Scoring, "num_heads", self.num_heads),
            (ContentScoring, "head_dim", self.head_dim),
        )
        for kind, name, size in fits:
            if isinstance(position, kind) and getattr(position, name) != size:
                raise ValueError(f"`position` must have `{name}` {size} to fit the other sizes, got {position!r}.")
        if isinstance(position, Additive) and position.num_axes > 1:
            raise ValueError(f"`position` must count along one axis, as words stand, got {position!r}.")
        if position.limit < self.max_len:
            raise ValueError(
                f"`max_len` must be at most {position.limit}, all that {position!r} has, got {self.max_len}."
            )
