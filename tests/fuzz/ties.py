"""Whether entries are the nearest float32 numbers, and the even ones where two are, by mpmath at 3,000 bits."""

from fractions import Fraction

import mpmath
import numpy as np

MP = mpmath.mp.clone()
MP.prec = 3000


def rounded(encoding, positions):
    """Raise unless each entry of `Rotary` or `XPos` is rounded once; `scaling` is None or an AttentionFactor."""
    for name, table in encoding.rows(positions).items():
        for position, row in zip(map(mpf, positions), table, strict=True):
            for pair, entry in enumerate(row):
                true = of_pair(encoding, position, pair, 1 - 2 * name.startswith("key_"))["sin" in name]
                below, above = (mpf(np.nextafter(entry, np.float32(end)).item()) for end in (-np.inf, np.inf))
                middles = [(mpf(entry.item()) + each) / 2 for each in (below, above)]
                at_tie = min(abs(true - each) for each in middles) < MP.mpf(2) ** -2700
                is_even = not entry.view(np.uint32) % 2
                if not (is_even if at_tie else middles[0] < true < middles[1]):
                    raise ArithmeticError(f"{name}: {entry!r} for {MP.nstr(true, 30)} at {positions}")


def of_pair(encoding, position, pair, sign):
    """Return the cosine and the sine of a pair with all factors."""
    channels = encoding.rotary_channels
    factor = mpf(encoding.attention_factor)
    if hasattr(encoding, "scale_base"):
        base = (MP.mpf(2 * pair) / channels + mpf(Fraction(2, 5))) / mpf(Fraction(7, 5))
        factor *= base ** (sign * (position - mpf(encoding.center)) / mpf(encoding.scale_base))
    angle = position * mpf(encoding.base) ** (-MP.mpf(2 * pair) / channels)
    return [factor * number for number in MP.cos_sin(angle)]


def mpf(number):
    """Return a number without rounding, or a fraction rounded to 3,000 bits."""
    numerator, denominator = Fraction(number).as_integer_ratio()
    return MP.mpf(numerator) / denominator
