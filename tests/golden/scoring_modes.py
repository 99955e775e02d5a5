"""Golden numbers of `AttentionBias` and `MultiHeadAttention` for the modes of the frameworks at several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import mpmath as mp
from attention import HEAD_DIM, HEADS, NORM, WIDTH, attended
from content_scoring import contextual, decomposed, disentangled, log_gate, mixed, projected
from layer_cases import FAR, FIRST_WEIGHT, HALF, LENGTH, LONG, ROWS, GoldenCase, arange_like, chosen, described
from numbers_of import DTYPES, dot, exact, rounded
from position_scoring import (
    PERCEPTRON,
    bucket,
    dynamic,
    dynamic_parameters,
    in_window_v2,
    logarithmic,
    perceived,
    sandwich,
    sided,
    window_row,
)


def scoring_modes() -> Iterator[GoldenCase]:
    r1, r2 = [0.5, 1.25], [0.25, 1.75]
    kernel = sided(logarithmic, "both")
    perceptron = {
        "c": [0.25],
        "l": [-1.25],
        "hidden_weight": [1.5, -0.75, 2.0],
        "hidden_bias": [0.25, 0.5, -1.0],
        "head_weight": [[0.5, 1.0, 0.75], [1.25, 0.25, -0.5]],
        "head_bias": [0.125, -0.25],
    }
    t5, window = arange_like(8, 2), arange_like(17 * 11, 2)
    tokens = [(p // 6, p % 6) for p in range(54)]
    alibi = {"kind": "Alibi", "num_heads": 2}

    def far(h: int, i: int, j: int) -> Any:
        return -(mp.mpf(16) ** -(h + 1)) * abs(i - j)

    for dtype in ("float32", HALF[0]):
        yield _biased(alibi, far, {}, dtype)
    yield _biased(alibi, far, {}, inputs={"start": FAR})
    buckets = {"kind": "T5Bias", "num_heads": 2, "num_buckets": 8, "max_distance": 6}
    swin = {"kind": "SwinBias", "num_heads": 2, "window": [9, 6]}
    learned = {"r1": r1, "r2": r2}
    kerple = {"kind": "Kerple", "num_heads": 2, "variant": "logarithmic"}
    fire = {"kind": "Fire", "num_heads": 2, "hidden": 3, "threshold": 2}
    for fields, bias, parameters, dtype, start in (
        (buckets, lambda h, i, j: t5[bucket(j - i, 8, 6, "both")][h], {"table": t5}, HALF[0], FAR),
        (swin, lambda h, i, j: window[window_row(tokens[i], tokens[j], (9, 6))][h], {"table": window}, HALF[1], None),
        (kerple, cache(partial(kernel, exact(learned))), learned, HALF[0], FAR),
        (fire, cache(partial(perceived, exact(perceptron))), perceptron, HALF[1], FAR),
    ):
        yield _biased(fields, bias, parameters)
        yield _biased(fields, bias, parameters, dtype, {"start": start} if start else None)
    cosines = {"kind": "Sandwich", "num_heads": 2, "max_distance": 2**10, "dim": 6}
    yield _biased(cosines, lambda h, i, j: sandwich(h, j - i, cosines), {}, HALF[0], {"start": FAR})
    swin_v2 = {"kind": "SwinV2Bias", "num_heads": 2, "window": [9, 6], "hidden": 3}
    units = dynamic_parameters(2)
    by_distance = {"kind": "DynamicPositionBias", "num_heads": 2, "hidden": 3, "log_distance": True}
    for fields, bias, parameters in (
        (swin_v2, cache(partial(in_window_v2, swin_v2, PERCEPTRON)), PERCEPTRON),
        (by_distance, cache(partial(dynamic, 2, True, exact(units))), units),
    ):
        yield _biased(fields, bias, parameters)
        yield _biased(fields, bias, parameters, HALF[1])
    yield from _content()
    yield from _newer_content()


def _content() -> Iterator[GoldenCase]:
    """Yield cases of content-based encodings, with the formulas of `content_scoring`."""
    q, k = (exact(arange_like(2, 2, LENGTH, HEAD_DIM)) for _ in "qk")
    scores, root = arange_like(2, 2, LENGTH, LENGTH), mp.sqrt(HEAD_DIM)
    names = {"q": ((2, 2, LENGTH, HEAD_DIM), [-2]), "k": ((2, 2, LENGTH, HEAD_DIM), [-2])}
    keys, table = arange_like(5, HEAD_DIM), arange_like(6, HEAD_DIM)
    u, v, w_r = arange_like(2, HEAD_DIM), arange_like(2, HEAD_DIM, first=3), arange_like(8, 8)

    vectors = {
        (h, distance): projected([row[HEAD_DIM * h : HEAD_DIM * (h + 1)] for row in w_r], distance)
        for h in range(2)
        for distance in range(-3, 4)
    }

    def shaw(b: int, h: int, i: int, j: int) -> Any:
        return dot(q[b][h][i], keys[max(-2, min(2, j - i)) + 2]) / root

    def xl(b: int, h: int, i: int, j: int) -> Any:
        r = vectors[h, max(-3, min(3, i - j))]
        turned = mp.fsum((a + c) * e for a, c, e in zip(q[b][h][i], v[h], r, strict=True))
        return (dot(u[h], k[b][h][j]) + turned) / root

    def cope(b: int, h: int, i: int, j: int) -> Any:
        return contextual(q[b][h][i], table, scores[b][h][i][j : i + 1]) if j <= i else None

    sizes = {"num_heads": 2, "head_dim": HEAD_DIM}
    by_keys = {"kind": "ShawBias", **sizes, "max_distance": 2, "applies_to": "keys"}
    by_distance = {"kind": "TransformerXLBias", **sizes, "max_distance": 3}
    for dtype in ("float32", HALF[1]):
        yield _scored(by_keys, shaw, {"key_table": keys}, names, dtype)
    for dtype in ("float32", HALF[0]):
        yield _scored(by_distance, xl, {"u": u, "v": v, "W_r": w_r}, names, dtype)
    for dtype in ("float32", HALF[1]):
        case = _scored({"kind": "Cope", **sizes, "max_position": 6}, cope, {"table": table}, names, dtype)
        yield case | {"masked": True, "gradient": None}
    w, gates = [[[x / 16 for x in row] for row in matrix] for matrix in arange_like(2, HEAD_DIM, 2)], [1.0, -0.5]
    logs = [
        [[log_gate([head[j] for head in row], w, h, gates[h]) for j in range(LENGTH)] for h in range(2)] for row in k
    ]

    def forgotten(b: int, h: int, i: int, j: int) -> Any:
        return mp.fsum(logs[b][h][j + 1 : i + 1]) if j <= i else None

    for dtype in ("float32", HALF[0]):
        case = _scored({"kind": "ForgettingBias", **sizes}, forgotten, {"w": w, "b": gates}, names, dtype)
        yield case | {"masked": True, "gradient": None}


def _newer_content() -> Iterator[GoldenCase]:
    shape = (2, 2, LENGTH, HEAD_DIM)
    q, k, scores = exact(arange_like(*shape)), exact(arange_like(*shape)), arange_like(2, 2, LENGTH, LENGTH)
    names, sizes = {"q": (shape, [-2]), "k": (shape, [-2])}, {"num_heads": 2, "head_dim": HEAD_DIM}
    image = {"kind": "DecomposedBias", **sizes, "window": [9, 6]}
    deberta = {"kind": "DebertaBias", **sizes, "max_distance": 9, "num_buckets": 4}
    inkling = {"kind": "RelativeLogits", **sizes, "max_distance": 5, "num_curves": 2}
    tables = {"rows": arange_like(17, HEAD_DIM), "columns": arange_like(11, HEAD_DIM)}
    vectors = {name: arange_like(2, 8, HEAD_DIM, first=first) for name, first in (("K_r", 0), ("Q_r", 3))}
    curves = {"W_r": arange_like(2, HEAD_DIM, 4), "curves": arange_like(2, 5)}
    for fields, bias, parameters in (
        (image, lambda b, h, i, j: decomposed(image, tables, q[b][h][i], i, j), tables),
        (
            deberta,
            lambda b, h, i, j: disentangled(
                deberta, vectors, h, q[b][h][i], k[b][h][j], mp.mpf(scores[b][h][i][j]), i - j
            ),
            vectors,
        ),
        (inkling, lambda b, h, i, j: mixed(curves, h, [head[i] for head in q[b]], i - j), curves),
    ):
        for dtype in ("float32", HALF[0]):
            yield _scored(fields, bias, parameters, names, dtype)


def _biased(
    fields: GoldenCase, bias: Any, parameters: GoldenCase, dtype: str = "float32", inputs: GoldenCase | None = None
) -> GoldenCase:
    """Yield cases of encodings that use positions alone: keys begin at 0, queries at their start."""
    starts = (inputs or {}).get("start", [0, 0])
    return _scored(fields, lambda b, h, i, j: bias(h, starts[b] + i, j), parameters, {}, dtype, inputs)


def _scored(
    fields: GoldenCase,
    bias: Any,
    parameters: GoldenCase,
    more: GoldenCase,
    dtype: str = "float32",
    inputs: GoldenCase | None = None,
) -> GoldenCase:
    """Return scores of two heads plus their bias, in float32 or the dtype of the scores."""
    bits, shape = DTYPES[dtype], (2, 2, LENGTH, LENGTH)
    scores = arange_like(*shape)
    kept = rounded if fields["kind"] in ("Alibi", "Sandwich", "T5Bias", "SwinBias") else mp.mpf

    def golden_case(b: int, h: int, i: int, j: int) -> float | None:
        added = bias(b, h, i, j)
        return None if added is None else rounded(rounded(scores[b][h][i][j] + kept(added)), bits)

    result = [[[[golden_case(b, h, i, j) for j in range(LENGTH)] for i in ROWS] for h in range(2)] for b in range(2)]
    arrays = {"scores": (shape, [-2, -1]), **more}
    case = described("AttentionBias", fields, dtype, arrays, inputs, parameters=parameters)
    weights = arange_like(*shape, first=FIRST_WEIGHT)
    if fields["kind"] == "DebertaBias":  # which divides a score by the root of the number of its terms
        third = 1 / mp.sqrt(3)
        weights = [[[[weight * third for weight in row] for row in head] for head in batch] for batch in weights]
    return case | {"result": result, "gradient": chosen(weights, bits)}


def attention_modes() -> Iterator[GoldenCase]:
    """Yield causal attention, which does not depend on later tokens."""
    shaw = {"kind": "ShawBias", "num_heads": HEADS, "head_dim": HEAD_DIM, "max_distance": 2}
    t5 = {"kind": "T5Bias", "num_heads": HEADS, "num_buckets": 8, "max_distance": 6}
    rotary, alibi = {"kind": "Rotary", "head_dim": HEAD_DIM, "layout": "half"}, {"kind": "Alibi", "num_heads": HEADS}
    for position, parameters in (
        (None, {}),
        (rotary, {}),
        ({"kind": "XPos", "head_dim": HEAD_DIM, "layout": "interleaved", "scale_base": 40}, {}),
        (alibi, {}),
        (t5, {"table": arange_like(8, HEADS)}),
        (shaw, {"key_table": arange_like(5, HEAD_DIM), "value_table": arange_like(5, HEAD_DIM, first=3)}),
    ):
        yield _attended(position, parameters)
    pope = {"kind": "PoPE", "head_dim": HEAD_DIM, "num_heads": HEADS}
    for dtype, starts in (("float32", None), (HALF[0], LONG)):
        yield _attended(pope, {"phase": [[-0.5, -1.0, -4.0, 0.0], [0.5, -7.0, -2.0, -0.25]]}, dtype, starts)
    for position, dtype in ((rotary, HALF[0]), (alibi, HALF[1])):
        yield _attended(position, {}, dtype, LONG)
    for position, growth in ((None, "steps"), (rotary, "power")):
        yield _attended(position, {}, scale={"kind": "QueryScale", "length": 8, "scale": 0.5, "growth": growth})
    learned = {"slope": [0.25, -0.5], "intercept": [0.75, 1.5]}
    yield _attended(rotary, learned, scale={"kind": "LearnedQueryScale", "num_heads": HEADS})
    yield _attended({"kind": "DualChunk", "rotary": rotary, "chunk_size": 11, "local_size": 3}, {})
    weights = {"q_weight": [0.25, -0.5, 1.0, 0.0], "k_weight": [-0.25, 0.5, 0.75, -1.0]}
    yield _attended(rotary, weights, norm=NORM)


def _attended(
    position: Any,
    parameters: GoldenCase,
    dtype: str = "float32",
    starts: list[int] | None = None,
    scale: GoldenCase | None = None,
    norm: GoldenCase | None = None,
) -> GoldenCase:
    """Yield attention at given starts, without gradients: each step is rounded."""
    shape = (2, LENGTH, WIDTH)
    tokens, weights = arange_like(*shape), arange_like(*shape, first=FIRST_WEIGHT)
    quarters = [[[number / 4 for number in row] for row in arange_like(WIDTH, WIDTH, first=k)] for k in range(4)]
    matrices = dict(zip(("W_q", "W_k", "W_v", "W_o"), quarters, strict=True))
    made = {"position": position, "kv_heads": HEADS, "matrices": matrices, "parameters": parameters}
    made |= ({"query_scale": scale} if scale else {}) | ({"qk_norm": norm} if norm else {})
    first = starts or [0, 0]
    at = {"positions": [[b + i for i in ROWS] for b in first], "causal": True}
    at["key_positions"] = [[b + j for j in range(LENGTH)] for b in first]
    rows, own = ([[each[i] for i in ROWS] for each in array] for array in (tokens, weights))
    result, gradient = attended(made, rows, tokens, tokens, at, own)
    arrays = {name: (shape, [-2]) for name in ("queries", "keys", "values")}
    given = [[b + p for p in range(LENGTH)] for b in first]
    inputs = {"positions": given, "key_positions": given} if starts else None
    golden_case = described("MultiHeadAttention", position, dtype, arrays, inputs, parameters=parameters)
    if scale:
        named = f"{golden_case['name']}, a {'learned ' * (scale['kind'] == 'LearnedQueryScale')}query scale"
        golden_case |= {"name": named, "query_scale": scale}
    if norm:
        golden_case |= {"name": f"{golden_case['name']}, QK-norm", "qk_norm": norm}
    results = {"matrices": matrices, "options": {"causal": True}, "result": result}
    return golden_case | results | {"gradient": None if starts else gradient}
