"""What it takes to attend at random, and how far two ways to do the same may be apart.

Tokens are float64. Scores are sums of at most 64 products, together below 2**10, each rounded to 2**-53 of itself: they
are off by less than 2**-36, and results, means of values below 8, by less than 2**-32. `Fire` and `Kerple` make their
scores in float32, of at most 9 products that add up to less than 16: off by 2**-16, so that results are off by 2**-13.
"""

import numpy as np

from posenc_core import causal
from posenc_core.encodings import ContentScoring, Fire, Kerple

SLACK = 2.0**-32


def close(got, wanted, encoding=None):
    slack = 2.0**-13 if isinstance(encoding, Fire | Kerple) else SLACK
    np.testing.assert_allclose(got, wanted, rtol=0, atol=slack)


def tokens(rng, encoding, *lengths, batch=2):
    """Random queries, keys and values, `(batch, heads, length, head_dim)`, as the encoding wants them."""
    heads, head_dim = getattr(encoding, "num_heads", 2), getattr(encoding, "head_dim", 4)
    width = head_dim if isinstance(encoding, ContentScoring) else 3
    queries, keys = lengths if len(lengths) == 2 else lengths * 2
    shapes = (queries, head_dim), (keys, head_dim), (keys, width)
    return tuple(rng.normal(size=(batch, heads, *shape)) for shape in shapes)


def weights_of(encoding, rng):
    """Random numbers for what is learned."""
    return {
        name: parameter.mean + max(parameter.std, 0.3) * rng.normal(size=parameter.shape)
        for name, parameter in encoding.parameters().items()
    }


def seen(queries, keys):
    return causal(np.asarray(queries), np.asarray(keys))
