"""d2l's formulas in float64, and how far float32 may be from them, whatever the order of a sum.

A rounding moves a number by at most `UNIT` of its size. For a table, which has few, the worst case is added up. For
attention the worst case says nothing: the roundings of thousands of products would all have to conspire. There each
counts as independent of the others and as evenly spread, `ROUNDING` its variance, and variances are passed on to first
order (Higham and Mary 2019, SIAM J. Sci. Comput. 41: a sum of n terms is off by a few √n units, not n). No result may
be off by more than `DEVIATIONS` standard deviations, which chance allows once in 10⁸.
"""

from typing import NamedTuple

import numpy as np

UNIT = 2.0**-24
ROUNDING = UNIT**2 / 3
DEVIATIONS = 6
# Of an exponential, a sine or a power: libraries promise a unit in the last place, two roundings; some keep to two
# units.
FUNCTION = 4


class Near(NamedTuple):
    """The true numbers, and the variance of those of float32."""

    value: np.ndarray
    variance: np.ndarray

    @property
    def slack(self):
        """How far each number may be from the true one."""
        return DEVIATIONS * np.sqrt(self.variance)

    def __matmul__(self, other):
        """Round each product and each partial sum: a part k / n of the result, give or take what its terms scatter by.

        Over all k the squares of those come to n (result² / 3 + squared products / 6), if the order has no pattern.
        """
        squares, others = self.value**2, other.value**2
        passed = squares @ other.variance + self.variance @ others
        value, terms = self.value @ other.value, self.value.shape[-1]
        return Near(value, passed + ROUNDING * (terms * value**2 / 3 + (terms / 6 + 1) * (squares @ others)))

    def __add__(self, other):
        value = self.value + other.value
        return Near(value, self.variance + other.variance + ROUNDING * value**2)

    def scaled(self, factor):
        """Times a constant: it is rounded, and so is the product."""
        return Near(self.value * factor, factor**2 * (self.variance + 2 * ROUNDING * self.value**2))

    def through(self, change):
        """With axes moved or split."""
        return Near(change(self.value), change(self.variance))


def exact(numbers):
    """Numbers that are given in float32."""
    wide = np.asarray(numbers, np.float64)
    return Near(wide, np.zeros_like(wide))


def sinusoids(positions, dim):
    """The paper's rows, `(positions, dim)`, and how far they may be off by float32 angles.

    The frequency `10000 ** -e` has a rounded `e`, which moves it by |ln f| roundings, and the power's own; the quotient
    with the position has one more. The sine passes the angle's error on, and has its own.
    """
    exponents = np.arange(dim) // 2 * 2 / dim
    angles = np.multiply.outer(np.asarray(positions, np.float64), 10000.0**-exponents)
    value = np.where(np.arange(dim) % 2, np.cos(angles), np.sin(angles))
    roundings = exponents * np.log(10000) + FUNCTION + 1
    return value, UNIT * (angles * roundings + FUNCTION * np.abs(value))


def attention(queries, keys, values, lengths, matrices, num_heads):
    """Multi-head attention of `(batch, length, width)`; `lengths` is None, `(batch,)` or `(batch, queries)`."""
    return attended(queries, keys, values, lengths, matrices, num_heads)[0]


def attended(queries, keys, values, lengths, matrices, num_heads):
    """Return multi-head attention and its weights, `(batch, heads, queries, keys)`: exactly 0 for hidden keys."""
    projected = (x @ exact(matrices[name]) for x, name in ((queries, "W_q"), (keys, "W_k"), (values, "W_v")))
    q, k, v = (x.through(lambda one: _split(one, num_heads)) for x in projected)
    scores = (q @ k.through(lambda one: one.swapaxes(-1, -2))).scaled(1 / np.sqrt(q.value.shape[-1]))
    weights = _weights(scores, lengths)
    mixed = (weights @ v).through(lambda one: one.swapaxes(1, 2).reshape(queries.value.shape))
    return mixed @ exact(matrices["W_o"]), weights


def encoder(tokens, lengths, embedding, blocks, num_heads, epsilon):
    """Return the output of an encoder, `(batch, length, width)`, for tokens `(batch, length)`, and its weights."""
    x, seen = _embedded(tokens, embedding), []
    for block in blocks:
        mixed, weights = attended(x, x, x, lengths, block, num_heads)
        x = _fed(_normalized(x + mixed, epsilon), block, epsilon)
        seen.append(weights)
    return x, seen


def decoder(tokens, memory, lengths, decoder, num_heads, epsilon):
    """Return the output of a decoder for all tokens at once, and for each block the weights of both attentions."""
    x, causal, seen = _embedded(tokens, decoder.embedding), np.arange(1, tokens.shape[1] + 1), []
    for block in decoder.blocks:
        own, first = attended(x, x, x, np.tile(causal, (len(tokens), 1)), block["own"], num_heads)
        x = _normalized(x + own, epsilon)
        across, second = attended(x, exact(memory), exact(memory), lengths, block["across"], num_heads)
        x = _fed(_normalized(x + across, epsilon), block, epsilon)
        seen.append((first, second))
    return _linear(x, *decoder.last), seen


def _embedded(tokens, embedding):
    value, slack = sinusoids(range(tokens.shape[1]), embedding.shape[1])
    return exact(embedding[tokens]).scaled(np.sqrt(embedding.shape[1])) + Near(value, slack**2)


def _fed(x, block, epsilon):
    hidden = _linear(x, *block["dense1"])
    hidden = Near(np.maximum(hidden.value, 0), hidden.variance)
    return _normalized(x + _linear(hidden, *block["dense2"]), epsilon)


def _split(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def _linear(x, matrix, bias):
    return x @ exact(matrix) + exact(bias)


def _weights(scores, lengths):
    """Return softmax weights: a score off by e changes its weight by e of its size, and all of them by the mean such e.

    A score's difference from the greatest has a rounding, as the quotient; an exponential has its own, a sum of n has
    n.
    """
    keys = scores.value.shape[-1]
    lengths = np.full(len(scores.value), keys) if lengths is None else np.asarray(lengths)
    seen = np.arange(keys) < lengths.reshape(len(lengths), 1, -1, 1)
    shifted = np.where(seen, scores.value, -np.inf)
    shifted -= shifted.max(axis=-1, keepdims=True)
    weights = np.exp(shifted)
    weights /= weights.sum(axis=-1, keepdims=True)
    own = np.where(seen, scores.variance + ROUNDING * (np.where(seen, shifted, 0) ** 2 + FUNCTION**2), 0)
    mean = np.sum(weights**2 * own, axis=-1, keepdims=True)
    return Near(weights, weights**2 * (own + mean + (keys + 1) * ROUNDING))


def _normalized(x, epsilon):
    """Layer normalization, its variance the mean of squares: of differences, or less the square of the mean.

    Either way the variance has n roundings of the mean of squares, and what the numbers pass on.
    """
    width = x.value.shape[-1]
    centred = x.value - x.value.mean(axis=-1, keepdims=True)
    spread = np.mean(centred**2, axis=-1, keepdims=True) + epsilon
    squares = np.mean(x.value**2, axis=-1, keepdims=True)
    passed = np.sum((2 * centred / width) ** 2 * x.variance, axis=-1, keepdims=True)
    relative = (passed + (width + FUNCTION) * ROUNDING * squares**2) / (2 * spread) ** 2 + FUNCTION**2 * ROUNDING
    mean = np.mean(x.variance, axis=-1, keepdims=True) / width + ROUNDING * squares
    own = x.variance + mean + ROUNDING * centred**2
    return Near(centred / np.sqrt(spread), own / spread + centred**2 / spread * relative)
