"""Golden numbers of attention with every kind of encoding, masks, grouped heads and caches, and their gradients."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import mpmath as mp
import pope
import remapping
from numbers_of import DTYPES, dot, exact, power, rounded
from query_scale import factor_of

WIDTH, HEADS, HEAD_DIM = 8, 2, 4
STEP = mp.mpf(10) ** -16  # of central differences: their error is its square, 1e-32; 34 of 50 digits remain
ROTARY = {"kind": "Rotary", "head_dim": HEAD_DIM, "layout": "half"}
XPOS = {"kind": "XPos", "head_dim": HEAD_DIM, "layout": "interleaved", "scale_base": 4}
ALIBI = {"kind": "Alibi", "num_heads": HEADS}
T5 = {"kind": "T5Bias", "num_heads": HEADS, "num_buckets": 8, "max_distance": 6}
SCALE = {"kind": "QueryScale", "length": 2, "scale": 0.75}
NORM = {"kind": "QKNorm", "head_dim": HEAD_DIM, "epsilon": 0.25, "offset": 1.0}
SHAW = {"kind": "ShawBias", "num_heads": HEADS, "head_dim": HEAD_DIM, "max_distance": 2}
SELF_EXTEND = {"kind": "SelfExtend", "rotary": ROTARY, "window": 2, "group_size": 2}
RE_ROPE = {"kind": "ReRoPE", "rotary": XPOS, "window": 2}
LEAKY = {"kind": "LeakyReRoPE", "rotary": ROTARY, "window": 2, "factor": 1.5}
POPE = {"kind": "PoPE", "head_dim": HEAD_DIM}
DUAL_CHUNK = {"kind": "DualChunk", "rotary": ROTARY, "chunk_size": 3, "local_size": 1}
ROWS, QUERIES = [4, 0], [[1, 2, 5], [0, 3, 4]]
FAR = {"positions": [[1048577, 5, 3], [0, -2, 7]], "key_positions": [[1048576, 1048577, 4, 0, 9], [1, 0, -2, 3, 7]]}
CLOSE = {"positions": [[2, 3, 4], [5, 4, 6]], "key_positions": [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]]}

GoldenCase = dict[str, Any]


def attention() -> Iterator[GoldenCase]:
    """Yield attention with two heads of four channels, each kind of encoding, and rows without visible keys."""
    numbers = random.Random(19560101)
    for name, position, kv_heads, options in (
        ("no position", None, 2, {}),
        ("no position, lengths of rows", None, 2, {"valid_lens": ROWS}),
        ("no position, groups, lengths of queries", None, 1, {"valid_lens": QUERIES}),
        ("Rotary half, lengths of rows, causal", ROTARY, 2, {"valid_lens": ROWS, "causal": True}),
        (
            "Rotary interleaved, groups, given positions, causal",
            ROTARY | {"layout": "interleaved"},
            1,
            FAR | {"causal": True},
        ),
        ("Rotary half, groups, from 2 on, causal", ROTARY, 1, {"start": 2, "causal": True}),
        ("XPos, lengths of queries", XPOS, 2, {"valid_lens": QUERIES}),
        ("Alibi, groups, lengths of queries, from 2 on", ALIBI, 1, {"valid_lens": QUERIES, "start": 2}),
        ("Alibi, given positions, causal", ALIBI, 2, FAR | {"causal": True}),
        ("T5Bias, a mask for each query and head, causal", T5, 2, {"mask": True, "causal": True, "start": 2}),
        ("ShawBias, groups, lengths of rows", SHAW, 1, {"valid_lens": ROWS}),
    ):
        yield _whole(name, position, kv_heads, options, numbers)
    for position in (ROTARY, XPOS, ALIBI, T5, SHAW):
        yield _cut(position, numbers)
    yield _whole("no position, a query scale, from 2 on, causal", None, 1, {"start": 2, "causal": True}, numbers, SCALE)
    logarithmic = SCALE | {"growth": "log"}
    yield _whole("Rotary, a query scale, lengths of rows", ROTARY, 2, {"valid_lens": ROWS}, numbers, logarithmic)
    yield _cut(ROTARY, numbers, SCALE)
    learned = {"kind": "LearnedQueryScale", "num_heads": HEADS}
    yield _whole("Rotary, a learned query scale, groups, causal", ROTARY, 1, {"causal": True}, numbers, learned)
    for name, position, kv_heads, options in (
        ("SelfExtend, groups, given positions, causal", SELF_EXTEND, 1, FAR),
        ("ReRoPE, given positions, lengths of queries, causal", RE_ROPE, 2, {"valid_lens": QUERIES, **CLOSE}),
        ("LeakyReRoPE, given positions, causal", LEAKY, 2, FAR),
        ("DualChunk, groups, from 2 on, causal", DUAL_CHUNK, 1, {"start": 2}),
    ):
        yield _whole(name, position, kv_heads, options | {"causal": True}, numbers)
    yield _cut(SELF_EXTEND, numbers, SCALE)
    yield _cut(DUAL_CHUNK, numbers)
    far = FAR | {"causal": True}
    yield _whole("PoPE, groups, given positions, causal", POPE | {"num_heads": 1}, 1, far, numbers)
    yield _whole(
        "PoPE, lengths of rows, from 2 on", POPE | {"num_heads": 2}, 2, {"valid_lens": ROWS, "start": 2}, numbers
    )
    yield _cut(POPE | {"num_heads": 1}, numbers, SCALE)
    name, row = "Rotary, QK-norm", {"kind": "QKNorm", "head_dim": HEAD_DIM, "num_heads": HEADS, "num_kv_heads": 1}
    yield _whole(f"{name} of rows, groups, lengths of rows", ROTARY, 1, {"valid_lens": ROWS}, numbers, norm=row)
    after = NORM | {"order": "rope_first"}
    yield _whole(f"{name} after it, given positions, causal", ROTARY, 2, far, numbers, norm=after)
    yield _cut(ROTARY, numbers, norm=NORM)


def attend() -> Iterator[GoldenCase]:
    """Yield the function `attend` in every dtype: computed in float32 and rounded once, or in float64."""
    numbers = random.Random(20170612)
    for name, position, heads in (("no position, groups", None, 1), ("Rotary", ROTARY, 2), ("Alibi", ALIBI, 1)):
        for dtype, bits in DTYPES.items():
            if dtype != "float64" or position is not ROTARY:  # its table is float32
                yield {"name": f"attend, {name}, {dtype}", "dtype": dtype} | _alone(position, heads, bits, numbers)
    for position in (SELF_EXTEND, DUAL_CHUNK):
        name = f"attend, {position['kind']}, groups, float32"
        yield {"name": name, "dtype": "float32"} | _alone(position, 1, DTYPES["float32"], numbers)


def _alone(position: Any, heads: int, bits: int, numbers: random.Random) -> GoldenCase:
    q, k, v = (_drawn(numbers, 2, n, length, HEAD_DIM) for n, length in ((HEADS, 3), (heads, 5), (heads, 5)))
    weights = _drawn(numbers, 2, HEADS, 3, HEAD_DIM)
    formula = _Formula(position, {}, {"start": 1, "causal": True}, bits)

    def of(b: int, h: int, i: int) -> Any:
        return lambda row: formula.mixed(row, k, v, (b, h, i), heads)

    smooth = formula.kind != "Rotary" or bits >= 24  # otherwise the rotation rounds queries
    result, gradient = _each(q, of, weights if smooth else None)
    tokens = {"position": position, "q": q, "k": k, "v": v, "weights": weights, "start": 1}
    return tokens | {"result": _rounded(result, bits), "gradient": _rounded(gradient, bits) if smooth else None}


def _whole(
    name: str,
    position: Any,
    kv_heads: int,
    options: GoldenCase,
    numbers: random.Random,
    scale: GoldenCase | None = None,
    norm: GoldenCase | None = None,
) -> GoldenCase:
    made = made_of(position, kv_heads, numbers, norm) | ({"query_scale": scale} if scale else {})
    if scale and scale["kind"] == "LearnedQueryScale":
        made["parameters"] = {name: _drawn(numbers, HEADS) for name in ("slope", "intercept")}
    queries, keys, values, weights = (_drawn(numbers, 2, length, WIDTH) for length in (3, 5, 5, 3))
    if "mask" in options:
        options = options | {
            "mask": [[[[numbers.random() < 0.7 for _ in range(5)] for _ in range(3)] for _ in "hh"] for _ in "bb"]
        }
    result, gradient = attended(made, queries, keys, values, options, weights)
    tokens = {"queries": queries, "keys": keys, "values": values, "weights": weights}
    results = {"options": options, "cuts": None, "result": result, "gradient": gradient}
    return {"name": f"MultiHeadAttention, {name}"} | made | tokens | results


def _cut(
    position: Any, numbers: random.Random, scale: GoldenCase | None = None, norm: GoldenCase | None = None
) -> GoldenCase:
    """Yield causal self-attention that is computed piece by piece with a cache."""
    made, tokens = made_of(position, 1, numbers, norm), _drawn(numbers, 2, 6, WIDTH)
    made |= {"query_scale": scale} if scale else {}
    result, _ = attended(made, tokens, tokens, tokens, {"causal": True}, None)
    names = {"queries": tokens, "keys": tokens, "values": tokens}
    results = {"options": {"causal": True}, "cuts": [3, 4], "result": result}
    beside = "a query scale, " * bool(scale) + "QK-norm, " * bool(norm)
    name = f"MultiHeadAttention, {position['kind']}, {beside}groups, a cache"
    return {"name": name} | made | names | results


def made_of(position: Any, kv_heads: int, numbers: random.Random, norm: GoldenCase | None = None) -> GoldenCase:
    narrow, kind = kv_heads * HEAD_DIM, position and position["kind"]
    shapes = {"W_q": (WIDTH, WIDTH), "W_k": (WIDTH, narrow), "W_v": (WIDTH, narrow), "W_o": (WIDTH, WIDTH)}
    learned = {"T5Bias": {"table": (8, HEADS)}, "ShawBias": {"key_table": (5, HEAD_DIM), "value_table": (5, HEAD_DIM)}}
    learned["PoPE"] = {"phase": (kv_heads, HEAD_DIM)}
    made = {
        "position": position,
        "kv_heads": kv_heads,
        "matrices": {name: _scaled(_drawn(numbers, *shape)) for name, shape in shapes.items()},
        "parameters": {name: _drawn(numbers, *shape) for name, shape in learned.get(kind, {}).items()},
    }
    if norm:
        heads = {"q_weight": norm.get("num_heads", 1), "k_weight": norm.get("num_kv_heads", 1)}
        made |= {"qk_norm": norm, "parameters": {name: _drawn(numbers, n * HEAD_DIM) for name, n in heads.items()}}
    return made


def _drawn(numbers: random.Random, *shape: int) -> Any:
    """Return multiples of 1/16, exact in any dtype."""
    return [_drawn(numbers, *shape[1:]) for _ in range(shape[0])] if shape else round(numbers.gauss(0, 1) * 16) / 16


def _scaled(matrix: Any) -> Any:
    """Return a quarter of the numbers: scores of size 1, so that softmax does not select a single key."""
    return [[number / 4 for number in row] for row in matrix]


def attended(
    made: GoldenCase, queries: Any, keys: Any, values: Any, options: GoldenCase, weights: Any
) -> tuple[Any, Any]:
    formula, w, heads = (
        _Formula(
            made["position"], made["parameters"], options, scale=made.get("query_scale"), norm=made.get("qk_norm")
        ),
        exact(made["matrices"]),
        made["kv_heads"],
    )
    k, v = (
        [_heads(formula.normalized(_product(exact(x), w[f"W_{name}"]), name), heads) for x in tokens]
        for tokens, name in ((keys, "k"), (values, "v"))
    )

    def of(b: int, _: int, i: int) -> Any:
        def result(row: list[Any]) -> list[Any]:
            q = formula.normalized(_product([row], w["W_q"]), "q")[0]
            parts = (q[HEAD_DIM * h : HEAD_DIM * (h + 1)] for h in range(HEADS))
            merged = [x for h, part in enumerate(parts) for x in formula.mixed(part, k, v, (b, h, i), heads)]
            return _product([merged], w["W_o"])[0]

        return result

    single = None if weights is None else [[rows] for rows in weights]
    result, gradient = _each([[rows] for rows in queries], of, single)
    return ([head[0] for head in _rounded(x, 53)] if x is not None else None for x in (result, gradient))


def _each(queries: Any, of: Any, weights: Any) -> tuple[Any, Any]:
    """Return the result of each query, `(batch, heads, queries, width)`, and its gradient by central differences."""
    result, gradient = [], []
    for b, heads in enumerate(queries):
        result.append([[of(b, h, i)(exact(row)) for i, row in enumerate(rows)] for h, rows in enumerate(heads)])
        if weights is not None:
            gradient.append(
                [
                    [_slope(of(b, h, i), row, weights[b][h][i]) for i, row in enumerate(rows)]
                    for h, rows in enumerate(heads)
                ]
            )
    return result, gradient if weights is not None else None


def _slope(function: Any, row: list[float], weights: list[float]) -> list[Any]:
    row, weights = exact(row), exact(weights)

    def moved(column: int, step: Any) -> Any:
        return dot(function([x + step if j == column else x for j, x in enumerate(row)]), weights)

    return [(moved(column, STEP) - moved(column, -STEP)) / (2 * STEP) for column in range(len(row))]


class _Formula:
    """The formula of attention for one query, with 50 digits."""

    def __init__(
        self,
        position: Any,
        parameters: GoldenCase,
        options: GoldenCase,
        bits: int = 53,
        scale: GoldenCase | None = None,
        norm: GoldenCase | None = None,
    ) -> None:
        self.position, self.parameters, self.options, self.bits = position, parameters, options, bits
        self.kind = position and position["kind"]
        self.remapping = position if self.kind in remapping.KINDS else None
        if self.remapping:
            self.position, self.kind = position["rotary"], position["rotary"]["kind"]
        self.scale, self.norm = scale, norm
        self.follows = norm is not None and norm.get("order") == "rope_first"

    def normalized(self, rows: Any, name: str) -> Any:
        """Return projected tokens of queries or keys normalized; the weight follows if the norm follows the rotation.

        The rotation of `Rotary` leaves the mean of the squares as it is.
        """
        if not self.norm or name == "v":
            return rows
        weight = self.gain(name)
        size = len(weight)
        gain = [1] * size if self.follows else weight
        parts = [[row[i : i + size] for i in range(0, len(row), size)] for row in rows]
        epsilon = mp.mpf(self.norm.get("epsilon", 1e-6))
        each = [[(part, 1 / mp.sqrt(dot(part, part) / size + epsilon)) for part in row] for row in parts]
        return [[x * r * g for part, r in row for x, g in zip(part, gain, strict=True)] for row in each]

    def gain(self, name: str) -> list[Any]:
        return [self.norm.get("offset", 0) + mp.mpf(w) for w in self.parameters[f"{name}_weight"]]

    def mixed(self, q: list[Any], keys: Any, values: Any, at: tuple[int, int, int], kv_heads: int) -> list[Any]:
        """Return the result of query `i` of head `h` of row `b` for the values, `(batch, kv_heads, keys, width)`."""
        b, h, _ = at
        group = h * kv_heads // HEADS
        k, v = keys[b][group], values[b][group]
        p = self.place("positions", b, at[2], self.options.get("start", 0))
        places = [self.place("key_positions", b, j, 0) for j in range(len(k))]
        seen = [j for j in range(len(k)) if self.sees(at, j, p, places[j])]
        if self.kind == "PoPE":
            q = pope.polar(self.position, q, p)
        if self.scale:
            q = [factor_of(self.scale, p, self.parameters, h) * x for x in q]
        pairs = self._pairs(q, p, k, [(j, places[j]) for j in seen], group)
        scores = [self.score(*pair, h, p, places[j]) for j, pair in zip(seen, pairs, strict=True)]
        grown = [mp.exp(score) for score in scores]
        total, rows = mp.fsum(grown), [self.value(v[j], p, places[j]) for j in seen]
        shares = [number / total for number in grown]  # that of a single key is exactly 1, so its gradient is 0
        return [dot(shares, column) for column in zip(*rows, strict=True)] if seen else [mp.mpf(0)] * HEAD_DIM

    def _pairs(
        self, q: list[Any], p: int, k: Any, keys: list[tuple[int, int]], group: int
    ) -> Iterator[tuple[list[Any], list[Any]]]:
        """Yield the rotated query and key of each pair; remapped ones with the whole distance in the query."""
        if self.kind == "PoPE":
            phase = self.parameters["phase"][group]
            yield from ((q, pope.polar(self.position, k[j], place, phase)) for j, place in keys)
            return
        if not self.remapping:
            turned = self.turned(q, p, 1)
            yield from ((turned, self.turned(k[j], place, -1)) for j, place in keys)
            return
        for j, place in keys:
            yield self.turned(q, remapping.of(self.remapping, p, place), 1), self.turned(k[j], 0, -1)

    def place(self, name: str, b: int, i: int, start: int) -> int:
        given = self.options.get(name)
        return start + i if given is None else given[b][i]

    def sees(self, at: tuple[int, int, int], j: int, p: int, place: int) -> bool:
        (b, h, i), lengths, mask = at, self.options.get("valid_lens"), self.options.get("mask")
        length = j + 1 if lengths is None else lengths[b][i] if isinstance(lengths[b], list) else lengths[b]
        return j < length and (not self.options.get("causal") or p >= place) and (mask is None or mask[b][h][i][j])

    def turned(self, x: list[Any], p: int, sign: int) -> list[Any]:
        """Return a rotated query (sign 1) or key (sign -1); with XPos, one shrinks and the other grows."""
        if self.kind not in ("Rotary", "XPos"):
            return x
        turned, half = list(x), self.position["layout"] == "half"
        for i in range(HEAD_DIM // 2):
            first, second = (i, i + HEAD_DIM // 2) if half else (2 * i, 2 * i + 1)
            cos, sin = _cos_sin(p, i, sign * self.position["scale_base"] if self.kind == "XPos" else None)
            turned[first], turned[second] = x[first] * cos - x[second] * sin, x[second] * cos + x[first] * sin
        if self.follows:
            turned = [x * g for x, g in zip(turned, self.gain("q" if sign > 0 else "k"), strict=True)]
        return [rounded(number, self.bits) for number in turned] if self.bits < 24 else turned

    def score(self, q: list[Any], k: list[Any], head: int, p: int, place: int) -> Any:
        score = dot(q, k) / mp.sqrt(HEAD_DIM)
        if self.kind == "Alibi":
            return score - mp.power(2, -mp.mpf(8) * (head + 1) / HEADS) * abs(p - place)
        if self.kind == "T5Bias":
            return score + self.parameters["table"][self.bucket(place - p)][head]
        if self.kind == "ShawBias":
            return score + dot(q, self.parameters["key_table"][self.offset(p, place)]) / mp.sqrt(HEAD_DIM)
        return score

    def value(self, v: list[Any], p: int, place: int) -> list[Any]:
        if self.kind != "ShawBias":
            return v
        return [a + b for a, b in zip(v, self.parameters["value_table"][self.offset(p, place)], strict=True)]

    def offset(self, p: int, place: int) -> int:
        farthest = self.position["max_distance"]
        return max(-farthest, min(farthest, place - p)) + farthest

    def bucket(self, offset: int) -> int:
        """Return the bucket of Raffel et al.: half per side, half of these for one distance each, then logarithmic."""
        side = self.position["num_buckets"] // 2
        single, distance, first = side // 2, abs(offset), side if offset > 0 else 0
        if distance < single:
            return first + distance
        far = mp.log(mp.mpf(distance) / single) / mp.log(mp.mpf(self.position["max_distance"]) / single)
        return first + min(side - 1, single + int(mp.floor(far * (side - single))))


@cache
def _cos_sin(p: Any, pair: int, scale_base: int | None) -> tuple[Any, Any]:
    """Return cosine and sine of an angle, times the factor of XPos if there is a base of its scale."""
    angle, factor = p * power(10000, 2 * pair, HEAD_DIM), mp.mpf(1)
    if scale_base:
        zeta = (mp.mpf(2 * pair) / HEAD_DIM + mp.mpf("0.4")) / mp.mpf("1.4")
        factor = zeta ** (mp.mpf(p) / scale_base)
    return factor * mp.cos(angle), factor * mp.sin(angle)


def _heads(rows: list[Any], heads: int) -> list[Any]:
    return [[row[HEAD_DIM * h : HEAD_DIM * (h + 1)] for row in rows] for h in range(heads)]


def _product(rows: Any, matrix: Any) -> list[list[Any]]:
    columns = [list(column) for column in zip(*matrix, strict=True)]
    return [[dot(row, column) for column in columns] for row in rows]


def _rounded(x: Any, bits: int) -> Any:
    return [_rounded(part, bits) for part in x] if isinstance(x, list) else rounded(x, bits)
