"""The formulas of the papers in float64."""

import numpy as np

ULP = 2.0**-24  # of numbers just below 1
WIDTH = 8


def angles(positions, width=WIDTH, base=10000.0):
    return np.asarray(positions, np.float64)[..., None] / base ** (np.arange(0, width, 2) / width)


def sinusoids(positions, width=WIDTH):
    """Vaswani et al. 2017, section 3.5."""
    phase = angles(positions, width)
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(*phase.shape[:-1], width)


def rotated(x, positions, base=10000.0):
    """Su et al. 2021, equation 34, as complex numbers; channels i and i + width / 2 are a pair."""
    x = np.asarray(x, np.float64)
    half = x.shape[-1] // 2
    points = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles(positions, x.shape[-1], base))
    return np.concatenate([points.real, points.imag], axis=-1)


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
