"""Sheet 1: encodings that are added to tokens. Replace each `...`."""

import numpy as np


def binary(positions):
    """Write positions in 8 binary digits, the highest first.

    `(length,) -> (length, 8)`: 5 is 0 0 0 0 0 1 0 1.
    Mark it: posenc check additive.py:binary --spec "Binary(dim=8)"
    """
    powers = 2 ** np.arange(7, -1, -1)
    digits = ...
    return digits.astype(np.float32)


def sinusoidal(positions):
    """Compute sines and cosines of each position, in turn.

    `(length,) -> (length, 32)`: columns 2i and 2i + 1 are the sine and the
    cosine of position / 10000 ** (2i / 32).
    Mark it: posenc check additive.py:sinusoidal --spec "Sinusoidal(dim=32)"
    """
    angles = ...  # (length, 16)
    table = np.empty((len(positions), 32), np.float32)
    table[:, 0::2] = ...
    table[:, 1::2] = ...
    return table


def added(x, positions):
    """Add the rows of positions to tokens.

    `(batch, length, 32), (length,) -> (batch, length, 32)`, in the dtype of x.
    Mark it: posenc check additive.py:added --spec "Sinusoidal(dim=32)"
    """
    return (...).astype(x.dtype)
