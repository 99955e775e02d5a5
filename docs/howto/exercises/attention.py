"""Sheet 2: encodings inside attention. Replace each `...`."""

import numpy as np


def interleaved(x, positions):
    """Rotate neighbouring channels by the angle of their position (RoPE).

    `(batch, heads, length, 64), (length,) ->` the same shape and dtype.
    Pair i is channels 2i and 2i + 1; its angle is
    position / 10000 ** (2i / 64), with the signs of a rotation matrix.
    Mark it:
    posenc check attention.py:interleaved --spec
        "Rotary(head_dim=64, layout='interleaved')"
    """
    angles = ...  # (length, 32)
    first, second = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = ...
    result[..., 1::2] = ...
    return result


def halves(x, positions):
    """Rotate as models of Hugging Face do: pair i is channels i and i + 32.

    Mark it:
    posenc check attention.py:halves --spec
        "Rotary(head_dim=64, layout='half')"
    """
    return ...


def interpolated(x, positions):
    """Rotate pairs of halves four times as slowly, for a longer context.

    Mark it:
    posenc check attention.py:interpolated --spec
        "Rotary(head_dim=64, layout='half', scaling=Linear(factor=4))"
    """
    return ...


def alibi(query_positions, key_positions):
    """Compute the bias of ALiBi for 8 heads: minus slope times distance.

    `(queries,), (keys,) -> (8, queries, keys)`. The slopes are
    1/2, 1/4 … 1/256, and the distance is |query - key|.
    Mark it: posenc check attention.py:alibi --spec "Alibi(num_heads=8)"
    """
    slopes = ...
    return ...
