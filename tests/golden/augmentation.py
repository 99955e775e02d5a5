"""Golden numbers of augmented coordinates, drawn by Python's own Mersenne Twister."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import rounded

CORNERS = [[-0.75, -0.25, 0.25, 0.75], [-0.5, 0.5, -0.5, 0.5]]
CELLS = [[0, 0, 1, 1], [0, 1, 0, 1], [3, 3, 3, 3]]


def augmentation() -> Iterator[dict[str, Any]]:
    """Yield the random numbers of each option alone and of all, and the coordinates that follow."""
    for name, seeds, options, positions in (
        ("rescale, as DINOv3", [7], {"rescale": 2.0}, CORNERS),
        ("shift alone", [0, 1], {"shift": 0.5}, CORNERS),
        ("jitter alone", [4294967295], {"jitter": 1.25}, CORNERS),
        ("all", [20260901, 12, 3], {"shift": 0.1, "jitter": 1.7, "rescale": 3.0}, CORNERS),
        ("all, of cells", [5, 6], {"shift": 2.0, "jitter": 8.0, "rescale": 1.1}, CELLS),
    ):
        shift, jitter, rescale = draw(seeds, len(positions), **options)
        result = [
            [rounded((mp.mpf(p) + shift[a]) * jitter[a] * rescale, 53) for p in row] for a, row in enumerate(positions)
        ]
        factors = {"shift": shift, "jitter": jitter, "rescale": rescale}
        yield {"name": name, "seed": seeds, "options": options, "positions": positions} | factors | {"result": result}


def draw(seeds: list[int], axes: int, *, shift: float = 0.0, jitter: float = 1.0, rescale: float = 1.0) -> Any:
    """Return shift and jitter of each axis, and the factor of all; the key of Python is one integer of all seeds."""
    generator = random.Random(sum(seed << 32 * place for place, seed in enumerate(seeds)))
    uniform = [2 * mp.mpf(generator.random()) - 1 for _ in range(2 * axes + 1)]
    shifts = [rounded(shift * u, 53) for u in uniform[:axes]]
    scales = [rounded(mp.mpf(jitter) ** u, 53) for u in uniform[axes : 2 * axes]]
    return shifts, scales, rounded(mp.mpf(rescale) ** uniform[-1], 53)
