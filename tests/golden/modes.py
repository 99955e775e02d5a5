"""Golden numbers of every layer with every encoding, to be put through a framework's own tools at several lengths.

What holds for 53 tokens holds for fewer: their rows are the first ones. Tokens and weights are counted, not drawn, so
that the file need not hold them; every sixth or so row is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import mpmath as mp
from additive import rows_of
from attention import HEAD_DIM, HEADS, WIDTH, attended
from content_scoring import contextual, dot, projected
from numbers_of import DTYPES, rounded, sinusoidal_row
from position_scoring import bucket, logarithmic, perceived, sided, window_row
from rope import angles_of, channels, entry_of, turned_back, turned_row

LENGTH, ROWS = 53, [0, 6, 15, 16, 32, 52]
FAR = [2**20 - 20, 5]  # where the two rows of a batch start
FIRST_WEIGHT = 7  # weights are counted from another number than tokens
HALF = ("bfloat16", "float16")

Entry = dict[str, Any]


def modes() -> Iterator[Entry]:
    """Every kind of encoding in its layer; half precision; positions about 2**20."""
    yield from _additive()
    yield from _rotary()
    yield from _scoring()
    yield from _attention()


def counted(*shape: int, first: int = 0) -> Any:
    """Multiples of 1/32 up to 50/32 in size, numbers of any dtype, that run through the array in its order."""
    numbers = count(first)

    def nested(sizes: tuple[int, ...]) -> Any:
        return [nested(sizes[1:]) for _ in range(sizes[0])] if sizes else (37 * next(numbers) % 101 - 50) / 32

    return nested(shape)


def _additive() -> Iterator[Entry]:
    sinusoidal = {"kind": "Sinusoidal", "dim": 5}
    grid = {"positions": [[p // 8 for p in range(LENGTH)], [p % 8 for p in range(LENGTH)]]}
    plain = [[[p] for p in range(LENGTH)]] * 2

    def rows(fields: Entry, axes: int = 1) -> Any:
        at = next(iter(grid.values())) if axes > 1 else [[mp.mpf(p) for p in range(LENGTH)]]
        return [list(rows_of(fields, at))] * 2

    def sinusoids(starts: list[int]) -> Any:
        return [[sinusoidal_row(start + p, 5, 10000, "interleaved") for p in range(LENGTH)] for start in starts]

    table = counted(60, 3)
    yield _sum({"kind": "Integer", "dim": 3}, [[[p[0]] * 3 for p in row] for row in plain])
    yield _sum(
        {"kind": "Normalized", "dim": 3, "length": 60}, [[[mp.mpf(p[0]) / 60] * 3 for p in row] for row in plain]
    )
    yield _sum(
        {"kind": "Binary", "dim": 6}, [[[p[0] >> j & 1 for j in range(5, -1, -1)] for p in row] for row in plain]
    )
    sine = {"kind": "Sine", "dim": 3, "frequencies": "powers_of_two"}
    yield _sum(sine, rows(sine))
    yield _sum(sinusoidal, sinusoids([0, 0]))
    for dtype in ("float32", *HALF):
        yield _sum(sinusoidal, sinusoids(FAR), dtype, {"start": FAR})
    for fields in (
        {"kind": "Timestep", "dim": 5, "order": "sin_first", "shift": 1, "scale": 1},
        {"kind": "RandomFourierFeatures", "dim": 4, "scale": 0.5, "seed": 3, "num_axes": 1},
    ):
        yield _sum(fields, rows(fields))
    for fields in (
        {"kind": "GridSinusoidal", "dim": 8, "convention": "mae", "num_axes": 2},
        {"kind": "FourierFeatures", "dim": 8, "num_axes": 2, "convention": "code"},
    ):
        yield _sum(fields, rows(fields, 2), inputs=grid)
    yield _sum({"kind": "Learned", "dim": 3, "length": 60}, [table[:LENGTH]] * 2, parameters={"table": table})
    yield _sum(sinusoidal | {"kind": "LearnedSinusoidal"}, sinusoids([0, 0]))


def _sum(fields: Entry, rows: Any, dtype: str = "float32", inputs: Entry | None = None, **told: Any) -> Entry:
    """Tokens plus rows that were rounded to float32, rounded to float32 and to their dtype."""
    bits, shape = DTYPES[dtype], (2, LENGTH, fields["dim"])
    pairs = [zip(*both, strict=True) for both in zip(counted(*shape), rows, strict=True)]
    learned = fields["kind"] == "LearnedSinusoidal"  # whose rows are computed, and never rounded
    kept = (lambda value: value) if learned else rounded
    sums = [[[rounded(mp.mpf(a) + kept(b)) for a, b in zip(*both, strict=True)] for both in row] for row in pairs]
    entry = _entry("PositionalEncoding", fields, dtype, {"x": (shape, [-2])}, inputs, **told)
    result, gradient = _chosen(sums, bits), _chosen(counted(*shape, first=FIRST_WEIGHT), bits)
    return entry | {"result": result, "gradient": gradient}


def _rotary() -> Iterator[Entry]:
    rotary = {"kind": "Rotary", "head_dim": 8, "layout": "half"}
    grid = [[p // 8 for p in range(LENGTH)], [p % 8 for p in range(LENGTH)]]
    axial = {"kind": "AxialRotary", "head_dim": 8, "layout": "half", "axes_dims": [4, 4]}
    interleaved = rotary | {"layout": "interleaved", "rotary_dim": 6}
    yield _turned(rotary)
    for dtype in ("float32", *HALF):
        yield _turned(interleaved, dtype, {"start": FAR})
    yield _turned(rotary | {"layout": "interleaved_to_half", "rotary_dim": 4, "placement": "trail"})
    far = [[(3 * p) % LENGTH + 2**20 - 60 * b for p in range(LENGTH)] for b in range(2)]
    yield _turned(rotary | {"direction": "inverse"}, inputs={"positions": far})
    yield _turned(rotary | {"scaling": {"kind": "Linear", "factor": 4.0}})
    yield _turned({"kind": "XPos", "head_dim": 8, "layout": "interleaved", "scale_base": 50, "center": 20})
    text = [list(range(LENGTH)), *grid]
    yield _turned(rotary | {"kind": "MultimodalRotary", "sections": [2, 1, 1]}, inputs={"positions": text})
    yield _turned(axial, inputs={"positions": grid})
    yield _turned(rotary | {"kind": "LearnedRotary"})


def _turned(fields: Entry, dtype: str = "float32", inputs: Entry | None = None) -> Entry:
    """Queries of two heads, each pair turned in float32, or in all digits where frequencies are learned."""
    bits, shape = DTYPES[dtype], (2, 2, LENGTH, 8)
    entry = _entry("RotaryEmbedding", fields, dtype, {"q": (shape, [-2])}, inputs)
    pairs = len(angles_of(fields))
    ways = channels(fields, pairs)
    cos_sin = [
        [[entry_of(fields, j, _place(inputs or {}, b, p)) for j in range(pairs)] for p in range(LENGTH)]
        for b in range(2)
    ]

    def each(tokens: Any, turn: Any) -> Any:
        return [
            [[turn(tokens[b][h][p], cos_sin[b][p], ways) for p in range(LENGTH)] for h in range(2)] for b in range(2)
        ]

    forward = each(counted(*shape), turned_row)
    back = each(counted(*shape, first=FIRST_WEIGHT), turned_back)
    return entry | {"result": _chosen(forward, bits), "gradient": _chosen(back, bits)}


def _place(inputs: Entry, row: int, p: int) -> tuple[int, ...]:
    """Where a token stands, on every axis; positions of one axis are those of each row."""
    if "start" in inputs:
        return (inputs["start"][row] + p,)
    given = inputs.get("positions")
    if given is None:
        return (p,) * 3
    per_row = max(map(max, given)) > LENGTH
    return (given[row][p],) if per_row else tuple(axis[p] for axis in given)


def _scoring() -> Iterator[Entry]:
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
    t5, window = counted(8, 2), counted(17 * 11, 2)
    tokens = [(p // 6, p % 6) for p in range(54)]
    alibi = {"kind": "Alibi", "num_heads": 2}

    def far(h: int, i: int, j: int) -> Any:
        return -(mp.mpf(16) ** -(h + 1)) * abs(i - j)

    for dtype in ("float32", HALF[0]):
        yield _biased(alibi, far, {}, dtype)
    yield _biased(alibi, far, {}, inputs={"start": FAR})
    fields = {"kind": "T5Bias", "num_heads": 2, "num_buckets": 8, "max_distance": 6}
    yield _biased(fields, lambda h, i, j: t5[bucket(j - i, 8, 6, "both")][h], {"table": t5})
    swin = {"kind": "SwinBias", "num_heads": 2, "window": [9, 6]}
    yield _biased(swin, lambda h, i, j: window[window_row(tokens[i], tokens[j], (9, 6))][h], {"table": window})
    learned = {"r1": r1, "r2": r2}
    kerple = {"kind": "Kerple", "num_heads": 2, "variant": "logarithmic"}
    yield _biased(kerple, lambda h, i, j: kernel(_exact(learned), h, i, j), learned)
    fire = {"kind": "Fire", "num_heads": 2, "hidden": 3, "threshold": 2}
    yield _biased(fire, lambda h, i, j: perceived(_exact(perceptron), h, i, j), perceptron)
    yield from _content()


def _exact(array: Any) -> Any:
    if isinstance(array, dict):
        return {name: _exact(part) for name, part in array.items()}
    return [_exact(part) for part in array] if isinstance(array, list) else mp.mpf(array)


def _content() -> Iterator[Entry]:
    """Q and k are counted like all tokens; what is added is that of the formulas of `content_scoring`."""
    q, k = counted(2, 2, LENGTH, HEAD_DIM), counted(2, 2, LENGTH, HEAD_DIM)
    scores, root = counted(2, 2, LENGTH, LENGTH), mp.sqrt(HEAD_DIM)
    names = {"q": ((2, 2, LENGTH, HEAD_DIM), [-2]), "k": ((2, 2, LENGTH, HEAD_DIM), [-2])}
    keys, table = counted(5, HEAD_DIM), counted(6, HEAD_DIM)
    u, v, w_r = counted(2, HEAD_DIM), counted(2, HEAD_DIM, first=3), counted(8, 8)

    def shaw(b: int, h: int, i: int, j: int) -> Any:
        return dot(q[b][h][i], keys[max(-2, min(2, j - i)) + 2]) / root

    def xl(b: int, h: int, i: int, j: int) -> Any:
        r = projected([row[HEAD_DIM * h : HEAD_DIM * (h + 1)] for row in w_r], max(-3, min(3, i - j)))
        turned = mp.fsum((a + c) * e for a, c, e in zip(q[b][h][i], v[h], r, strict=True))
        return (dot(u[h], k[b][h][j]) + turned) / root

    def cope(b: int, h: int, i: int, j: int) -> Any:
        return contextual(q[b][h][i], table, scores[b][h][i][j : i + 1]) if j <= i else None

    sizes = {"num_heads": 2, "head_dim": HEAD_DIM}
    by_keys = {"kind": "ShawBias", **sizes, "max_distance": 2, "applies_to": "keys"}
    yield _scored(by_keys, shaw, {"key_table": keys}, names)
    yield _scored({"kind": "TransformerXLBias", **sizes, "max_distance": 3}, xl, {"u": u, "v": v, "W_r": w_r}, names)
    told = _scored({"kind": "Cope", **sizes, "max_position": 6}, cope, {"table": table}, names)
    yield told | {"masked": True, "gradient": None}


def _biased(fields: Entry, bias: Any, parameters: Entry, dtype: str = "float32", inputs: Entry | None = None) -> Entry:
    """Positions alone: keys count from 0, queries from where they start."""
    starts = (inputs or {}).get("start", [0, 0])
    return _scored(fields, lambda b, h, i, j: bias(h, starts[b] + i, j), parameters, {}, dtype, inputs)


def _scored(
    fields: Entry, bias: Any, parameters: Entry, more: Entry, dtype: str = "float32", inputs: Entry | None = None
) -> Entry:
    """Scores of two heads plus their bias, in float32 or the dtype of the scores."""
    bits, shape = DTYPES[dtype], (2, 2, LENGTH, LENGTH)
    scores = counted(*shape)
    kept = rounded if fields["kind"] in ("Alibi", "T5Bias", "SwinBias") else mp.mpf

    def entry(b: int, h: int, i: int, j: int) -> float | None:
        added = bias(b, h, i, j)
        return None if added is None else rounded(rounded(scores[b][h][i][j] + kept(added)), bits)

    result = [[[[entry(b, h, i, j) for j in range(LENGTH)] for i in ROWS] for h in range(2)] for b in range(2)]
    arrays = {"scores": (shape, [-2, -1]), **more}
    told = _entry("AttentionBias", fields, dtype, arrays, inputs, parameters=parameters)
    return told | {"result": result, "gradient": _chosen(counted(*shape, first=FIRST_WEIGHT), bits)}


def _attention() -> Iterator[Entry]:
    """Causal, so that what later tokens are does not matter."""
    shaw = {"kind": "ShawBias", "num_heads": HEADS, "head_dim": HEAD_DIM, "max_distance": 2}
    t5 = {"kind": "T5Bias", "num_heads": HEADS, "num_buckets": 8, "max_distance": 6}
    for position, parameters in (
        (None, {}),
        ({"kind": "Rotary", "head_dim": HEAD_DIM, "layout": "half"}, {}),
        ({"kind": "XPos", "head_dim": HEAD_DIM, "layout": "interleaved", "scale_base": 40}, {}),
        ({"kind": "Alibi", "num_heads": HEADS}, {}),
        (t5, {"table": counted(8, HEADS)}),
        (shaw, {"key_table": counted(5, HEAD_DIM), "value_table": counted(5, HEAD_DIM, first=3)}),
    ):
        yield _attended(position, parameters)


def _attended(position: Any, parameters: Entry) -> Entry:
    shape = (2, LENGTH, WIDTH)
    tokens, weights = counted(*shape), counted(*shape, first=FIRST_WEIGHT)
    quarters = [[[number / 4 for number in row] for row in counted(WIDTH, WIDTH, first=k)] for k in range(4)]
    matrices = dict(zip(("W_q", "W_k", "W_v", "W_o"), quarters, strict=True))
    made = {"position": position, "kv_heads": HEADS, "matrices": matrices, "parameters": parameters}
    at = {"positions": [ROWS] * 2, "key_positions": [list(range(LENGTH))] * 2, "causal": True}
    rows, own = ([[each[i] for i in ROWS] for each in array] for array in (tokens, weights))
    result, gradient = attended(made, rows, tokens, tokens, at, own)
    arrays = {name: (shape, [-2]) for name in ("queries", "keys", "values")}
    entry = _entry("MultiHeadAttention", position, "float32", arrays, None, parameters=parameters)
    told = {"matrices": matrices, "options": {"causal": True}, "result": result, "gradient": gradient}
    return entry | told


def _entry(
    layer: str, fields: Any, dtype: str, arrays: Entry, inputs: Entry | None, parameters: Entry | None = None
) -> Entry:
    """`arrays` have counted numbers: their shapes, and the axes that the length is the size of; `inputs` are positions."""
    settings = [f"{name} {value}" for name, value in (fields or {}).items() if name not in ("kind", "num_heads")]
    where = ["start about 2**20"] if "start" in (inputs or {}) else []
    told = {name: {"shape": list(shape), "lengths": lengths} for name, (shape, lengths) in arrays.items()}
    for name, given in (inputs or {}).items():
        told[name] = {"numbers": given, "lengths": [] if name == "start" else [-1]}
    kind = fields["kind"] if fields else "no position"
    return {
        "name": ", ".join(
            [*(["MultiHeadAttention"] * (layer == "MultiHeadAttention")), kind, *settings, *where, dtype]
        ),
        "layer": layer,
        "encoding": fields,
        "dtype": dtype,
        "arrays": told,
        "options": {},
        "parameters": parameters or {},
        "matrices": {},
        "masked": False,
        "rows": ROWS,
    }


def _chosen(array: Any, bits: int) -> Any:
    """The rows that are compared, of an array `(batch, …, length, columns)`, rounded."""
    if not isinstance(array[0][0], list):
        return [[rounded(value, bits) for value in array[row]] for row in ROWS]
    return [_chosen(part, bits) for part in array]
