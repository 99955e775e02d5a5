"""Rotations with one mistake each, in any framework: tables from the definition, applied by `rotate`."""

import numpy as np

from posenc_core import Rotary, YaRN, rotate

SCALED = Rotary(
    head_dim=16, layout="half", rotary_dim=8, scaling=YaRN(factor=4.0, original_max_position_embeddings=4096)
)
PLAIN = Rotary(head_dim=16, layout="half", base=500000.0, rotary_dim=8)
FACTOR = 0.1 * np.log(4) + 1
POWERS = -np.arange(4) / 4


def bfloat16(numbers):
    bits = np.asarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def angles(positions, frequencies):
    return np.asarray(positions, np.float64)[..., None] * frequencies


def angles_in_float32(positions, frequencies):
    return (np.asarray(positions, np.float32)[..., None] * frequencies.astype(np.float32)).astype(np.float64)


class Rope:
    """The rotation of a spec, written from the definition; subclasses add a mistake."""

    layout = "half"
    base = 500000.0
    factor = 1.0
    spec = PLAIN

    def __init__(self, backend):
        self.backend = backend

    def __call__(self, q, k, positions):
        host = np.asarray(self.backend.to_numpy(positions), np.int64)
        return self.rotated(q, host), self.rotated(k, host)

    def rotated(self, x, positions):
        cos, sin = (table if table.ndim == 2 else table[:, None] for table in self.tables(x, positions))
        arrays = [self.backend.from_numpy(np.ascontiguousarray(table, np.float32)) for table in (cos, sin)]
        return rotate(x, *arrays, layout=self.layout)

    def tables(self, x, positions):
        angles = self.angles(positions)
        return np.cos(angles) * self.factor, np.sin(angles) * self.factor

    def angles(self, positions):
        return angles(positions, self.frequencies())

    def frequencies(self):
        return self.base**POWERS


class Scaled(Rope):
    spec, factor = SCALED, FACTOR

    def frequencies(self):
        return SCALED.frequencies()


class Interleaved(Rope):
    layout = "interleaved"


class Inverse(Rope):
    def tables(self, x, positions):
        cos, sin = super().tables(x, positions)
        return cos, -sin


class Later(Rope):
    def angles(self, positions):
        return super().angles(positions + 1)


class OfTheHead(Rope):
    def frequencies(self):
        return self.base ** (POWERS / 2)


class NoFactor(Scaled):
    factor = 1.0


class Doubled(Scaled):
    factor = 2 * FACTOR


class Squared(Scaled):
    factor = FACTOR**2


class UsualBase(Rope):
    base = 10000.0


class Unscaled(Scaled):
    factor = 1.0

    def frequencies(self):
        return 10000.0**POWERS


class Swapped(Rope):
    def tables(self, x, positions):
        cos, sin = super().tables(x, positions)
        return sin, cos


class Float32Angles(Rope):
    def angles(self, positions):
        return angles_in_float32(positions, self.frequencies())


class OtherPowers(Rope):
    """Float32 throughout, with powers from logarithms: every frequency is off by some ulp."""

    def angles(self, positions):
        slow = np.exp((POWERS * np.log(self.base)).astype(np.float32)).astype(np.float32)
        return angles_in_float32(positions, slow)


class Bfloat16Positions(Rope):
    def angles(self, positions):
        return super().angles(bfloat16(positions))


class Stale(Rope):
    """A cache that ignores dtypes: a call in half precision leaves its rounded table behind."""

    def __init__(self, backend):
        super().__init__(backend)
        self.cache = {}

    def tables(self, x, positions):
        cos, sin = super().tables(x, positions)
        if "float32" not in str(x.dtype):
            narrow = bfloat16 if "bfloat16" in str(x.dtype) else np.float16
            cos, sin = (np.asarray(narrow(np.float32(table)), np.float64) for table in (cos, sin))
        return self.cache.setdefault(positions.tobytes(), (cos, sin))


class FirstOffset(Rope):
    """A cache with only the length as its key."""

    def __init__(self, backend):
        super().__init__(backend)
        self.cache = {}

    def tables(self, x, positions):
        return self.cache.setdefault(positions.shape, super().tables(x, positions))


class Detached(Rope):
    """Right numbers with the gradient of the input."""

    def rotated(self, x, positions):
        module = self.backend.backend
        stop_gradient = getattr(module, "BACKEND", module).stop_gradient
        return x + stop_gradient(super().rotated(x, positions) - x)


MUTANTS = {
    "layout swapped": [Interleaved],
    "sign flipped": [Inverse],
    "positions off by one": [Later],
    "wrong denominator": [OfTheHead],
    "attention factor missing": [NoFactor],
    "attention factor doubled": [Doubled],
    "attention factor squared": [Squared],
    "base ignored": [UsualBase],
    "scaling ignored": [Unscaled],
    "cos and sin swapped": [Swapped],
    "float32 angles": [Float32Angles, OtherPowers],
    "bfloat16 positions": [Bfloat16Positions],
    "stale cache": [Stale],
    "offset ignored after the first call": [FirstOffset],
}
