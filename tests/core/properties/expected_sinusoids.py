"""What stands in the columns of sines and cosines, written out from the papers once more, with the numbers of mpmath."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np

from posenc_core import FourierFeatures, GridSinusoidal, RandomFourierFeatures, Sine, Sinusoidal, Timestep

MP = mpmath.mp.clone()
MP.prec = 220  # 31 bits of position, 24 of result, and plenty for cancellation


class Wave(NamedTuple):
    """Radians per position on each axis, and the columns of sine and cosine; None where there is none."""

    frequencies: tuple[Any, ...]
    sine: int | None
    cosine: int | None

    def angle(self, position):
        """Of a position on each axis."""
        return sum(f * MP.mpf(p) for f, p in zip(self.frequencies, position, strict=True))


def waves(encoding) -> list[Wave]:
    """The waves of an encoding; columns that none of them names are zeros."""
    found = list(OF_KIND[type(encoding)](encoding))
    if isinstance(encoding, GridSinusoidal):  # the package cuts what is past the width
        found = [wave for wave in found if wave.sine < encoding.dim]
    return [wave._replace(cosine=None) if (wave.cosine or 0) >= encoding.dim else wave for wave in found]


def sine(encoding) -> Iterator[Wave]:
    frequencies, dim = encoding.frequencies, encoding.dim
    if frequencies == "powers_of_two":
        frequencies = [MP.mpf(2) ** -j for j in range(dim)]
    elif frequencies == "endpoint":
        frequencies = [power(encoding.base, j, max(dim - 1, 1)) for j in range(dim)]
    for column, frequency in enumerate(frequencies):
        yield Wave((MP.mpf(frequency),), column, None)


def sinusoidal(encoding) -> Iterator[Wave]:
    dim, half, base = encoding.dim, encoding.dim // 2, encoding.base
    for i in range((dim + 1) // 2):
        if encoding.convention == "interleaved":
            yield Wave((power(base, 2 * i, dim),), 2 * i, 2 * i + 1)
        elif encoding.convention == "concatenated":
            yield Wave((power(base, 2 * i, dim),), i, (dim + 1) // 2 + i)
        elif i < half:
            last = max(half - 1, 1) if encoding.convention == "tensor2tensor" else half
            first = (i, half + i) if encoding.convention == "tensor2tensor" else (half + i, i)
            yield Wave((power(base, i, last),), *first)


def timestep(encoding) -> Iterator[Wave]:
    half = encoding.dim // 2
    for i in range(half):
        frequency = encoding.scale * (power(encoding.base, i, half - MP.mpf(encoding.shift)) if i else MP.mpf(1))
        yield Wave((frequency,), *((i, half + i) if encoding.order == "sin_first" else (half + i, i)))


def grid_sinusoidal(encoding) -> Iterator[Wave]:
    axes, dim = encoding.num_axes, encoding.dim
    quarter, eighth = dim // 4, dim // 8
    blocks = {  # for each axis its first sine, its first cosine, and its frequencies
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
    for axis, i, column, apart, count in columns:
        yield Wave(on_axis(power(encoding.base, i, count), axis, axes), column, column + apart)


def fourier_features(encoding) -> Iterator[Wave]:
    axes = encoding.num_axes
    count = encoding.dim // (2 * axes)
    for axis in range(axes):
        for k in range(count):
            if encoding.convention == "paper":
                yield Wave(on_axis(MP.pi * 2**k, axis, axes), 2 * (count * axis + k), 2 * (count * axis + k) + 1)
            else:
                yield Wave(on_axis(MP.mpf(2) ** k, axis, axes), 2 * axes * k + axis, 2 * axes * k + axes + axis)


def random_fourier_features(encoding) -> Iterator[Wave]:
    half = encoding.dim // 2
    for i, row in enumerate(encoding.mixture().tolist()):
        columns = (i, half + i) if encoding.order == "sin_first" else (half + i, i)
        yield Wave(tuple(2 * MP.pi * number for number in row), *columns)


def power(base, numerator, denominator):
    """`base ** -(numerator / denominator)`."""
    return MP.mpf(base) ** -(MP.mpf(numerator) / denominator)


def on_axis(frequency, axis, axes):
    return tuple(frequency if other == axis else MP.mpf(0) for other in range(axes))


def is_nearest(golden_case, true):
    """Whether no other float32 is nearer."""
    aside = np.nextafter(golden_case, np.float32(np.inf if true > MP.mpf(float(golden_case)) else -np.inf))
    return 2 * abs(true - MP.mpf(float(golden_case))) <= abs(MP.mpf(float(aside)) - MP.mpf(float(golden_case)))


OF_KIND = {
    Sine: sine,
    Sinusoidal: sinusoidal,
    Timestep: timestep,
    GridSinusoidal: grid_sinusoidal,
    FourierFeatures: fourier_features,
    RandomFourierFeatures: random_fourier_features,
}
