"""Pictures of the page on waves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from drawn import COLORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_core import Rotary, Sine, Sinusoidal, rotate


def planes(figure: Figure) -> None:
    """`Sine(dim=2)` with `"powers_of_two"` and with `"endpoint"`; the words (1, 1) rotated by `Rotary(head_dim=2)`.

    Rows of two columns as numbered points in a plane, for three encodings.

    Sines with halved frequency: a closed curve, on which position 88 lies on position 0. Sines up to a wavelength of
    62,832: points go up and down in a narrow band that drifts to the right. Words of ones, rotated: a circle.
    """
    figure.set_size_inches(7, 2.7)
    halves, slow, rotated = figure.subplots(1, 3)
    close = np.linspace(0, 4 * np.pi, 400)
    halves.plot(np.sin(close), np.sin(close / 2), color=COLORS[6], lw=0.6)
    rows = Sine(dim=2, frequencies="powers_of_two").table([*range(10), 88])
    _numbered(halves, rows, [*range(10), 88], "sines, halved")
    places = np.arange(10)
    _numbered(slow, Sine(dim=2, frequencies="endpoint").table(places)[:, ::-1], places, "sines, 1 and 1/10000")
    slow.set(xticks=[0, 0.0005], xlim=(-0.0001, 0.0012), ylim=(-1.2, 1.25))
    halves.set(xlim=(-1.2, 1.3), ylim=(-1.2, 1.25))
    cos, sin = Rotary(head_dim=2, layout="interleaved").cos_sin(places)
    ones = rotate(np.ones((10, 2)), cos, sin, layout="interleaved")
    _numbered(rotated, ones, places, "words of ones, rotated")
    rotated.plot(np.sqrt(2) * np.cos(close), np.sqrt(2) * np.sin(close), color=COLORS[6], lw=0.6)
    rotated.set(aspect="equal", xlim=(-1.8, 1.8), ylim=(-1.8, 1.8))


def table(figure: Figure) -> None:
    """`Sinusoidal(dim=32)`, base 10,000, positions 0 to 59.

    Left, a sinusoidal table of 60 positions and 32 columns as a heat map: fast stripes in the first columns,
    none in the last.

    Right, columns 6 to 9 against the position: two pairs of a sine and a cosine, the second pair slower.
    """
    figure.set_size_inches(7, 3)
    heat, curves = figure.subplots(1, 2, width_ratios=(2, 3))
    rows = Sinusoidal(dim=32).table(np.arange(60))
    figure.colorbar(heat.imshow(rows, aspect="auto", cmap="RdBu"), ax=heat, ticks=[-1, 0, 1])
    heat.set(xlabel="column", ylabel="position")
    for column, color in zip(range(6, 10), COLORS, strict=False):
        curves.plot(rows[:, column], color=color, lw=1.2, ls="-" if column % 2 == 0 else "--", label=f"column {column}")
    curves.set(xlabel="position", ylim=(-1.1, 1.6))
    curves.legend(ncols=2, loc="upper center")


def _numbered(panel: Axes, rows: npt.NDArray[Any], positions: Iterable[int], title: str) -> None:
    panel.plot(*rows.T, "o", color=COLORS[0], ms=3)
    for position, row in zip(positions, rows, strict=True):
        far = position == 88
        panel.annotate(str(position), row, (4, -10) if far else (3, 3), textcoords="offset points", fontsize=8)
    panel.set_title(title)
