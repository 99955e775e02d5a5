"""Golden numbers of the additive encodings of grids, coordinates and diffusion times, each from its own definition."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
from numbers_of import drawn, power, rounded, sinusoidal_row

LONG = [0, 1, 2, 3, 255, 1000, 65537, 1048576, 16777215, -3]
TIMES = [0, 1, 3, 17, 250, 999, 0.25, 17.5, 1234.5, 1048576, -3]
COORDINATES = [0.0, 0.25, -0.5, 1.0, 0.7109375, -0.333251953125, 17.5]
GRADED = [0.25, 17.5, 1234.5, 5.0, -3.0]  # exact in float32

Column = tuple[str, list[Any]]  # sin, cos or another word, and radians per position on each axis


def additive_tables() -> Iterator[dict[str, Any]]:
    """Yield tables of every convention, also with odd widths, three axes, real and far positions."""
    for fields in _grids():
        axes = fields["num_axes"]
        yield _table(fields, [[LONG[(k + 3 * a) % len(LONG)] for k in range(len(LONG))] for a in range(axes)])
    for fields in (*_coordinates(), *_mixtures()):
        axes, count = fields["num_axes"], len(COORDINATES)
        yield _table(fields, [[COORDINATES[(k + 2 * a) % count] for k in range(count)] for a in range(axes)])
    for fields in _times():
        yield _table(fields, [TIMES])


def position_gradients() -> Iterator[dict[str, Any]]:
    """Yield the derivative of each column with respect to each position axis, and the rows, at real positions."""
    for fields in (
        {"kind": "Integer", "dim": 2},
        {"kind": "Normalized", "dim": 2, "length": 1300},
        {"kind": "Sine", "dim": 3, "frequencies": "powers_of_two"},
        *({"kind": "Sinusoidal", "dim": 5, "convention": c} for c in ("interleaved", "concatenated", "column_index")),
        *({"kind": "Sinusoidal", "dim": 7, "convention": c} for c in ("tensor2tensor", "timestep")),
        {"kind": "Timestep", "dim": 7, "order": "cos_first", "shift": 0.5, "scale": 2.5},
        {"kind": "GridSinusoidal", "dim": 8, "convention": "mae", "num_axes": 2},
        {"kind": "GridSinusoidal", "dim": 7, "convention": "tatp22", "num_axes": 3},
        {"kind": "FourierFeatures", "dim": 12, "num_axes": 2, "convention": "paper"},
        {"kind": "RandomFourierFeatures", "dim": 6, "scale": 0.5, "seed": 3, "num_axes": 1},
        {"kind": "RandomFourierFeatures", "dim": 6, "scale": 0.5, "seed": 4, "num_axes": 3},
    ):
        axes = fields.get("num_axes", 1)
        some = [p for p in GRADED if p >= 0 or fields["kind"] != "Normalized"]
        yield _graded(fields, [[some[(k + a) % len(some)] for k in range(len(some))] for a in range(axes)])


def additive_sums() -> Iterator[dict[str, Any]]:
    """Yield tokens plus the rows of a grid: the sum in float32, rounded once."""
    numbers = random.Random(20211111)
    cells = [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    for fields, positions in (
        ({"kind": "GridSinusoidal", "dim": 8, "convention": "timm", "num_axes": 2}, cells),
        ({"kind": "GridSinusoidal", "dim": 9, "convention": "tatp22", "num_axes": 3}, [*cells, [5, 0, 999, 1, 7, 2]]),
        ({"kind": "Timestep", "dim": 5, "order": "sin_first", "shift": 1, "scale": 1}, [0, 1, 2, 3, 4, 5, 6]),
    ):
        several = positions if fields.get("num_axes") else [positions]
        rows = [[rounded(value) for value in row] for row in rows_of(fields, several)]
        x, weights = ([[drawn(numbers, 24) for _ in row] for row in rows] for _ in "xw")
        sums = [
            [rounded(mp.mpf(a) + mp.mpf(b)) for a, b in zip(*both, strict=True)] for both in zip(x, rows, strict=True)
        ]
        yield {
            "name": f"{_name(fields)}, tokens",
            "encoding": fields,
            "dtype": "float32",
            "positions": positions,
            "x": x,
            "weights": weights,
            "result": sums,
            "gradient": weights,
        }


def learned_sinusoidal() -> Iterator[dict[str, Any]]:
    """Yield results of learned frequencies as initialized, and the gradient of their parameters."""
    numbers = random.Random(20240326)
    for dim, convention in ((5, "interleaved"), (5, "concatenated"), (6, "tensor2tensor"), (7, "timestep")):
        columns = _sinusoids(dim, convention)
        x, weights = ([[drawn(numbers, 24) for _ in range(dim)] for _ in range(7)] for _ in "xw")
        result = [
            [a + b for a, b in zip(row, sinusoidal_row(p, dim, 10000, convention), strict=True)]
            for p, row in enumerate(x)
        ]
        pairs = sorted({w[0] for _, w in columns if w[0]}, reverse=True)
        terms = [
            [
                weight[j] * p * w[0] * _slope(function, p * w[0])
                for p, weight in enumerate(weights)
                for j, (function, w) in enumerate(columns)
                if w[0] == pair
            ]
            for pair in pairs
        ]
        yield {
            "name": f"LearnedSinusoidal {convention}, {dim} columns",
            "encoding": {"kind": "LearnedSinusoidal", "dim": dim, "convention": convention},
            "x": x,
            "weights": weights,
            "result": [[float(value) for value in row] for row in result],
            "gradient": [float(mp.fsum(each)) for each in terms],
            "scale": [float(mp.fsum(map(abs, each))) for each in terms],
        }


def _grids() -> Iterator[dict[str, Any]]:
    for dim, axes, convention, base in (
        (8, 2, "timm", 10000),
        (12, 2, "timm_interleaved", 500),
        (12, 2, "mae", 10000),
        (64, 2, "mae", 10000),
        (16, 3, "diffusers", 10000),
        (48, 3, "diffusers", 10000),
        (5, 1, "tatp22", 10000),
        (7, 2, "tatp22", 10000),
        (2, 3, "tatp22", 10000),
        (10, 3, "tatp22", 10000),
    ):
        yield {"kind": "GridSinusoidal", "dim": dim, "convention": convention, "num_axes": axes, "base": base}


def _coordinates() -> Iterator[dict[str, Any]]:
    for dim, axes, convention in ((20, 1, "paper"), (18, 3, "paper"), (12, 2, "code"), (60, 3, "code")):
        yield {"kind": "FourierFeatures", "dim": dim, "num_axes": axes, "convention": convention}


def _mixtures() -> Iterator[dict[str, Any]]:
    for dim, axes, scale, seed, order in (
        (8, 1, 1.0, 0, "cos_first"),
        (10, 2, 10.0, 1, "sin_first"),
        (6, 3, 0.1, 2**32 - 1, "cos_first"),
        (4, 5, 1000.0, 5, "cos_first"),
    ):
        yield {
            "kind": "RandomFourierFeatures", "dim": dim, "scale": scale, "seed": seed, "num_axes": axes, "order": order
        }  # fmt: skip
    given = [[0.5, -1.25], [3.0, 0.1]]
    yield {"kind": "RandomFourierFeatures", "dim": 4, "mixture": given, "num_axes": 2, "order": "sin_first"}


def _times() -> Iterator[dict[str, Any]]:
    for dim, order, shift, scale, base in (
        (2, "sin_first", 1, 1, 10000),
        (3, "cos_first", 0, 1, 10000),
        (5, "sin_first", 1, 1, 10000),
        (8, "cos_first", 0, 1, 10000),
        (9, "cos_first", 0.5, 1000, 10000),
        (12, "sin_first", -2, 0.25, 500),
        (320, "cos_first", 0, 1, 10000),
    ):
        yield {"kind": "Timestep", "dim": dim, "order": order, "shift": shift, "scale": scale, "base": base}


def _table(fields: dict[str, Any], positions: list[list[Any]]) -> dict[str, Any]:
    return {
        "name": _name(fields),
        "encoding": fields,
        "positions": positions if len(positions) > 1 else positions[0],
        "table": [[rounded(value) for value in row] for row in rows_of(fields, positions)],
    }


def _graded(fields: dict[str, Any], positions: list[list[float]]) -> dict[str, Any]:
    """Return gradients; `scale` is a column's slope times the size of its angle, as float32 angles err by a share."""
    columns = _columns(fields)
    gradient, scale = ([[[] for _ in positions[0]] for _ in positions] for _ in "gs")
    for k, at in enumerate(zip(*positions, strict=True)):
        for function, rates in columns:
            reach = mp.fsum(abs(rate * p) for rate, p in zip(rates, at, strict=True))
            turned = mp.fsum(rate * p for rate, p in zip(rates, at, strict=True))
            for axis, rate in enumerate(rates):
                gradient[axis][k].append(rounded(rate * _slope(function, turned)))
                scale[axis][k].append(float(abs(rate) * max(reach, 1)))
    several = len(positions) > 1
    return _table(fields, positions) | {
        "gradient": gradient if several else gradient[0],
        "scale": scale if several else scale[0],
    }


def _name(fields: dict[str, Any]) -> str:
    return ", ".join([fields["kind"], *(f"{name} {value}" for name, value in fields.items() if name != "kind")])


def rows_of(fields: dict[str, Any], positions: list[list[Any]]) -> Iterator[list[Any]]:
    columns = _columns(fields)
    for at in zip(*positions, strict=True):
        angles = [mp.fsum(rate * p for rate, p in zip(rates, at, strict=True)) for _, rates in columns]
        yield [_value(function, angle) for (function, _), angle in zip(columns, angles, strict=True)]


def _value(function: str, angle: Any) -> Any:
    return _clean({"sin": mp.sin, "cos": mp.cos, "itself": mp.mpf}[function](angle))


def _slope(function: str, angle: Any) -> Any:
    return _clean({"sin": mp.cos, "cos": lambda a: -mp.sin(a), "itself": lambda a: mp.mpf(1)}[function](angle))


def _clean(value: Any) -> Any:
    """Return 0 for what 50 digits of π leave in sines of multiples of π; no other number here is so small."""
    return value if abs(value) > mp.mpf(10) ** -40 else mp.mpf(0)


def _columns(fields: dict[str, Any]) -> list[Column]:
    make: dict[str, Callable[[dict[str, Any]], list[Column]]] = {
        "Integer": lambda f: [("itself", [mp.mpf(1)])] * f["dim"],
        "Normalized": lambda f: [("itself", [mp.mpf(1) / f["length"]])] * f["dim"],
        "Sine": lambda f: [("sin", [mp.mpf(2) ** -j]) for j in range(f["dim"])],
        "Sinusoidal": lambda f: _sinusoids(f["dim"], f["convention"]),
        "Timestep": _timestep,
        "GridSinusoidal": _grid,
        "FourierFeatures": _fourier,
        "RandomFourierFeatures": _random,
    }
    return make[fields["kind"]](fields)


def _sinusoids(dim: int, convention: str) -> list[Column]:
    half = dim // 2
    pairs = [("cos" if j % 2 else "sin", [power(10000, j - j % 2, dim)]) for j in range(dim)]
    if convention == "interleaved":
        return pairs
    if convention == "concatenated":
        return pairs[0::2] + pairs[1::2]
    if convention == "column_index":
        return [(function, [power(10000, 2 * j, dim)]) for j, (function, _) in enumerate(pairs)]
    rates = [power(10000, i, half - (convention == "tensor2tensor")) for i in range(half)]
    order = ("sin", "cos") if convention == "tensor2tensor" else ("cos", "sin")
    return [(function, [rate]) for function in order for rate in rates] + [("sin", [mp.mpf(0)])] * (dim % 2)


def _timestep(fields: dict[str, Any]) -> list[Column]:
    half, scale = fields["dim"] // 2, mp.mpf(fields["scale"])
    spans = half - mp.mpf(fields["shift"]) if half > 1 else 1
    rates = [scale * mp.power(fields.get("base", 10000), -i / spans) for i in range(half)]
    order = ("sin", "cos") if fields["order"] == "sin_first" else ("cos", "sin")
    return [(function, [rate]) for function in order for rate in rates] + [("sin", [mp.mpf(0)])] * (fields["dim"] % 2)


def _grid(fields: dict[str, Any]) -> list[Column]:
    """Return the columns of each convention as in its code: the function, the axis, and the frequency."""
    dim, axes, base = fields["dim"], fields["num_axes"], fields.get("base", 10000)

    def block(function: str, axis: int, count: int) -> list[Column]:
        return [
            (function, [power(base, i, count) if a == axis else mp.mpf(0) for a in range(axes)]) for i in range(count)
        ]

    def both(axis: int, count: int) -> list[Column]:
        return block("sin", axis, count) + block("cos", axis, count)

    quarter = dim // 4
    if fields["convention"] == "timm":
        return [c for function in ("sin", "cos") for axis in (0, 1) for c in block(function, axis, quarter)]
    if fields["convention"] == "timm_interleaved":
        return both(0, quarter) + both(1, quarter)
    if fields["convention"] == "mae":
        return both(1, quarter) + both(0, quarter)
    if fields["convention"] == "diffusers":
        return both(0, dim // 8) + both(2, 3 * dim // 16) + both(1, 3 * dim // 16)
    count = -(-dim // (2 * axes))
    pairs = [zip(block("sin", axis, count), block("cos", axis, count), strict=True) for axis in range(axes)]
    return [column for axis in pairs for pair in axis for column in pair][:dim]


def _fourier(fields: dict[str, Any]) -> list[Column]:
    axes = fields["num_axes"]
    count = fields["dim"] // (2 * axes)

    def rates(axis: int, k: int, unit: Any) -> list[Any]:
        return [unit * 2**k if a == axis else mp.mpf(0) for a in range(axes)]

    if fields["convention"] == "paper":
        return [(f, rates(a, k, +mp.pi)) for a in range(axes) for k in range(count) for f in ("sin", "cos")]
    return [(f, rates(a, k, mp.mpf(1))) for k in range(count) for f in ("sin", "cos") for a in range(axes)]


def _random(fields: dict[str, Any]) -> list[Column]:
    turns = fields.get("mixture") or _mixture(**fields)
    rows = [[2 * mp.pi * mp.mpf(each) for each in row] for row in turns]
    order = ("sin", "cos") if fields.get("order") == "sin_first" else ("cos", "sin")
    return [(function, row) for function in order for row in rows]


def _mixture(dim: int, num_axes: int, scale: float, seed: int, **_: Any) -> list[list[float]]:
    uniform = twister(seed)
    return [[float(_normal(uniform) * mp.mpf(scale)) for _ in range(num_axes)] for _ in range(dim // 2)]


def _normal(uniform: random.Random) -> Any:
    """Return the first of the two numbers of Box and Muller."""
    radius, turn = mp.mpf(uniform.random()), mp.mpf(uniform.random())
    return mp.sqrt(-2 * mp.log(1 - radius)) * mp.cos(2 * mp.pi * turn)


def twister(seed: int) -> random.Random:
    """Return Python's Mersenne twister, seeded with one integer as by its authors and by NumPy's `RandomState`."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) % 2**32)
    numbers = random.Random()
    numbers.setstate((3, (*state, 624), None))
    return numbers
