"""Inputs of layers in every mode: tokens, weights and positions, and which numbers are compared.

The rows of fewer tokens are the first rows of 53 tokens, so one set of numbers serves all lengths. `arange_like` makes
tokens and weights, so the files need not contain them; about every sixth row is compared.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from numbers_of import rounded

LENGTH, ROWS = 53, [0, 6, 15, 16, 32, 52]
FAR = [2**20 - 20, 5]  # the start of each batch row
NEAR = [2**15 - 20, 5]  # in the range of float16, which ends at 65504
LONG = [2**16 - 20, 5]  # longer tables would take too much time
FIRST_WEIGHT = 7  # where weights begin, so that they differ from tokens
HALF = ("bfloat16", "float16")

GoldenCase = dict[str, Any]


def arange_like(*shape: int, first: int = 0) -> Any:
    """Return multiples of 1/32 up to 50/32 in size, exact in every dtype, in a fixed order."""
    numbers = count(first)

    def nested(sizes: tuple[int, ...]) -> Any:
        return [nested(sizes[1:]) for _ in range(sizes[0])] if sizes else (37 * next(numbers) % 101 - 50) / 32

    return nested(shape)


def described(
    layer: str,
    fields: Any,
    dtype: str,
    arrays: GoldenCase,
    inputs: GoldenCase | None,
    parameters: GoldenCase | None = None,
) -> GoldenCase:
    """Return a case; `arrays` gives shapes and the axes whose size is the length; `inputs` are positions."""
    settings = [f"{name} {value}" for name, value in (fields or {}).items() if name not in ("kind", "num_heads")]
    given = inputs or {}
    first = given.get("start", [row[0] for row in given.get("key_positions", [])])
    where = [f"start about 2**{max(first).bit_length()}"] if first else []
    specs = {name: {"shape": list(shape), "lengths": lengths} for name, (shape, lengths) in arrays.items()}
    for name, numbers in given.items():
        specs[name] = {"numbers": numbers, "lengths": [] if name == "start" else [-1]}
    kind = fields["kind"] if fields else "no position"
    return {
        "name": ", ".join(
            [*(["MultiHeadAttention"] * (layer == "MultiHeadAttention")), kind, *settings, *where, dtype]
        ),
        "layer": layer,
        "encoding": fields,
        "dtype": dtype,
        "arrays": specs,
        "options": {},
        "parameters": parameters or {},
        "matrices": {},
        "masked": False,
        "rows": ROWS,
    }


def chosen(array: Any, bits: int) -> Any:
    """Return the compared rows of an array `(batch, …, length, columns)`, rounded."""
    if not isinstance(array[0][0], list):
        return [[rounded(value, bits) for value in array[row]] for row in ROWS]
    return [chosen(part, bits) for part in array]
