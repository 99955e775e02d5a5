"""Correct results, written anew: mpmath for tables, complex numbers for rotations, float64 for attention."""

import numpy as np
from mpmath import cos, mp, mpf, sin

UNIT = 2.0**-24  # half an ulp of float32, relative


def sinusoids(positions, dim):
    """Rows of Vaswani et al. 2017, section 3.5, at 50 digits, rounded once."""
    with mp.workdps(50):
        angles = [
            [position / mpf(10000) ** (mpf(column // 2 * 2) / dim) for column in range(dim)] for position in positions
        ]
        return np.array([[(cos if j % 2 else sin)(angle) for j, angle in enumerate(row)] for row in angles], np.float32)


def rotated(x, positions):
    """Su et al. 2021, equation 34, on neighbouring channels: complex numbers in float64."""
    pairs = x.shape[-1] // 2
    turns = np.exp(1j * np.asarray(positions)[..., None] * 10000.0 ** (-np.arange(pairs) / pairs))
    product = (x[..., 0::2] + 1j * x[..., 1::2].astype(float)) * turns
    return np.stack([product.real, product.imag], axis=-1).reshape(x.shape)


def attended(q, k, v, bias=0.0, mask=True):
    """Vaswani et al. 2017, equation 1, in float64; a query that sees no key gives zeros."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias, -np.inf)
    parts = np.exp(scores - np.maximum(scores.max(axis=-1, keepdims=True), -1e9))
    total = parts.sum(axis=-1, keepdims=True)
    return parts / np.where(total > 0, total, 1) @ v


def slack(q, k, v, bias=0.0):
    """How far float32 may be off from `attended`, in whatever order it adds: to first order, times 2.

    A score is off by `width + 3` roundings of what it adds up, and its weight, relatively, by twice as much and by
    those of an exponential (4), a sum, a division; a result by as much of the largest value, and by those of its own
    sum.
    """
    width, keys = q.shape[-1], k.shape[-2]
    added = (np.abs(q) @ np.swapaxes(np.abs(k), -1, -2) / np.sqrt(width) + np.abs(bias)).max()
    return 2 * UNIT * (2 * (width + 3) * added + 2 * keys + 8) * np.abs(v).max()
