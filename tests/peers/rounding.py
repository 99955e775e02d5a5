"""Bounds of rounding: the largest errors of a peer that works in float32.

A rounding to float32 moves a number by at most `UNIT` of its size. A peer's frequency `base ** -e`, `e = 2i / d`, has
seen the roundings listed below; its angle one more, in the product with the position; its cosine a few. What they add
up to is about position × 2**-23 for the first frequencies, and the less the slower the pair.
"""

from dataclasses import replace

import numpy as np

from posenc_core import rotate
from posenc_core.scaling import AttentionFactor, DynamicNTK, Llama3, YaRN
from posenc_core.tables.frequencies import as_float64

UNIT = 2.0**-24

# Of the size of the frequency: the base, its power (which libraries promise within 1 ulp, two
# roundings), the reciprocal, a factor and the division by it. A rounded exponent moves the power by |ln f| more.
FREQUENCY = 6
# A base that is itself computed in float32: product, quotient, difference, power (two) and product.
REBASED = 6
# Of the size of the plain frequency, where two frequencies are blended by a share that is rounded: YaRN's by a
# quotient,
# two differences and the product; Llama 3's by the turns within the original length, `high / (high - low)` = 4/3 of the
# 15 roundings that they have seen where |ln f| is about 8.
BLENDED = {YaRN: 6, Llama3: 20}
# Of the size of a table's entry: the cosine (two), the attention factor, the product, and our own.
ENTRY = 5
# Of the size of a pair: entry, product and sum, for both of its channels.
ROTATION = 12


def frequency_slack(encoding, seq_len=None):
    """How far each frequency may be off, radians per position."""
    scaling = getattr(encoding, "scaling", None)
    plain = replace(encoding, scaling=None).frequencies() if scaling else encoding.frequencies()
    roundings = FREQUENCY + np.abs(np.log(plain)) + REBASED * isinstance(scaling, DynamicNTK)
    return UNIT * (encoding.frequencies(seq_len) * roundings + plain * BLENDED.get(type(scaling), 0))


def angle_slack(encoding, positions, seq_len=None):
    """How far each angle may be off, radians: `(length, pairs)`, positions being `(length,)` or `(axes, length)`.

    No peer here needs more than position × 2**-23 of the fastest pair, though what its roundings add up to may be more.
    """
    frequencies = encoding.frequencies(seq_len)
    slack = np.minimum(frequency_slack(encoding, seq_len) + UNIT * frequencies, 2 * UNIT * frequencies.max())
    positions = np.abs(np.asarray(positions, np.float64))
    return (positions.T[:, list(encoding.axes)] if positions.ndim > 1 else positions[:, None]) * slack


def rotated(x, table, encoding, rotation=rotate):
    """`x` rotated, or rotated back, by a table of the encoding."""
    blocks, placement = encoding.pairing.blocks, encoding.pairing.placement
    return rotation(x, *table, layout=encoding.layout, placement=placement, blocks=blocks)


def pair_slack(x, encoding, angles):
    """Return how far each channel of rotated `x` may be off where angles are off by `angles`; 0 if unrotated."""
    slack = encoding.attention_factor * (angles + ROTATION * UNIT)
    still = np.zeros_like(slack)
    whole = x.astype(np.float64)
    passed, *sides = (rotated(whole, table, encoding) for table in ((still, still), (slack, still), (still, slack)))
    return np.where(passed == 0, np.hypot(*sides), 0)


def with_frequencies(encoding, frequencies, factor):
    """Return the encoding with a peer's frequencies and factor, and forward float32 angles, as peers have them."""
    scaling = None if factor == 1 else AttentionFactor(attention_factor=float(np.float32(factor)))
    given = {"base": 10000, "scaling": scaling, "frequencies": frequencies}
    return replace(encoding, **given, precision="float32", direction="forward")


def entry_ulps(factor):
    """How many float32 numbers may lie between our table and that of a peer of the same angles.

    Libraries promise sines within a unit in the last place, and ours are rounded once: one. To multiply a rounded sine
    by a factor between 1 and 2 makes two of that one, and another by the product's rounding.
    """
    return 1 if factor == 1 else 3


def ulps(a, b):
    """How many float32 numbers lie between two arrays, at most."""
    return np.max(np.abs(_ranks(a) - _ranks(b)), initial=0)


def _ranks(x):
    """Each float32 number's place among all of them, counted from zero."""
    bits = np.asarray(x, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(2**31) - bits, bits)


def additive_slack(encoding, positions, *, roundings, exponents=0):
    """Return how far entries may be off after so many roundings of the angle and of its frequency's exponent.

    An exponent e that is rounded moves `base ** e` by |ln| of it, in proportion.
    """
    positions = np.abs(np.atleast_2d(np.asarray(positions, np.float64)))
    off = np.full((positions.shape[-1], encoding.dim), ENTRY * UNIT)
    for series in encoding._series():
        frequencies = as_float64(series.frequencies)
        plain = frequencies / frequencies[0]
        each = UNIT * frequencies * (roundings + exponents * np.abs(np.log(plain)))
        for part in (series.sin, series.cos):
            off[:, part] += positions[series.axis][:, None] * each[: off[:, part].shape[1]]
    return off


def assert_within(theirs, encoding, positions, **roundings):
    """Agreement within the slack, and our table in theirs: no column is constant by mistake of both."""
    theirs = np.asarray(theirs, np.float64).reshape(-1, encoding.dim)
    off = np.abs(theirs - encoding.table(positions))
    assert (off <= additive_slack(encoding, positions, **roundings)).all(), off.max()
