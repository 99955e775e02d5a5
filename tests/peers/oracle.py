"""The true numbers, at 50 digits, from the definitions alone."""

import mpmath

mpmath.mp.dps = 50


def frequency(i, width, base=10000):
    return mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / width)


def cosine(position, i, width, base=10000):
    return mpmath.cos(position * frequency(i, width, base))


def sine(position, i, width, base=10000):
    return mpmath.sin(position * frequency(i, width, base))


def rotated_ones(position, i, width, base=10000):
    """Return the first channel of a pair of ones after the rotation."""
    return cosine(position, i, width, base) - sine(position, i, width, base)


def yarn(i, width, factor, original, base=10000, truncate=True, inverted=False):
    """A frequency of YaRN, `beta_fast` 32 and `beta_slow` 1; inverted: high and low frequencies exchanged."""
    low, high = (width * mpmath.log(original / (2 * mpmath.pi * turns)) / (2 * mpmath.log(base)) for turns in (32, 1))
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    share = min(max((i - low) / (high - low), 0), 1)
    share = 1 - share if inverted else share
    return frequency(i, width, base) * (share / factor + 1 - share)


def xpos_score(query, key, width, scale_base=512):
    """The score of a query and a key of ones."""
    distance = query - key
    decay = [
        ((2 * i + 0.4 * width) / (mpmath.mpf("1.4") * width)) ** (mpmath.mpf(distance) / scale_base)
        for i in range(width // 2)
    ]
    return sum(2 * decay[i] * cosine(distance, i, width) for i in range(width // 2))
