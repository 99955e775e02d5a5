"""`check_model` on what only MLX has: its own rotation, positions of first tokens, and caches in MLX-LM's form."""

import mlx.core as mx
import pytest
from mlx import nn

from posenc_backends.check.model import check_model
from posenc_core import Rotary

ROTARY = Rotary(head_dim=16, layout="half")


class Attention(nn.Module):
    """Takes a start or a cache, as in MLX-LM."""

    def __init__(self, first=0, **options):
        super().__init__()
        self.project = nn.Linear(32, 96)
        self.options = {"dims": 16, "traditional": False, "base": 1e4, "scale": 1.0} | options
        self.first = first

    def __call__(self, x, start, cache):
        q, k, v = mx.split(self.project(x).reshape(*x.shape[:2], 6, 16).swapaxes(1, 2), 3, axis=1)
        start = self.first + (start if cache is None else cache.offset)
        q, k = (mx.fast.rope(one, offset=start, **self.options) for one in (q, k))
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25)
        return mixed.swapaxes(1, 2).flatten(-2)


class Decoder(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        mx.random.seed(0)
        self.embedding, self.layers = nn.Embedding(9, 32), list(layers)

    def decode(self, tokens, start, cache):
        x = self.embedding(tokens)
        for layer, one in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x = x + layer(x, start, one)
        return x


class Starting(Decoder):
    def __call__(self, tokens, start=0):
        return self.decode(tokens, start, None)


class Caching(Decoder):
    def __call__(self, inputs, cache=None):
        return self.decode(inputs, 0, cache)


class Kept:
    """A cache that the model makes, whose keys have a fixed length."""

    def __init__(self, forgets=False):
        self.offset, self.length, self.forgets = 0, 0, forgets
        self.arrays = [mx.zeros((1, 2, 8, 16)) for _ in range(2)]

    def update_and_fetch(self, *arrays):
        end = self.length + arrays[0].shape[2]
        for kept, one in zip(self.arrays, arrays, strict=True):
            kept[..., self.length : end, :] = one
        self.length = end
        self.offset = 0 if self.forgets else end
        return tuple(one[..., :end, :] for one in self.arrays)


class Making(Caching):
    def make_cache(self):
        return [Kept() for _ in self.layers]


class Forgetting(Caching):
    def make_cache(self):
        return [Kept(forgets=True) for _ in self.layers]


@pytest.mark.parametrize("model", [Starting, Caching, Making])
def test_each_layer_is_judged(model):
    before = mx.fast.rope, mx.fast.scaled_dot_product_attention
    layers = [{}, {"base": 500.0}, {"traditional": True}, {"dims": 8}, {"first": 1}]
    result = check_model(model(*(Attention(**one) for one in layers)), spec=ROTARY)
    names = [tuple(one.name for one in layer.mistakes) for layer in result.layers]
    wanted = ["wrong base", "layout swapped", "wrong rotary_dim", "positions off by one"]
    assert names == [(), *((one,) for one in wanted)]
    assert ("after a cache of 5" in result.calls) == (model is not Starting)
    assert before == (mx.fast.rope, mx.fast.scaled_dot_product_attention)


def test_a_cache_that_is_forgotten():
    assert check_model(Forgetting(Attention()), spec=ROTARY).names == ("positions ignored",)
