"""Golden numbers of content-based encodings: attention and its gradients."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

import mpmath as mp
from numbers_of import dot, exact, power, rounded

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 2, 3, 5, 4
LENGTHS = {"q": QUERIES, "k": KEYS, "values": KEYS}
STEP = mp.mpf(10) ** -16  # of central differences: their error is its square, 1e-32; 34 of 50 digits remain
GIVEN = {
    "query_positions": [[4, 0, 1048577], [-3, 2, 2]],
    "key_positions": [[0, 1, 4, 1048576, 9], [2, 2, -5, 3, 1048576]],
}
SHAW = {"kind": "ShawBias", "num_heads": HEADS, "head_dim": WIDTH, "max_distance": 2}
XL = {"kind": "TransformerXLBias", "num_heads": HEADS, "head_dim": WIDTH, "max_distance": 3}
COPE = {"kind": "Cope", "num_heads": HEADS, "head_dim": WIDTH}
FORGETTING = {"kind": "ForgettingBias", "num_heads": HEADS, "head_dim": WIDTH}
SIZES = {"num_heads": HEADS, "head_dim": WIDTH}
DEBERTA = {"kind": "DebertaBias", **SIZES}
IMAGE = {"kind": "DecomposedBias", **SIZES, "window": (2, 2), "prefix_tokens": 1}
INKLING = {"kind": "RelativeLogits", **SIZES, "max_distance": 3, "num_curves": 2}
NEWER = (
    ((("DecomposedBias, after a class token", IMAGE, {"start": 2}, True),), 20211202),
    (
        (
            (
                "DebertaBias, 4 buckets, cached keys",
                DEBERTA | {"max_distance": 5, "num_buckets": 4},
                {"start": 2},
                True,
            ),
            ("DebertaBias, positions of each row", DEBERTA | {"max_distance": 3, "terms": "c2p"}, GIVEN, False),
        ),
        20200605,
    ),
    (
        (
            ("RelativeLogits, cached keys", INKLING, {"start": 2}, True),
            ("RelativeLogits, positions of each row", INKLING, GIVEN, False),
        ),
        20260701,
    ),
    (
        (
            (
                "ShawBias for each head, the past, not scaled",
                SHAW | {"per_head": True, "sides": "past", "scaled": False},
                {"start": 2},
                True,
            ),
            (
                "ShawBias for each head, positions of each row",
                SHAW | {"per_head": True, "applies_to": "keys"},
                GIVEN,
                False,
            ),
            ("ShawBias, the past, positions of each row", SHAW | {"sides": "past"}, GIVEN, False),
        ),
        20180912,
    ),
)

Arrays = dict[str, Any]


def content_scoring() -> Iterator[dict[str, Any]]:
    """Yield 2 batch rows, 2 heads, 3 queries and 5 keys, with default positions, a cache, and given positions."""
    one_row = {"query_positions": [7, 5, 5], "key_positions": [5, 6, 7, 3, 9]}
    first = (
        ("ShawBias", SHAW, {"start": 0}, False),
        ("ShawBias, cached keys", SHAW, {"start": 2}, True),
        ("ShawBias of keys alone, positions of one row", SHAW | {"applies_to": "keys"}, one_row, False),
        ("ShawBias, positions of each row", SHAW, GIVEN, False),
        ("TransformerXLBias", XL, {"start": 0}, False),
        ("TransformerXLBias, cached keys, 6 columns", XL | {"dim": 6}, {"start": 2}, True),
        ("TransformerXLBias, positions of each row", XL, GIVEN, False),
        ("Cope", COPE | {"max_position": 6}, {"start": 2}, True),
        ("Cope cut off", COPE | {"max_position": 2}, {"start": 2}, True),
    )
    yield from _cases(first, random.Random(20180306))
    yield from _cases((("ForgettingBias", FORGETTING, {"start": 2}, True),), random.Random(20250303))
    for settings, seed in NEWER:
        yield from _cases(settings, random.Random(seed))


def _cases(settings: Any, numbers: random.Random) -> Iterator[dict[str, Any]]:
    for name, encoding, placed, causal in settings:
        weights = {key: _draw(numbers, *shape, std=0.5) for key, shape in _shapes(encoding).items()}
        tokens = {key: _draw(numbers, BATCH, HEADS, length, WIDTH) for key, length in LENGTHS.items()}
        golden_case = {"name": name, "encoding": encoding, **placed, "causal": causal}
        arrays = {key: exact(array) for key, array in (tokens | weights).items()}
        yield golden_case | _numbers(numbers, golden_case, arrays) | {"weights": weights} | tokens


def _deberta_shapes(encoding: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    shape = (HEADS, 2 * encoding.get("num_buckets", encoding["max_distance"]), WIDTH)
    return {"K_r": shape} | ({} if encoding.get("terms") == "c2p" else {"Q_r": shape})


NEWER_SHAPES: dict[str, Callable[[dict[str, Any]], dict[str, tuple[int, ...]]]] = {
    "ForgettingBias": lambda _: {"w": (HEADS, WIDTH, HEADS), "b": (HEADS,)},
    "DecomposedBias": lambda encoding: {
        name: (2 * size - 1, WIDTH) for name, size in zip(("rows", "columns"), encoding["window"], strict=True)
    },
    "DebertaBias": _deberta_shapes,
    "RelativeLogits": lambda encoding: {
        "W_r": (HEADS, WIDTH, HEADS * encoding["num_curves"]),
        "curves": (encoding["num_curves"], encoding["max_distance"]),
    },
}


def _shapes(encoding: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    if encoding["kind"] in NEWER_SHAPES:
        return NEWER_SHAPES[encoding["kind"]](encoding)
    if encoding["kind"] == "Cope":
        return {"table": (encoding["max_position"], WIDTH)}
    if encoding["kind"] == "TransformerXLBias":
        columns = HEADS * WIDTH
        return {"u": (HEADS, WIDTH), "v": (HEADS, WIDTH), "W_r": (encoding.get("dim", columns), columns)}
    rows = (1 + encoding["max_distance"] * (1 if encoding.get("sides") == "past" else 2), WIDTH)
    rows = (HEADS, *rows) if encoding.get("per_head") else rows
    return {"key_table": rows} | ({} if encoding.get("applies_to") == "keys" else {"value_table": rows})


def _draw(numbers: random.Random, *shape: int, std: float = 1) -> Any:
    if not shape:
        return rounded(numbers.gauss(0, std))
    return [_draw(numbers, *shape[1:], std=std) for _ in range(shape[0])]


def _numbers(numbers: random.Random, golden_case: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the biased scores, the result of attention, and the gradients of both."""
    scores = _draw(numbers, BATCH, HEADS, QUERIES, KEYS)
    weights = _draw(numbers, BATCH, HEADS, QUERIES, KEYS)
    result_weights = _draw(numbers, BATCH, HEADS, QUERIES, WIDTH)
    case = {
        "scores": scores,
        "score_weights": _each(lambda b, h, i, j: weights[b][h][i][j] if _seen(golden_case, i, j) else 0.0),
        "biased": _each(lambda b, h, i, j: float(_biased(golden_case, arrays, scores, b, h, i, j))),
        "result_weights": result_weights,
        "result": [[_floats(_attended(golden_case, arrays, b, h)) for h in range(HEADS)] for b in range(BATCH)],
    }

    def of_scores(b: int, h: int, i: int) -> Any:
        seen = [j for j in range(KEYS) if _seen(golden_case, i, j)]
        return dot([_biased(golden_case, arrays, moved, b, h, i, j) for j in seen], [weights[b][h][i][j] for j in seen])

    def of_result(batch: Iterable[int] = range(BATCH), heads: Iterable[int] = range(HEADS)) -> Any:
        pairs = [(_attended(golden_case, arrays, b, h), result_weights[b][h]) for b in batch for h in heads]
        return mp.fsum(dot(row, other) for rows, others in pairs for row, other in zip(rows, others, strict=True))

    def of_tokens(array: Any) -> Any:
        """Return the gradient of tokens, `(batch, heads, ...)`: they change no other row, and few other heads."""
        mixed_heads = golden_case["encoding"]["kind"] in ("ForgettingBias", "RelativeLogits")
        return [
            [
                _gradient(partial(of_result, [b], range(HEADS) if mixed_heads else [h]), array[b][h])
                for h in range(HEADS)
            ]
            for b in range(BATCH)
        ]

    moved = exact(scores)
    case["scores_gradient"] = [
        [[_gradient(partial(of_scores, b, h, i), moved[b][h][i]) for i in range(QUERIES)] for h in range(HEADS)]
        for b in range(BATCH)
    ]
    case["gradients"] = {
        name: of_tokens(array) if name in LENGTHS else _gradient(of_result, array) for name, array in arrays.items()
    }
    if "b" in arrays:  # terms of its gradient, one for each token, nearly cancel
        arrays["b of tokens"] = [[[b] * KEYS for b in arrays["b"]] for _ in range(BATCH)]
        slopes = of_tokens(arrays["b of tokens"])
        del arrays["b of tokens"]
        case["scales"] = {"b": [sum(abs(slope) for row in slopes for slope in row[h]) for h in range(HEADS)]}
    return case


def _each(number: Callable[[int, int, int, int], float]) -> Any:
    return [
        [[[number(b, h, i, j) for j in range(KEYS)] for i in range(QUERIES)] for h in range(HEADS)]
        for b in range(BATCH)
    ]


def _gradient(function: Callable[[], Any], array: Any) -> Any:
    """Return central differences with respect to every number of nested lists; the lists are restored."""
    if isinstance(array[0], list):
        return [_gradient(function, part) for part in array]
    slopes = []
    for index, number in enumerate(array):
        ends = []
        for sign in (1, -1):
            array[index] = number + sign * STEP
            ends.append(function())
        array[index] = number
        slopes.append(float((ends[0] - ends[1]) / (2 * STEP)))
    return slopes


def _seen(golden_case: dict[str, Any], i: int, j: int) -> bool:
    return not golden_case["causal"] or j <= i + golden_case["start"]


def _place(golden_case: dict[str, Any], name: str, b: int, index: int) -> int:
    given = golden_case.get(name)
    if given is None:
        return index + (golden_case["start"] if name == "query_positions" else 0)
    return given[b][index] if isinstance(given[0], list) else given[index]


def _row(golden_case: dict[str, Any], b: int, i: int, j: int) -> int:
    """Return the table row for the offset of key j from query i, clipped as in the paper."""
    limit = golden_case["encoding"]["max_distance"]
    offset = _place(golden_case, "key_positions", b, j) - _place(golden_case, "query_positions", b, i)
    return max(-limit, min(0 if golden_case["encoding"].get("sides") == "past" else limit, offset)) + limit


def _vector(golden_case: dict[str, Any], table: Any, b: int, h: int, i: int, j: int) -> Any:
    """Return the row of a table for the offset of key j from query i."""
    own = table[h] if golden_case["encoding"].get("per_head") else table
    return own[_row(golden_case, b, i, j)]


def _attended(golden_case: dict[str, Any], arrays: Arrays, b: int, h: int) -> list[list[Any]]:
    """Attention of one head: equations 3 to 5 of Shaw et al., also with the scores of the other encodings."""
    q, k, v = (arrays[name][b][h] for name in LENGTHS)
    result = []
    scores = [[dot(a, c) / mp.sqrt(WIDTH) for c in k] for a in q]
    for i in range(QUERIES):
        seen = [j for j in range(KEYS) if _seen(golden_case, i, j)]
        grown = {j: mp.exp(scores[i][j] + _added(golden_case, arrays, scores, b, h, i, j)) for j in seen}
        total = mp.fsum(grown.values())
        sums = [
            mp.fsum(grown[j] * (v[j][c] + _value(golden_case, arrays, b, h, i, j, c)) for j in seen)
            for c in range(WIDTH)
        ]
        result.append([x / total for x in sums])
    return result


def _value(golden_case: dict[str, Any], arrays: Arrays, b: int, h: int, i: int, j: int, column: int) -> Any:
    return _vector(golden_case, arrays["value_table"], b, h, i, j)[column] if "value_table" in arrays else 0


def _biased(golden_case: dict[str, Any], arrays: Arrays, scores: Any, b: int, h: int, i: int, j: int) -> Any:
    return scores[b][h][i][j] + _added(golden_case, arrays, scores[b][h], b, h, i, j) if _seen(golden_case, i, j) else 0


def _added(golden_case: dict[str, Any], arrays: Arrays, scores: Any, b: int, h: int, i: int, j: int) -> Any:
    q, k = arrays["q"][b][h][i], arrays["k"][b][h][j]
    if golden_case["encoding"]["kind"] == "ShawBias":
        root = mp.sqrt(WIDTH) if golden_case["encoding"].get("scaled", True) else 1
        return dot(q, _vector(golden_case, arrays["key_table"], b, h, i, j)) / root
    query, key = (_place(golden_case, f"{name}_positions", b, index) for name, index in (("query", i), ("key", j)))
    newer: dict[str, Callable[[], Any]] = {
        "DecomposedBias": lambda: decomposed(golden_case["encoding"], arrays, q, query, key),
        "DebertaBias": lambda: disentangled(golden_case["encoding"], arrays, h, q, k, scores[i][j], query - key),
        "RelativeLogits": lambda: mixed(arrays, h, [head[i] for head in arrays["q"][b]], query - key),
    }
    if golden_case["encoding"]["kind"] in newer:
        return newer[golden_case["encoding"]["kind"]]()
    if golden_case["encoding"]["kind"] == "ForgettingBias":
        after = [l for l in range(j + 1, KEYS) if _seen(golden_case, i, l)]
        of_tokens = arrays["b of tokens"][b][h] if "b of tokens" in arrays else [arrays["b"][h]] * KEYS
        return mp.fsum(log_gate([head[l] for head in arrays["k"][b]], arrays["w"], h, of_tokens[l]) for l in after)
    if golden_case["encoding"]["kind"] == "Cope":
        return contextual(q, arrays["table"], [scores[i][l] for l in range(j, KEYS) if _seen(golden_case, i, l)])
    distance = golden_case["encoding"]["max_distance"] - _row(golden_case, b, i, j)
    r = projected([row[WIDTH * h : WIDTH * (h + 1)] for row in arrays["W_r"]], distance)
    turned = mp.fsum((a + c) * e for a, c, e in zip(q, arrays["v"][h], r, strict=True))
    return (dot(arrays["u"][h], k) + turned) / mp.sqrt(WIDTH)


def projected(matrix: Any, distance: int) -> list[Any]:
    """Return the sinusoidal row of a distance, sines first, times the matrix."""
    return [dot(_sinusoid(distance, len(matrix) // 2), column) for column in zip(*matrix, strict=True)]


@cache
def _sinusoid(distance: int, half: int) -> list[Any]:
    angles = [distance * power(10000, i, half) for i in range(half)]
    return [mp.mpf(rounded(f(angle))) for f in (mp.sin, mp.cos) for angle in angles]  # the table is float32


def contextual(q: Any, table: Any, scores: Any) -> Any:
    """Return the bias of Golovneva et al., listing 1: interpolate at the clipped sum of gates, floor to ceiling."""
    position = min(mp.fsum(1 / (1 + mp.exp(-score)) for score in scores), len(table) - 1)
    low, high = int(mp.floor(position)), int(mp.ceil(position))
    part = position - low
    return dot(q, table[high]) * part + dot(q, table[low]) * (1 - part)


def log_gate(keys: Any, matrices: Any, head: int, bias: Any) -> Any:
    """Return the logarithm of a head's forget gate of one token, given its keys of all heads."""
    products = (dot(k, [row[head] for row in w]) for k, w in zip(keys, matrices, strict=True))
    return -mp.log(1 + mp.exp(-mp.fsum(products) - bias))


def decomposed(encoding: dict[str, Any], learned: Arrays, q: Any, query: int, key: int) -> Any:
    """Return the products with the vectors of two cells' offsets on both axes; 0 for a class token."""
    prefix, (height, width) = encoding.get("prefix_tokens", 0), encoding["window"]
    if min(query, key) < prefix:
        return mp.mpf(0)
    (i, j), (m, n) = divmod(query - prefix, width), divmod(key - prefix, width)
    return dot(q, learned["rows"][i - m + height - 1]) + dot(q, learned["columns"][j - n + width - 1])


def disentangled(encoding: dict[str, Any], learned: Arrays, head: int, q: Any, k: Any, score: Any, offset: int) -> Any:
    """Return what DeBERTa adds to a score of two terms fewer, by logarithms of 50 digits."""
    span = encoding.get("num_buckets", encoding["max_distance"])
    far, half = abs(offset), mp.mpf(span) / 2
    if "num_buckets" in encoding and far > half:
        steps = mp.log(far / half) / mp.log((encoding["max_distance"] - 1) / half) * (half - 1)
        whole = mp.nint(steps) if abs(steps - mp.nint(steps)) < mp.mpf(10) ** -40 else mp.ceil(steps)
        far = int(whole + half)
    row = max(0, min(2 * span - 1, (far if offset > 0 else -far) + span))
    terms = 1 + ("K_r" in learned) + ("Q_r" in learned)
    products = dot(q, learned["K_r"][head][row]) if "K_r" in learned else mp.mpf(0)
    products += dot(k, learned["Q_r"][head][row]) if "Q_r" in learned else 0
    return products / mp.sqrt(terms * len(q)) + score * (1 / mp.sqrt(terms) - 1)


def mixed(learned: Arrays, head: int, queries: Any, distance: int) -> Any:
    """Return the curves at a distance, mixed by the queries of all heads."""
    curves = learned["curves"]
    if not 0 <= distance < len(curves[0]):
        return mp.mpf(0)
    columns = range(head * len(curves), (head + 1) * len(curves))
    weights = [
        mp.fsum(dot(q, [row[column] for row in w]) for q, w in zip(queries, learned["W_r"], strict=True))
        for column in columns
    ]
    return dot(weights, [curve[distance] for curve in curves])


def _floats(rows: Any) -> list[list[float]]:
    return [[float(value) for value in row] for row in rows]
