"""Sheet 1, filled in."""

import numpy as np


def binary(positions):
    """Write positions in 8 binary digits, the highest first."""
    powers = 2 ** np.arange(7, -1, -1)
    digits = positions[:, None] // powers % 2
    return digits.astype(np.float32)


def sinusoidal(positions):
    """Compute sines and cosines of each position, in turn."""
    angles = positions[:, None] / 10000 ** (np.arange(16) / 16)
    table = np.empty((len(positions), 32), np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


def added(x, positions):
    """Add the rows of positions to tokens."""
    return (x + sinusoidal(positions)).astype(x.dtype)
