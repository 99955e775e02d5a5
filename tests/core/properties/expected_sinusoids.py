"""Sinusoidal encodings written a second time from the papers, in mpmath: the expected values of the tests."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np

from posenc_core import FourierFeatures, GridSinusoidal, RandomFourierFeatures, Sine, Sinusoidal, Timestep

MP = mpmath.mp.clone()
MP.prec = 220  # 31 bits of position, 24 of result, and plenty for cancellation


class Pair(NamedTuple):
    """Radians per position on each axis, and the columns of sine and cosine; None if there is no such column."""

    frequencies: tuple[Any, ...]
    sine: int | None
    cosine: int | None

    def angle(self, position):
        """Return the angle at a position on each axis."""
        return sum(f * MP.mpf(p) for f, p in zip(self.frequencies, position, strict=True))


def pairs_of(encoding) -> list[Pair]:
    """Return the pairs of an encoding; columns in none of them are zeros."""
    pairs = list(PAIRS[type(encoding)](encoding))
    if isinstance(encoding, GridSinusoidal):  # the package drops columns past the width
        pairs = [pair for pair in pairs if pair.sine < encoding.dim]
    return [pair._replace(cosine=None) if (pair.cosine or 0) >= encoding.dim else pair for pair in pairs]


def sine(encoding) -> Iterator[Pair]:
    frequencies, dim = encoding.frequencies, encoding.dim
    if frequencies == "powers_of_two":
        frequencies = [MP.mpf(2) ** -j for j in range(dim)]
    elif frequencies == "endpoint":
        frequencies = [power(encoding.base, j, max(dim - 1, 1)) for j in range(dim)]
    for column, frequency in enumerate(frequencies):
        yield Pair((MP.mpf(frequency),), column, None)


def sinusoidal(encoding) -> Iterator[Pair]:
    dim, half, base = encoding.dim, encoding.dim // 2, encoding.base
    for i in range((dim + 1) // 2):
        if encoding.convention == "interleaved":
            yield Pair((power(base, 2 * i, dim),), 2 * i, 2 * i + 1)
        elif encoding.convention == "concatenated":
            yield Pair((power(base, 2 * i, dim),), i, (dim + 1) // 2 + i)
        elif i < half:
            last = max(half - 1, 1) if encoding.convention == "tensor2tensor" else half
            first = (i, half + i) if encoding.convention == "tensor2tensor" else (half + i, i)
            yield Pair((power(base, i, last),), *first)


def timestep(encoding) -> Iterator[Pair]:
    half = encoding.dim // 2
    for i in range(half):
        frequency = encoding.scale * (power(encoding.base, i, half - MP.mpf(encoding.shift)) if i else MP.mpf(1))
        yield Pair((frequency,), *((i, half + i) if encoding.order == "sin_first" else (half + i, i)))


def grid_sinusoidal(encoding) -> Iterator[Pair]:
    axes, dim = encoding.num_axes, encoding.dim
    quarter, eighth = dim // 4, dim // 8
    blocks = {  # for each axis the columns of its first sine and cosine, and the number of frequencies
        "timm": [(0, 2 * quarter, quarter), (quarter, 3 * quarter, quarter)],
        "timm_interleaved": [(0, quarter, quarter), (2 * quarter, 3 * quarter, quarter)],
        "mae": [(2 * quarter, 3 * quarter, quarter), (0, quarter, quarter)],
        "diffusers": [
            (0, eighth, eighth),
            (quarter + 6 * dim // 16, quarter + 9 * dim // 16, 3 * dim // 16),
            (quarter, quarter + 3 * dim // 16, 3 * dim // 16),
        ],
    }.get(encoding.convention)
    if blocks is None:
        pairs = -(-dim // (2 * axes))
        columns = ((axis, i, 2 * (pairs * axis + i), 1, pairs) for axis in range(axes) for i in range(pairs))
    else:
        columns = (
            (axis, i, sin + i, cos - sin, count) for axis, (sin, cos, count) in enumerate(blocks) for i in range(count)
        )
    for axis, i, column, distance, count in columns:
        yield Pair(on_axis(power(encoding.base, i, count), axis, axes), column, column + distance)


def fourier_features(encoding) -> Iterator[Pair]:
    axes = encoding.num_axes
    count = encoding.dim // (2 * axes)
    for axis in range(axes):
        for k in range(count):
            if encoding.convention == "paper":
                yield Pair(on_axis(MP.pi * 2**k, axis, axes), 2 * (count * axis + k), 2 * (count * axis + k) + 1)
            else:
                yield Pair(on_axis(MP.mpf(2) ** k, axis, axes), 2 * axes * k + axis, 2 * axes * k + axes + axis)


def random_fourier_features(encoding) -> Iterator[Pair]:
    half = encoding.dim // 2
    for i, row in enumerate(encoding.mixture().tolist()):
        columns = (i, half + i) if encoding.order == "sin_first" else (half + i, i)
        yield Pair(tuple(2 * MP.pi * number for number in row), *columns)


def power(base, numerator, denominator):
    """Return `base ** -(numerator / denominator)`."""
    return MP.mpf(base) ** -(MP.mpf(numerator) / denominator)


def on_axis(frequency, axis, axes):
    return tuple(frequency if other == axis else MP.mpf(0) for other in range(axes))


def is_nearest(entry, true):
    """Return whether no other float32 is nearer to the true number."""
    neighbor = np.nextafter(entry, np.float32(np.inf if true > MP.mpf(float(entry)) else -np.inf))
    return 2 * abs(true - MP.mpf(float(entry))) <= abs(MP.mpf(float(neighbor)) - MP.mpf(float(entry)))


PAIRS = {
    Sine: sine,
    Sinusoidal: sinusoidal,
    Timestep: timestep,
    GridSinusoidal: grid_sinusoidal,
    FourierFeatures: fourier_features,
    RandomFourierFeatures: random_fourier_features,
}
