"""A Transformer's decoder of d2l's parts, which its page defines and its package does not have.

It asks of attention and of positions what the page's asks. Tokens that come one by one are kept before their
projection, and each is said to stand at position 0, as on the page; `arange_like` says where it stands, which the page
forgets.
"""

from typing import NamedTuple

import numpy as np

from posenc_core._array_api.namespace import namespace_of


class Sizes(NamedTuple):
    vocabulary: int
    width: int
    ffn: int
    num_heads: int
    num_blks: int
    dropout: float


def decoder(original, sizes, arange_like=False):
    """A decoder as a layer of the framework."""
    parts = original.parts

    class Decoder(original.book.AttentionDecoder):
        def __init__(self):
            super().__init__()
            furnish(self, parts, sizes)

        def init_state(self, memory, lengths):
            return begun(sizes, memory, lengths)

        @property
        def attention_weights(self):
            return self.seen

    def call(self, tokens, state, training=False):
        logits, state, self.seen = decoded(self, original, sizes, (tokens, state, arange_like), parts.mode(training))
        return logits, state

    setattr(Decoder, parts.call, call)
    return Decoder()


def flax_decoder(original, sizes, arange_like=False):
    """A decoder as a module of Flax."""
    parts = original.parts

    class Decoder(parts.nn.Module):
        def setup(self):
            furnish(self, parts, sizes)

        def init_state(self, memory, lengths):
            return begun(sizes, memory, lengths)

        def __call__(self, tokens, state, training=False):
            logits, state, seen = decoded(self, original, sizes, (tokens, state, arange_like), parts.mode(training))
            self.sow("intermediates", "dec_attention_weights", seen)
            return logits, state

    return Decoder()


def begun(sizes, memory, lengths):
    """The state in which no token is known yet."""
    return [memory, lengths, [None] * sizes.num_blks]


def furnish(self, parts, sizes):
    """Give a decoder its parts, those of a block with its number at the end."""
    self.embedding = parts.embedding(sizes.vocabulary, sizes.width)
    self.pos_encoding = parts.book.PositionalEncoding(sizes.width, sizes.dropout)
    for i in range(sizes.num_blks):
        for name in (f"attention1_{i}", f"attention2_{i}"):
            setattr(self, name, parts.attention(sizes.width, sizes.num_heads, sizes.dropout))
        for name in (f"addnorm1_{i}", f"addnorm2_{i}", f"addnorm3_{i}"):
            setattr(self, name, parts.addnorm(sizes.width, sizes.dropout))
        setattr(self, f"ffn_{i}", parts.ffn(sizes.width, sizes.ffn))
    self.dense = parts.dense(sizes.width, sizes.vocabulary)


def decoded(self, original, sizes, given, mode):
    """Logits, the state after these tokens, and the weights: of self-attention and of the question, for each block."""
    tokens, (memory, lengths, held), arange_like = given
    start = (0 if held[0] is None else held[0].shape[1],) if arange_like else ()
    x = self.pos_encoding(self.embedding(tokens) * sizes.width**0.5, *start, **mode)
    seen = original.native_lengths(np.tile(np.arange(1, x.shape[1] + 1), (x.shape[0], 1))) if held[0] is None else None
    known, weights = [], ([], [])
    for i, before in enumerate(held):
        known.append(x if before is None else namespace_of(x).concat([before, x], axis=1))
        attentions = (known[i], seen), (memory, lengths)
        for number, (keys, hidden) in enumerate(attentions, start=1):
            mixed, weight = attended(getattr(self, f"attention{number}_{i}"), x, keys, hidden, mode)
            x = getattr(self, f"addnorm{number}_{i}")(x, mixed, **mode)
            weights[number - 1].append(weight)
        x = getattr(self, f"addnorm3_{i}")(x, getattr(self, f"ffn_{i}")(x), **mode)
    return self.dense(x), [memory, lengths, known], list(weights)


def attended(layer, queries, keys, lengths, mode):
    """Return the result of attention and its weights: Flax's gives both, others keep them where d2l looks for them."""
    given = layer(queries, keys, keys, lengths, **mode)
    return given if isinstance(given, tuple) else (given, layer.attention.attention_weights)
