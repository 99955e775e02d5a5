"""Pictures of the similarity of patches, and of the axis by which each pair of channels is rotated."""

import numpy as np
from drawn import COLORS, ink
from matplotlib.figure import Figure

from posenc_core import (
    AxialRotary,
    FourierFeatures,
    GridSinusoidal,
    MultimodalRotary,
    RandomFourierFeatures,
    Sinusoidal,
    grid,
    multimodal,
    normalized_grid,
)

SIDE, MIDDLE = 16, (8, 8)
AXES = ("time", "height", "width")
ARRANGED = {"chunked": (4, 6, 6), "interleaved": (6, 5, 5), "ernie": (5, 5, 6)}


def maps(figure: Figure) -> None:
    """Dot products with the middle patch of 16 × 16, for width 64 (random features: `dim=256, scale=0.7`). `Sinusoidal`
    has patches numbered row by row, the others have two coordinates.

    Five maps of 16 × 16 patches: the product of each with the one in the middle. By a sinusoid of patch
    numbers: a stripe along the middle row, and next to nothing above and below. By a sinusoid of grid positions,
    and by axial rotation: a peak in the middle with a cross through it. By NeRF's features: a finer cross, with
    copies of it. By random features: one round peak.
    """
    figure.set_size_inches(7.5, 2)
    for panel, (title, products) in zip(figure.subplots(1, 5), _products().items(), strict=True):
        panel.imshow(products.reshape(SIDE, SIDE) / products.max())
        panel.plot(*MIDDLE, "+", color="white", ms=5)
        panel.set_title(title, fontsize=8)
        panel.axis("off")


def axes(figure: Figure) -> None:
    """Positions by `multimodal([3, (1, 2, 3), 2])`; axes of `MultimodalRotary(head_dim=32)` in three arrangements.

    Left: positions of three words, a picture of 2 × 3 patches and two words on the axes time, height and
    width; they are one line for words, and part for the picture. Right: the axis by which each of 16 pairs is
    rotated: chunked in three runs, interleaved time, height, width alternating, ernie height and width
    alternating and then time.
    """
    figure.set_size_inches(7.5, 2.8)
    places, pairs = figure.subplots(1, 2)
    positions, _ = multimodal([3, (1, 2, 3), 2])
    for axis, (name, mark) in enumerate(zip(AXES, "os^", strict=True)):
        places.plot(positions[axis] + 0.08 * (axis - 1), mark, ms=5, color=COLORS[axis], label=name)
    places.axvspan(2.5, 8.5, color="gray", alpha=0.15, lw=0)
    places.set(title="positions", xlabel="token")
    places.legend(loc="upper left")
    for row, (arrangement, sections) in enumerate(ARRANGED.items()):
        rotary = MultimodalRotary(head_dim=32, layout="half", sections=sections, arrangement=arrangement)
        for pair, axis in enumerate(rotary.axes):
            pairs.barh(row, 0.9, left=pair - 0.45, height=0.7, color=COLORS[axis])
            pairs.text(pair, row, AXES[axis][0], color=ink(COLORS[axis]), ha="center", va="center", fontsize=8)
    pairs.set(title="axis of each pair", xlabel="pair, the fastest first", xticks=range(0, 16, 2), ylim=(2.6, -0.6))
    pairs.set_yticks(range(len(ARRANGED)), list(ARRANGED))


def _products() -> dict[str, np.ndarray]:
    cells, square, middle = grid(SIDE, SIDE), normalized_grid(SIDE, SIDE), SIDE * MIDDLE[0] + MIDDLE[1]
    tables = {
        "Sinusoidal": Sinusoidal(dim=64).table(range(SIDE * SIDE)),
        "GridSinusoidal": GridSinusoidal(dim=64, convention="mae").table(cells),
        "AxialRotary": np.concatenate(
            AxialRotary(head_dim=64, layout="half", axes_dims=(32, 32)).cos_sin(cells), axis=-1
        ),
        "FourierFeatures": FourierFeatures(dim=16, num_axes=2).table(square),
        "RandomFourierFeatures": RandomFourierFeatures(dim=256, scale=0.7, seed=0, num_axes=2).table(square),
    }
    return {title: rows @ rows[middle] for title, rows in tables.items()}
