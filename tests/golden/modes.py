"""Golden numbers of every layer with every encoding, for the modes of the frameworks at several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import mpmath as mp
from additive import rows_of
from fope import NAMES, rotated, table
from layer_cases import FAR, FIRST_WEIGHT, HALF, LENGTH, LONG, NEAR, GoldenCase, arange_like, chosen, described
from mixed_rotary import table as mixed_table
from numbers_of import DTYPES, rounded, sinusoidal_row
from pope import polar
from rope import angles_of, channels, entry_of, turned_back, turned_row
from scoring_modes import attention_modes, scoring_modes


def modes() -> Iterator[GoldenCase]:
    """Yield every encoding in its layer, in half precision, and at positions about 2**20."""
    yield from _additive()
    yield from _rotary()
    yield from scoring_modes()
    yield from attention_modes()


def _additive() -> Iterator[GoldenCase]:
    sinusoidal = {"kind": "Sinusoidal", "dim": 5}
    grid = {"positions": [[p // 8 for p in range(LENGTH)], [p % 8 for p in range(LENGTH)]]}
    plain = [[[p] for p in range(LENGTH)]] * 2

    def rows(fields: GoldenCase, places: Any) -> Any:
        return [list(rows_of(fields, [list(map(mp.mpf, axis)) for axis in zip(*row, strict=True)])) for row in places]

    def sinusoids(starts: list[int]) -> Any:
        return [[sinusoidal_row(start + p, 5, 10000, "interleaved") for p in range(LENGTH)] for start in starts]

    table = arange_like(60, 3)
    far = [[[start + p] for p in range(LENGTH)] for start in LONG]
    near = [[[start + p] for p in range(LENGTH)] for start in NEAR]
    yield _sum({"kind": "Integer", "dim": 3}, [[[p[0]] * 3 for p in row] for row in plain])
    yield _sum({"kind": "Integer", "dim": 3}, [[[p[0]] * 3 for p in row] for row in near], "bfloat16", {"start": NEAR})
    bits = [[[p[0] >> j & 1 for j in range(5, -1, -1)] for p in row] for row in plain]
    for dtype in ("float32", "bfloat16"):
        yield _sum({"kind": "Binary", "dim": 6}, bits, dtype)
    for dtype in ("float32", "float16"):
        parts = [[[mp.mpf(p[0]) / 60] * 3 for p in row] for row in plain]
        yield _sum({"kind": "Normalized", "dim": 3, "length": 60}, parts, dtype)
    yield _sum(sinusoidal, sinusoids([0, 0]))
    for dtype in ("float32", *HALF):
        yield _sum(sinusoidal, sinusoids(FAR), dtype, {"start": FAR})
    for fields, dtype in (
        ({"kind": "Sine", "dim": 3, "frequencies": "powers_of_two"}, "float16"),
        ({"kind": "Timestep", "dim": 5, "order": "sin_first", "shift": 1, "scale": 1}, "bfloat16"),
        ({"kind": "RandomFourierFeatures", "dim": 4, "scale": 0.5, "seed": 3, "num_axes": 1}, "float16"),
    ):
        yield _sum(fields, rows(fields, [plain[0]] * 2))
        yield _sum(fields, rows(fields, far), dtype, {"start": LONG})
    for fields, dtype in (
        ({"kind": "GridSinusoidal", "dim": 8, "convention": "mae", "num_axes": 2}, "bfloat16"),
        ({"kind": "FourierFeatures", "dim": 8, "num_axes": 2, "convention": "code"}, "float16"),
    ):
        for each in ("float32", dtype):
            yield _sum(fields, rows(fields, [list(zip(*grid["positions"], strict=True))] * 2), each, grid)
    for dtype in ("float32", "bfloat16"):
        fields = {"kind": "Learned", "dim": 3, "length": 60}
        yield _sum(fields, [table[:LENGTH]] * 2, dtype, parameters={"table": table})
        yield _sum(sinusoidal | {"kind": "LearnedSinusoidal"}, sinusoids([0, 0]), dtype)


def _sum(
    fields: GoldenCase, rows: Any, dtype: str = "float32", inputs: GoldenCase | None = None, **fields_of_case: Any
) -> GoldenCase:
    """Return tokens plus float32 rows, rounded to float32 and then to the dtype of the tokens."""
    bits, shape = DTYPES[dtype], (2, LENGTH, fields["dim"])
    pairs = [zip(*both, strict=True) for both in zip(arange_like(*shape), rows, strict=True)]
    learned = fields["kind"] == "LearnedSinusoidal"  # its rows are computed, never rounded
    kept = (lambda value: value) if learned else rounded
    sums = [[[rounded(mp.mpf(a) + kept(b)) for a, b in zip(*both, strict=True)] for both in row] for row in pairs]
    golden_case = described("PositionalEncoding", fields, dtype, {"x": (shape, [-2])}, inputs, **fields_of_case)
    result, gradient = chosen(sums, bits), chosen(arange_like(*shape, first=FIRST_WEIGHT), bits)
    return golden_case | {"result": result, "gradient": gradient}


def _rotary() -> Iterator[GoldenCase]:
    rotary = {"kind": "Rotary", "head_dim": 8, "layout": "half"}
    grid = [[p // 8 for p in range(LENGTH)], [p % 8 for p in range(LENGTH)]]
    axial = {"kind": "AxialRotary", "head_dim": 8, "layout": "half", "axes_dims": [4, 4]}
    interleaved = rotary | {"layout": "interleaved", "rotary_dim": 6}
    yield _turned(rotary)
    for dtype in ("float32", *HALF):
        yield _turned(interleaved, dtype, {"start": FAR})
    for fields, dtype, start in (
        (rotary | {"layout": "interleaved_to_half", "rotary_dim": 4, "placement": "trail"}, "bfloat16", LONG),
        (rotary | {"scaling": {"kind": "Linear", "factor": 4.0}}, "float16", LONG),
        ({"kind": "XPos", "head_dim": 8, "layout": "interleaved", "scale_base": 50, "center": 20}, "bfloat16", None),
        (rotary | {"kind": "LearnedRotary"}, "float16", None),
    ):
        yield _turned(fields)
        yield _turned(fields, dtype, {"start": start} if start else None)
    far = [[(3 * p) % LENGTH + 2**20 - 60 * b for p in range(LENGTH)] for b in range(2)]
    yield _turned(rotary | {"direction": "inverse"}, inputs={"positions": far})
    for dtype, start, shape in (("float32", LONG, (3, 3)), ("float16", None, (2, 3, 3))):
        heads = {"num_heads": 2} if len(shape) > 2 else {}
        learned = {name: arange_like(*shape, first=i) for i, name in enumerate(NAMES)}
        fields = rotary | {"kind": "FoPE", "num_terms": 3, **heads}
        of_place = partial(_sums_of_frequencies, fields, learned)
        yield _by_head(fields, learned, of_place, dtype, {"start": start} if start else None)
    mixed = rotary | {"kind": "MixedRotary", "num_heads": 2}
    frequencies = [[[f / 8 for f in pairs] for pairs in axis] for axis in arange_like(2, 2, 4)]
    for dtype in ("float32", "bfloat16"):
        of_place = partial(mixed_table, mixed, frequencies)
        yield _by_head(mixed, {"frequencies": frequencies}, of_place, dtype, {"positions": grid})
    for dtype, start in (("float32", LONG), ("bfloat16", None)):
        yield _polar({"kind": "PoPE", "head_dim": 8, "num_heads": 2}, dtype, {"start": start} if start else None)
    text = [list(range(LENGTH)), *grid]
    for fields, dtype, at in (
        (rotary | {"kind": "MultimodalRotary", "sections": [2, 1, 1]}, "float16", text),
        (axial, "bfloat16", grid),
    ):
        for each in ("float32", dtype):
            yield _turned(fields, each, {"positions": at})


def _turned(fields: GoldenCase, dtype: str = "float32", inputs: GoldenCase | None = None) -> GoldenCase:
    """Return queries of two heads, rotated in float32, or with all digits if frequencies are learned."""
    bits, shape = DTYPES[dtype], (2, 2, LENGTH, 8)
    golden_case = described("RotaryEmbedding", fields, dtype, {"q": (shape, [-2])}, inputs)
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

    forward = each(arange_like(*shape), turned_row)
    back = each(arange_like(*shape, first=FIRST_WEIGHT), turned_back)
    return golden_case | {"result": chosen(forward, bits), "gradient": chosen(back, bits)}


def _sums_of_frequencies(fields: GoldenCase, learned: GoldenCase, head: int, place: tuple[int, ...]) -> Any:
    """Return cosine and sine of each pair of a head by FoPE."""
    return table(fields, learned, head, place[0])


def _by_head(
    fields: GoldenCase, learned: GoldenCase, of_place: Any, dtype: str, inputs: GoldenCase | None
) -> GoldenCase:
    """Return queries of two heads, each rotated by `of_place(head, place)`, with all digits."""
    shape = (2, 2, LENGTH, 8)

    def each(tokens: Any, sign: int) -> Any:
        def token(b: int, h: int, p: int) -> Any:
            cos_sin = of_place(h, _place(inputs or {}, b, p))
            return rotated(tokens[b][h][p], [(cos, sign * sin) for cos, sin in cos_sin], fields)

        return [[[token(b, h, p) for p in range(LENGTH)] for h in range(2)] for b in range(2)]

    golden_case = described("RotaryEmbedding", fields, dtype, {"q": (shape, [-2])}, inputs, learned)
    result, gradient = each(arange_like(*shape), 1), each(arange_like(*shape, first=FIRST_WEIGHT), -1)
    return golden_case | {"result": chosen(result, DTYPES[dtype]), "gradient": chosen(gradient, DTYPES[dtype])}


def _polar(fields: GoldenCase, dtype: str, inputs: GoldenCase | None) -> GoldenCase:
    """Return queries of two heads as magnitudes at angles, with all digits."""
    bits, shape, dim = DTYPES[dtype], (2, 2, LENGTH, 8), 8
    phases = {"phase": [[-3.5] * dim] * 2}  # which change no query
    golden_case = described("RotaryEmbedding", fields, dtype, {"q": (shape, [-2])}, inputs, phases)
    tokens = arange_like(*shape)
    result = [
        [[polar(fields, tokens[b][h][p], _place(inputs or {}, b, p)[0]) for p in range(LENGTH)] for h in range(2)]
        for b in range(2)
    ]
    return golden_case | {"result": chosen(result, bits), "gradient": None}


def _place(inputs: GoldenCase, row: int, p: int) -> tuple[int, ...]:
    """Return the position of a token on every axis."""
    if "start" in inputs:
        return (inputs["start"][row] + p,)
    given = inputs.get("positions")
    if given is None:
        return (p,) * 3
    per_row = max(map(max, given)) > LENGTH
    return (given[row][p],) if per_row else tuple(axis[p] for axis in given)
