"""A cache like MLX-LM's: `posenc check --cache cache_mlx.py:Decoder`."""

import mlx.core as mx


class KVCache:
    """Keys and values of one layer; `offset` is the next position."""

    keys = values = None
    offset = 0

    def update_and_fetch(self, keys, values):
        if self.keys is not None:
            keys = mx.concatenate([self.keys, keys], axis=2)
            values = mx.concatenate([self.values, values], axis=2)
        self.keys, self.values = keys, values
        self.offset = keys.shape[2]
        return keys, values

    def trim(self, count):
        self.keys = self.keys[:, :, :-count]
        self.values = self.values[:, :, :-count]
        self.offset -= count


class Decoder:
    """Two layers of attention whose cache rotates keys before it keeps them."""

    width = 16

    def __init__(self):
        mx.random.seed(0)
        self.layers = 0.35 * mx.random.normal((2, 4, 16, 16))

    def prefill(self, tokens):
        return self.decode(tokens, [KVCache() for _ in self.layers])

    def decode(self, tokens, state):
        for weights, cache in zip(self.layers, state, strict=True):
            tokens = tokens + self.attention(tokens, weights, cache)
        return tokens, state

    def trim(self, state, count):
        for cache in state:
            cache.trim(count)
        return state

    def reorder(self, state, rows):
        for cache in state:
            cache.keys, cache.values = cache.keys[rows], cache.values[rows]
        return state

    def attention(self, x, weights, cache):
        q, k, v = (
            (x @ weight).reshape(*x.shape[:2], 2, 8).swapaxes(1, 2)
            for weight in weights[:3]
        )
        start = cache.offset
        q, k = (
            mx.fast.rope(
                y, 8, traditional=False, base=100.0, scale=1.0, offset=start
            )
            for y in (q, k)
        )
        k, v = cache.update_and_fetch(k, v)
        y = mx.fast.scaled_dot_product_attention(
            q, k, v, scale=1.0, mask="causal"
        )
        return mx.tanh(y.swapaxes(1, 2).reshape(x.shape) @ weights[3])
