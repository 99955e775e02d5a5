"""Compute the golden numbers with mpmath at 50 digits and without posenc.

    python tests/golden/generate.py           # writes the JSON files beside this one
    python tests/golden/generate.py --check   # exits with 1 if they would change

`models.json` is the one file it reads: the rotary settings of published models, with where each was found.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import mpmath as mp
from additive import additive_sums, additive_tables, learned_sinusoidal, position_gradients
from attention import attend, attention
from augmentation import augmentation
from content_scoring import content_scoring
from defects import defects
from fope import fope
from kernels import kernels, packed_qkv, qk_norm
from mixed_rotary import mixed_rotary
from modes import modes
from numbers_of import DTYPES, drawn, power, rounded, sinusoidal_row
from pope import pope
from position_scoring import position_scoring, scoring_constants
from query_scale import learned_query_scale, query_scale
from remapping import remapping
from resizing import resizing
from rope import learned_rotary, rope_models, scalings, turns
from vision import vision_models

HERE = Path(__file__).parent
POSITIONS = [0, 1, 2, 3, 255, 256, 1000, 4095, 65536, 131071, 1048575, 16777215]
NEAR = [0, 1, 2, 3, 4, 5, 6]
FAR = [5, 0, 1000, 65537, 1048576, -3, 1048576]


def sinusoidal() -> Iterator[dict[str, Any]]:
    """Yield tables of every convention, also with odd widths and far positions."""
    for dim, base in ((2, 10000), (4, 10000), (5, 10000), (32, 10000), (512, 10000), (128, 500000)):
        for convention in ("interleaved", "concatenated", "tensor2tensor", "timestep", "column_index"):
            encoding = {"kind": "Sinusoidal", "dim": dim, "base": base, "convention": convention}
            positions = POSITIONS if dim < 512 else POSITIONS[::3]
            table = [[float(value) for value in sinusoidal_row(p, dim, base, convention)] for p in positions]
            yield {
                "name": f"Sinusoidal {convention}, {dim} columns",
                "encoding": encoding,
                "positions": positions,
                "table": table,
            }


def seeds() -> Iterator[dict[str, Any]]:
    """Yield the simple encodings of the teaching texts; `printed` has the numbers that a text prints."""
    one_to_four = [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]]
    yield _seed("Integer", {"dim": 2}, range(4), lambda p, j: p, printed=[[0, 0], [1, 1], [2, 2], [3, 3]])
    yield _seed("Normalized", {"dim": 2, "length": 4}, range(4), lambda p, j: mp.mpf(p) / 4)

    def binary(dim: int) -> Callable[[int, int], int]:
        return lambda p, j: p >> (dim - 1 - j) & 1

    yield _seed("Binary", {"dim": 2}, range(4), binary(2), printed=[[0, 0], [0, 1], [1, 0], [1, 1]])
    yield _seed("Binary", {"dim": 3, "start": 1}, range(4), lambda p, j: binary(3)(p + 1, j), printed=one_to_four)
    yield _seed("Binary", {"dim": 3}, range(8), binary(3))
    reverse = {"dim": 3, "bit_order": "least_significant_first"}
    yield _seed("Binary", reverse, range(8), lambda p, j: p >> j & 1)
    yield _seed(
        "Sine",
        {"dim": 2, "frequencies": "powers_of_two"},
        range(4),
        lambda p, j: mp.sin(mp.mpf(p) / 2**j),
        printed=[[0, 0], [0.84147098, 0.47942554], [0.90929743, 0.84147098], [0.14112001, 0.99749499]],
    )
    yield _seed("Sine", {"dim": 4, "frequencies": "endpoint"}, POSITIONS, lambda p, j: mp.sin(p * power(10000, j, 3)))
    chosen = [1.0, 0.5, 0.2]
    yield _seed("Sine", {"dim": 3, "frequencies": chosen}, POSITIONS, lambda p, j: mp.sin(p * mp.mpf(chosen[j])))
    yield _seed(
        "Sinusoidal",
        {"dim": 2},
        range(4),
        lambda p, j: sinusoidal_row(p, 2, 10000, "interleaved")[j],
        printed=[[0, 1], [0.84147098, 0.54030231], [0.90929743, -0.41614684], [0.14112001, -0.9899925]],
    )
    column_index = {"dim": 6, "convention": "column_index"}
    yield _seed("Sinusoidal", column_index, range(8), lambda p, j: sinusoidal_row(p, 6, 10000, "column_index")[j])


def _seed(
    kind: str,
    fields: dict[str, Any],
    positions: Any,
    golden_case: Callable[[int, int], Any],
    printed: list[list[float]] | None = None,
) -> dict[str, Any]:
    table = [[float(golden_case(p, j)) for j in range(fields["dim"])] for p in positions]
    settings = ", ".join(f"{name} {value}" for name, value in fields.items())
    seed = {"name": f"{kind}, {settings}", "encoding": {"kind": kind, **fields}, "positions": list(positions)}
    return seed | {"table": table} | ({"printed": printed} if printed else {})


def addition() -> Iterator[dict[str, Any]]:
    """Yield tokens plus their rows in every dtype: the sum in float32 (or float64), rounded once."""
    numbers = random.Random(20170612)
    for fields, positions, row in (
        ({"kind": "Integer", "dim": 3}, NEAR, lambda p: [p] * 3),
        ({"kind": "Normalized", "dim": 3, "length": 9}, NEAR, lambda p: [mp.mpf(p) / 9] * 3),
        ({"kind": "Binary", "dim": 3}, NEAR, lambda p: [p >> 2 & 1, p >> 1 & 1, p & 1]),
        (
            {"kind": "Sine", "dim": 3, "frequencies": "powers_of_two"},
            NEAR,
            lambda p: [mp.sin(p / 2**j) for j in range(3)],
        ),
        ({"kind": "Sinusoidal", "dim": 5}, NEAR, lambda p: sinusoidal_row(p, 5, 10000, "interleaved")),
        ({"kind": "Sinusoidal", "dim": 5}, FAR, lambda p: sinusoidal_row(p, 5, 10000, "interleaved")),
    ):
        exact = [row(mp.mpf(p) if fields["kind"] == "Sine" else p) for p in positions]
        for dtype, bits in DTYPES.items():
            rows = [[rounded(value, max(bits, 24)) for value in row] for row in exact]
            yield _sum(fields, positions, rows, dtype, bits, numbers)


def _sum(fields: Any, positions: Any, rows: Any, dtype: str, bits: int, numbers: random.Random) -> dict[str, Any]:
    x, weights = ([[drawn(numbers, bits) for _ in row] for row in rows] for _ in "xw")
    sums = [
        [rounded(mp.mpf(a) + mp.mpf(b), max(bits, 24)) for a, b in zip(*both, strict=True)]
        for both in zip(x, rows, strict=True)
    ]
    return {
        "name": f"{fields['kind']}, {dtype}, positions {positions[0]} to {max(positions)}",
        "encoding": fields,
        "dtype": dtype,
        "positions": positions,
        "x": x,
        "weights": weights,
        "result": [[rounded(value, bits) for value in row] for row in sums],
        "gradient": weights,
    }


def rotation() -> Iterator[dict[str, Any]]:
    """Yield rotations and their gradients, every product and sum rounded as in IEEE arithmetic."""
    numbers = random.Random(20210420)
    for layout in ("interleaved", "half"):
        for head_dim, rotary_dim in ((8, 8), (10, 6)):
            for dtype, bits in DTYPES.items():
                for positions in (NEAR, FAR):
                    x, weights = ([[drawn(numbers, bits) for _ in range(head_dim)] for _ in positions] for _ in "xw")
                    settings = (rotary_dim, layout, max(bits, 24))
                    turned = [turn(row, p, 1, *settings) for row, p in zip(x, positions, strict=True)]
                    gradient = [turn(row, p, -1, *settings) for row, p in zip(weights, positions, strict=True)]
                    span = f"positions {positions[0]} to {max(positions)}"
                    yield {
                        "name": f"Rotary {layout}, {rotary_dim} of {head_dim} channels, {dtype}, {span}",
                        "encoding": {
                            "kind": "Rotary",
                            "head_dim": head_dim,
                            "layout": layout,
                            "rotary_dim": rotary_dim,
                        },
                        "dtype": dtype,
                        "positions": positions,
                        "x": x,
                        "weights": weights,
                        "result": [[rounded(value, bits) for value in row] for row in turned],
                        "gradient": [[rounded(value, bits) for value in row] for row in gradient],
                    }


def turn(row: list[float], p: int, sign: int, rotary_dim: int, layout: str, bits: int) -> list[float]:
    """Return one row rotated by `sign` times its angles, in arithmetic of `bits` digits, with a table of as many."""
    turned, pairs = list(row), rotary_dim // 2
    for i in range(pairs):
        first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)
        angle = p * power(10000, i, pairs)
        cos, sin = mp.mpf(rounded(mp.cos(angle), bits)), mp.mpf(sign * rounded(mp.sin(angle), bits))
        a, b = mp.mpf(row[first]), mp.mpf(row[second])
        turned[first] = rounded(mp.mpf(rounded(a * cos, bits)) - mp.mpf(rounded(b * sin, bits)), bits)
        turned[second] = rounded(mp.mpf(rounded(b * cos, bits)) + mp.mpf(rounded(a * sin, bits)), bits)
    return turned


def alibi() -> Iterator[dict[str, Any]]:
    """Yield biases added to zeros, for numbers of heads that are powers of two and for others."""
    for heads in (1, 2, 8, 12, 71):
        whole = 2 ** (heads.bit_length() - 1)
        slopes = [mp.power(2, -mp.mpf(8) * i / whole) for i in range(1, whole + 1)]
        slopes += [mp.power(2, -mp.mpf(4) * i / whole) for i in range(1, 2 * whole, 2)][: heads - whole]
        bias = [[[-rounded(rounded(s) * abs(i - j)) for j in range(5)] for i in range(3)] for s in slopes]
        for dtype, bits in DTYPES.items() if heads == 12 else [("float32", 24)]:
            yield {
                "name": f"Alibi, {heads} heads, {dtype}",
                "encoding": {"kind": "Alibi", "num_heads": heads},
                "dtype": dtype,
                "slopes": [float(slope) for slope in slopes],
                "bias": [[[rounded(value, bits) for value in row] for row in head] for head in bias],
            }


def learned() -> Iterator[dict[str, Any]]:
    """Yield the gradient of a learned table: integers, which add up without rounding."""
    weights = [[[float(10 * b + 3 * i + j) for j in range(2)] for i in range(3)] for b in range(2)]
    sums = [[weights[0][i][j] + weights[1][i][j] for j in range(2)] for i in range(3)]
    zeros = [[[0.0] * 2] * 3] * 2
    for offset in (0, 2):
        encoding = {"kind": "Learned", "dim": 2, "length": 5, **({"offset": offset} if offset else {})}
        gradient = [[0.0] * 2] * offset + sums + [[0.0] * 2] * 2
        name = f"Learned, offset {offset}" if offset else "Learned"
        yield {"name": name, "encoding": encoding, "x": zeros, "weights": weights, "gradient": gradient}


def saved() -> Iterator[dict[str, Any]]:
    """Yield layers to save and load, with tokens."""
    x = [[[float(i + j) for j in range(4)] for i in range(3)]]
    for encoding in (
        {"kind": "Sinusoidal", "dim": 4},
        {"kind": "Learned", "dim": 4, "length": 5},
        {"kind": "LearnedSinusoidal", "dim": 4, "std": 0.5},
        {"kind": "Rotary", "head_dim": 4, "layout": "half"},
        {"kind": "LearnedRotary", "head_dim": 4, "layout": "half", "std": 0.5},
        {"kind": "Alibi", "num_heads": 1},
        {"kind": "T5Bias", "num_heads": 1},
        {"kind": "Kerple", "num_heads": 1},
        {"kind": "Fire", "num_heads": 1},
        {"kind": "SwinBias", "num_heads": 1, "window": (2, 2)},
    ):
        yield {"name": encoding["kind"], "encoding": encoding, "x": [x]}
    mixed = {"kind": "MixedRotary", "head_dim": 4, "layout": "half", "num_heads": 1}
    yield {"name": "MixedRotary", "encoding": mixed, "x": [x], "positions": [[0, 0, 1], [0, 1, 0]]}


MAKERS = (
    seeds,
    sinusoidal,
    rope_models,
    scalings,
    addition,
    additive_tables,
    additive_sums,
    position_gradients,
    learned_sinusoidal,
    kernels,
    qk_norm,
    packed_qkv,
    rotation,
    turns,
    learned_rotary,
    fope,
    mixed_rotary,
    pope,
    defects,
    alibi,
    attention,
    attend,
    content_scoring,
    learned,
    resizing,
    scoring_constants,
    position_scoring,
    query_scale,
    learned_query_scale,
    remapping,
    augmentation,
    saved,
    modes,
    vision_models,
)


def written(make: Callable[[], Iterator[dict[str, Any]]]) -> str:
    """Return the cases of a file as JSON, one per line."""
    return "[\n" + ",\n".join(json.dumps(golden_case, ensure_ascii=False) for golden_case in make()) + "\n]\n"


def main(check: bool) -> int:
    """Write the files, or compare them; return the exit status."""
    changed = []
    with ProcessPoolExecutor() as pool:
        for make, text in zip(MAKERS, pool.map(written, MAKERS), strict=True):
            path = HERE / f"{make.__name__}.json"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                changed.append(path.name)
                if not check:
                    path.write_text(text, encoding="utf-8")
    print("changed:", ", ".join(changed) or "nothing")
    return int(check and bool(changed))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
