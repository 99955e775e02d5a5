"""Random inputs of attention, and the tolerance between two ways to compute it.

Tokens are float64. Scores are sums of at most 64 products below 2**10 in total, each with a relative error of 2**-53:
their error is below 2**-36, and that of results, averages of values below 8, below 2**-32. Those of `IN_FLOAT32`
compute scores in float32 from at most 9 products that sum to less than 16: an error of 2**-16 in scores and 2**-13 in
results. The entries of encodings that mix the rows of their tables (`FoPE`) are float32 sums of at most 9 numbers, in
an order that depends on the number of rows, with the same bound.
"""

import numpy as np

from posenc_core import causal

from ...catalogue import IN_FLOAT32

TOLERANCE = 2.0**-32


def close(got, wanted, encoding=None):
    in_float32 = type(encoding).__name__ in IN_FLOAT32 or getattr(encoding, "mixes_rows", False)
    tolerance = 2.0**-13 if in_float32 else TOLERANCE
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


def tokens(rng, encoding, *lengths, batch=2):
    """Return random queries, keys and values, `(batch, heads, length, head_dim)`, in the sizes of the encoding."""
    heads, head_dim = getattr(encoding, "num_heads", None) or 2, getattr(encoding, "head_dim", 4)
    width = head_dim if getattr(encoding, "uses_content", False) else 3
    queries, keys = lengths if len(lengths) == 2 else lengths * 2
    shapes = (queries, head_dim), (keys, head_dim), (keys, width)
    return tuple(rng.normal(size=(batch, heads, *shape)) for shape in shapes)


def weights_of(encoding, rng):
    """Return random values of the learned parameters."""
    return {
        name: parameter.mean + max(parameter.std, 0.3) * rng.normal(size=parameter.shape)
        for name, parameter in encoding.parameters().items()
    }


def causal_mask(queries, keys):
    return causal(np.asarray(queries), np.asarray(keys))
