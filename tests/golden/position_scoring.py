"""Golden numbers of scoring encodings that use positions alone: their constants, and biases with learned parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import mpmath as mp
from numbers_of import DTYPES, power, rounded

OFFSETS = [*range(-300, 301), *(s * d for d in (399, 400, 401, 800, 801, 4096, 65537, 2**20) for s in (-1, 1))]
FAR = 2**20  # the position of the query
Numbers = dict[str, Any]
Bias = Callable[[Numbers, int, int, int], Any]  # of a head, a query and a key


def scoring_constants() -> Iterator[dict[str, Any]]:
    """Yield slopes, and the indices of buckets and windows as biases of a table whose rows contain their index."""
    for heads, settings in (
        (12, {"slopes": "geometric"}),
        (5, {"slopes": "geometric", "max_bias": 5.5}),
        (3, {"slopes": [0.75, 0.0, 0.1]}),
        (71, {"max_bias": 16}),
        (3, {"sides": "past"}),
    ):
        yield _slopes(heads, settings)
    for buckets, farthest, sides in (
        (32, 128, "both"),
        (32, 128, "past"),
        (32, 800, "both"),
        (16, 400, "both"),
        (256, 300, "both"),
        (7, 20, "past"),
        (2, 1, "both"),
    ):
        yield _buckets(buckets, farthest, sides)
    for window, prefix in (((2, 3), 0), ((3, 2), 1), ((7, 7), 0), ((1, 1), 1)):
        yield _index(window, prefix)
    for heads, settings in ((3, {}), (12, {"dim": 6, "base": 500.5})):
        yield _cosines(heads, settings)


def _slopes(heads: int, settings: dict[str, Any]) -> dict[str, Any]:
    encoding = {"kind": "Alibi", "num_heads": heads, **settings}
    keys = [0, FAR - 5, FAR - 1, FAR, FAR + 1, FAR + 7]
    given = settings.get("slopes")
    powers = given if isinstance(given, list) else [mp.power(2, -n) for n in _exponents(heads, **settings)]
    slopes = [mp.mpf(rounded(slope)) for slope in powers]
    far = [max(FAR - key, 0) if settings.get("sides") == "past" else abs(FAR - key) for key in keys]
    bias = [[[-rounded(slope * d) for d in far]] for slope in slopes]
    name = ", ".join(["Alibi", f"{heads} heads", *(f"{name} {value}" for name, value in settings.items())])
    return _entry(name, encoding, {}, bias, [FAR], keys)


def _exponents(heads: int, *, slopes: str = "press", max_bias: float = 8, **_: Any) -> list[Any]:
    """Return minus the binary logarithms of the slopes: the paper's formula, or MPT's permutation of it."""
    whole = heads if slopes == "geometric" else 2 ** (heads - 1).bit_length()
    exponents = [mp.mpf(max_bias) * i / whole for i in range(1, whole + 1)]
    return exponents if whole == heads else [*exponents[1::2], *exponents[::2]][:heads]


def _cosines(heads: int, settings: dict[str, Any]) -> dict[str, Any]:
    encoding = {"kind": "Sandwich", "num_heads": heads, "max_distance": 5000, **settings}
    offsets = [d for d in OFFSETS if abs(d) <= 4096] + [5000, -5001, 2**20]
    bias = [[[sandwich(head, d, encoding) for d in offsets]] for head in range(heads)]
    name = ", ".join(["Sandwich", f"{heads} heads", *(f"{name} {value}" for name, value in settings.items())])
    return _entry(name, encoding, {}, bias, [FAR], [FAR + d for d in offsets])


def sandwich(head: int, offset: int, encoding: dict[str, Any]) -> float:
    """Return a bias of Sandwich: the sum of cosines and the factor of the head, each rounded once."""
    far = min(abs(offset), encoding["max_distance"])
    sums = mp.mpf(_sum_of_cosines(far, encoding.get("dim", 128), encoding.get("base", 10000)))
    return rounded(sums * rounded(mp.mpf(encoding["num_heads"]) / (8 * (head + 1))))


@cache
def _sum_of_cosines(far: int, dim: int, base: float) -> float:
    return rounded(mp.fsum(mp.cos(far * power(base, i, dim // 2)) for i in range(1, dim // 2 + 1)))


def _buckets(num_buckets: int, max_distance: int, sides: str) -> dict[str, Any]:
    fields = {"num_buckets": num_buckets, "max_distance": max_distance, "sides": sides}
    table = [[float(row + 1000 * head) for head in range(2)] for row in range(num_buckets)]
    rows = [bucket(offset, num_buckets, max_distance, sides) for offset in OFFSETS]
    bias = [[[float(row + 1000 * head) for row in rows]] for head in range(2)]
    name = f"T5Bias, {num_buckets} buckets to {max_distance}, {sides}"
    encoding = {"kind": "T5Bias", "num_heads": 2, **fields}
    return _entry(name, encoding, {"table": table}, bias, [FAR], [FAR + offset for offset in OFFSETS])


def bucket(offset: int, num_buckets: int, max_distance: int, sides: str) -> int:
    """Return the bucket by the formula, with logarithms of 50 digits; results next to an integer are that integer."""
    per_side = num_buckets // 2 if sides == "both" else num_buckets
    first = per_side if sides == "both" and offset > 0 else 0
    far = abs(offset) if sides == "both" else max(-offset, 0)
    single = per_side // 2
    if far < single or per_side == 1:
        return first + min(far, per_side - 1)
    steps = mp.log(mp.mpf(far) / single) / mp.log(mp.mpf(max_distance) / single) * (per_side - single)
    whole = mp.nint(steps) if abs(steps - mp.nint(steps)) < mp.mpf(10) ** -40 else mp.floor(steps)
    return first + min(single + int(whole), per_side - 1)


def _index(window: tuple[int, int], prefix: int) -> dict[str, Any]:
    tokens = [None] * prefix + list(product(*map(range, window)))
    rows = [[window_row(query, key, window) for key in tokens] for query in tokens]
    count = (2 * window[0] - 1) * (2 * window[1] - 1) + 3 * prefix
    table = [[float(row + 1000 * head) for head in range(2)] for row in range(count)]
    bias = [[[float(row + 1000 * head) for row in line] for line in rows] for head in range(2)]
    encoding = {"kind": "SwinBias", "num_heads": 2, "window": window, "prefix_tokens": prefix}
    positions = list(range(len(tokens)))
    name = f"SwinBias, window {window[0]} × {window[1]}, {prefix} prefix tokens"
    return _entry(name, encoding, {"table": table}, bias, positions, positions)


def window_row(query: Any, key: Any, window: tuple[int, int]) -> int:
    """Return the index of the offset among all offsets in order; those of the class token come last."""
    offsets = list(product(*(range(1 - size, size) for size in window)))
    if query is None or key is None:
        return len(offsets) + (2 if query is key else int(query is not None))
    return offsets.index((query[0] - key[0], query[1] - key[1]))


def _entry(name: str, encoding: Any, numbers: Numbers, bias: Any, queries: Any, keys: Any) -> dict[str, Any]:
    return {
        "name": name,
        "encoding": encoding,
        "dtype": "float32",
        "parameters": numbers,
        "query_positions": queries,
        "key_positions": keys,
        "bias": bias,
    }


def position_scoring() -> Iterator[dict[str, Any]]:
    """Yield biases of the first positions, and the gradient of their weighted sum with respect to each parameter."""
    numbers = random.Random(20220522)
    r1, r2 = [0.5, 1.25, 0.75], [0.25, 1.75, 0.5]
    for variant, sides in product(("logarithmic", "power"), ("both", "past")):
        kernel = logarithmic if variant == "logarithmic" else _power
        fields = {"kind": "Kerple", "num_heads": 3, "variant": variant, "sides": sides}
        yield _learned(f"Kerple {variant}, {sides}", fields, {"r1": r1, "r2": r2}, sided(kernel, sides), numbers)
    clamped = {"r1": [0.0, 1.0, -1.0], "r2": [0.5, -0.5, 2.5]}
    fields = {"kind": "Kerple", "num_heads": 3, "variant": "power"}
    yield _learned("Kerple power, clamped", fields, clamped, sided(_power, "both"), numbers)
    perceptron = {
        "c": [0.25],
        "l": [-1.25],
        "hidden_weight": [1.5, -0.75, 2.0],
        "hidden_bias": [0.25, 0.5, -1.0],
        "head_weight": [[0.5, 1.0, 0.75], [1.25, 0.25, -0.5]],
        "head_bias": [0.125, -0.25],
    }
    fields = {"kind": "Fire", "num_heads": 2, "hidden": 3, "threshold": 2}
    fire = _learned("Fire", fields, perceptron, perceived, numbers)
    yield fire | {"scales": {"c": [_flow_of_c(perceptron, fire["weights"])]}}
    for dtype in DTYPES:
        table = {"table": [[rounded(numbers.gauss(0, 1)) for _ in range(2)] for _ in range(8)]}
        fields = {"kind": "T5Bias", "num_heads": 2, "num_buckets": 8, "max_distance": 6}
        yield _learned(f"T5Bias, {dtype}", fields, table, _looked_up, numbers, dtype)
    window = {"table": [[rounded(numbers.gauss(0, 1)) for _ in range(2)] for _ in range(18)]}
    fields = {"kind": "SwinBias", "num_heads": 2, "window": (3, 2), "prefix_tokens": 1}
    yield _learned("SwinBias", fields, window, _in_window, numbers)
    numbers = random.Random(20211118)
    for fields in (
        {"kind": "SwinV2Bias", "num_heads": 2, "window": (3, 3), "hidden": 3},
        {"kind": "SwinV2Bias", "num_heads": 2, "window": (2, 4), "trained_window": (5, 5), "hidden": 3},
    ):
        name = f"SwinV2Bias, window {fields['window']}"
        yield _learned(name, fields, PERCEPTRON, partial(in_window_v2, fields), numbers)
    for depth, by_log in ((1, False), (2, True)):
        fields = {"kind": "DynamicPositionBias", "num_heads": 2, "hidden": 3, "depth": depth, "log_distance": by_log}
        name = f"DynamicPositionBias, depth {depth}"
        yield _learned(name, fields, dynamic_parameters(depth), partial(dynamic, depth, by_log), numbers)


def _learned(
    name: str, fields: Any, learned: Numbers, bias: Bias, numbers: random.Random, dtype: str = "float32"
) -> dict[str, Any]:
    cells = list(product(range(fields["num_heads"]), range(5), range(7)))
    weights = {cell: float(numbers.randrange(1, 10)) for cell in cells}
    exact = {name: _map(mp.mpf, array) for name, array in learned.items()}

    def total(given: Numbers) -> Any:
        return mp.fsum(weights[cell] * bias(given, *cell) for cell in cells)

    gradients = {name: _derivatives(total, exact, name) for name in learned}
    values = {cell: rounded(bias(exact, *cell)) if "table" in learned else bias(exact, *cell) for cell in cells}
    return {
        "name": name,
        "encoding": fields,
        "dtype": dtype,
        "parameters": learned,
        "bias": _nested(fields["num_heads"], lambda cell: rounded(values[cell], min(DTYPES[dtype], 53))),
        "weights": _nested(fields["num_heads"], weights.__getitem__),
        "gradients": gradients,
    }


def _nested(heads: int, of: Callable[[tuple[int, int, int]], float]) -> list[Any]:
    return [[[of((head, i, j)) for j in range(7)] for i in range(5)] for head in range(heads)]


def _map(function: Callable[[Any], Any], array: Any) -> Any:
    return [_map(function, part) for part in array] if isinstance(array, list) else function(array)


def _derivatives(total: Callable[[Numbers], Any], learned: Numbers, name: str) -> Any:
    """Return central differences with 50 digits and a step of 1e-15: errors are 1e-30, and no kink is that near."""
    step = mp.mpf(10) ** -15

    def at(array: Any, replace: Callable[[Any], Any]) -> Any:
        if not isinstance(array, list):
            up, down = (total({**learned, name: replace(array + sign * step)}) for sign in (1, -1))
            return float((up - down) / (2 * step))
        return [
            at(part, lambda new, i=i: replace([*array[:i], new, *array[i + 1 :]]))  # type: ignore[misc]
            for i, part in enumerate(array)
        ]

    return at(learned[name], lambda new: new)


def sided(kernel: Callable[[Any, Any, int], Any], sides: str) -> Bias:
    def bias(learned: Numbers, head: int, i: int, j: int) -> Any:
        far = abs(i - j) if sides == "both" else max(i - j, 0)
        return kernel(max(learned["r1"][head], mp.mpf(0.01)), max(learned["r2"][head], mp.mpf(0.01)), far)

    return bias


def logarithmic(r1: Any, r2: Any, far: int) -> Any:
    return -r1 * mp.log(1 + r2 * far)


def _power(r1: Any, r2: Any, far: int) -> Any:
    return -r1 * mp.power(far, min(r2, 2))


def perceived(learned: Numbers, head: int, i: int, j: int, below: Any = None) -> Any:
    """Return the bias of FIRE; `below` is the c of the denominator, if it is another."""
    c, threshold = learned["c"][0], abs(2 * learned["l"][0])
    below = c if below is None else below
    share = mp.log(abs(c * (i - j)) + 1) / (mp.log(abs(below * max(mp.mpf(i), threshold)) + 1) + mp.mpf(10) ** -6)
    units = zip(learned["hidden_weight"], learned["hidden_bias"], learned["head_weight"][head], strict=True)
    return mp.fsum(out * max(w * share + b, 0) for w, b, out in units) + learned["head_bias"][head]


def _flow_of_c(learned: Numbers, weights: Any) -> float:
    """Return the size of terms that nearly cancel in the gradient: those of the numerators and the denominators."""
    c, total = mp.mpf(learned["c"][0]), mp.mpf(0)
    for head, i, j in product(range(2), range(5), range(7)):
        above = mp.diff(lambda x: perceived({**learned, "c": [x]}, head, i, j, below=c), c)  # noqa: B023
        below = mp.diff(lambda x: perceived(learned, head, i, j, below=x), c)  # noqa: B023
        total += weights[head][i][j] * (abs(above) + abs(below))
    return float(total)


def _looked_up(learned: Numbers, head: int, i: int, j: int) -> Any:
    return learned["table"][bucket(j - i, 8, 6, "both")][head]


def _in_window(learned: Numbers, head: int, i: int, j: int) -> Any:
    tokens = [None, *product(range(3), range(2))]
    return learned["table"][window_row(tokens[i], tokens[j], (3, 2))][head]


PERCEPTRON = {
    "hidden_weight": [[1.5, 0.5], [-0.75, 1.25], [2.0, -1.0]],
    "hidden_bias": [0.25, 0.5, -1.0],
    "head_weight": [[0.5, 1.0, 0.75], [1.25, 0.25, -0.5]],
}


def in_window_v2(fields: Numbers, learned: Numbers, head: int, i: int, j: int) -> Any:
    """Return the bias of Swin v2, whose coordinates are float32."""
    width, trained = fields["window"][1], fields.get("trained_window", fields["window"])
    offsets = [a - b for a, b in zip(divmod(i, width), divmod(j, width), strict=True)]
    xs = [
        mp.mpf(rounded(mp.sign(d) * mp.log(1 + mp.mpf(8 * abs(d)) / (size - 1), 2) / 3))
        for d, size in zip(offsets, trained, strict=True)
    ]
    units = zip(learned["hidden_weight"], learned["hidden_bias"], learned["head_weight"][head], strict=True)
    total = mp.fsum(out * max(w[0] * xs[0] + w[1] * xs[1] + b, 0) for w, b, out in units)
    return 16 / (1 + mp.exp(-total))


def dynamic_parameters(depth: int) -> Numbers:
    """Return parameters of a `DynamicPositionBias` with three hidden units in each layer, and two heads."""
    layers = {
        "hidden_0_weight": [[0.5], [-0.75], [1.25]],
        "hidden_0_bias": [0.25, 0.5, -1.0],
        "hidden_1_weight": [[0.5, 1.0, -0.25], [-0.75, 0.5, 0.25], [1.25, -1.0, 0.5]],
        "hidden_1_bias": [-0.25, 0.75, 0.5],
        "head_weight": [[0.5, 1.0, 0.75], [1.25, 0.25, -0.5]],
        "head_bias": [0.125, -0.25],
    }
    return {name: array for name, array in layers.items() if depth > 1 or "1" not in name}


def dynamic(depth: int, by_log: bool, learned: Numbers, head: int, i: int, j: int) -> Any:
    """Return the bias of `DynamicPositionBias`."""
    x = [mp.sign(i - j) * mp.log(1 + abs(i - j)) if by_log else mp.mpf(i - j)]
    for layer in range(depth):
        rows = zip(learned[f"hidden_{layer}_weight"], learned[f"hidden_{layer}_bias"], strict=True)
        sums = [mp.fsum(mp.mpf(w) * y for w, y in zip(row, x, strict=True)) + b for row, b in rows]
        x = [y / (1 + mp.exp(-y)) for y in sums]
    weights = learned["head_weight"][head]
    return mp.fsum(mp.mpf(w) * y for w, y in zip(weights, x, strict=True)) + learned["head_bias"][head]
