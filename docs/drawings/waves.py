"""Pictures of the page on waves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from drawn import COLORS, SIGNED
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_core import Binary, Rotary, Sine, Sinusoidal, rotate


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


def points(figure: Figure) -> None:
    """Three chosen sines at the positions 1 to 5; the rows of `Binary(dim=2)` and of `Sinusoidal(dim=2)`.

    Left, the curves of sin t, sin 0.5t and sin 0.2t with dots at the positions 1 to 5, those of a sentence of five
    tokens. In the middle, the four binary codes as corners of a square: the step from 1 to 2 is its diagonal. Right,
    the four rows of a sine and a cosine on a circle, with equal steps.
    """
    figure.set_size_inches(7, 2.6)
    sines, square, circle = figure.subplots(1, 3)
    curve, places = np.linspace(0, 6, 200), np.arange(1, 6)
    for speed, color in zip((1, 0.5, 0.2), COLORS, strict=False):
        sines.plot(curve, np.sin(speed * curve), color=color, lw=1, label="sin t" if speed == 1 else f"sin {speed}t")
        sines.plot(places, np.sin(speed * places), "o", color=color, ms=4)
    sines.set(xlabel="position", ylim=(-1.1, 2.1), title="three sines")
    sines.legend(loc="upper center")
    codes = Binary(dim=2).table(np.arange(4))
    square.plot(*codes.T, color=COLORS[6], lw=0.8)
    square.plot(*codes[[1, 2]].T, color=COLORS[1], lw=1.5)
    _numbered(square, codes, range(4), "binary codes")
    square.set(aspect="equal", xlim=(-0.3, 1.4), ylim=(-0.3, 1.4))
    around = np.linspace(0, 2 * np.pi, 200)
    circle.plot(np.sin(around), np.cos(around), color=COLORS[6], lw=0.6)
    _numbered(circle, Sinusoidal(dim=2).table(np.arange(4)), range(4), "one sine, one cosine")
    circle.set(aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))


def table(figure: Figure) -> None:
    """`Sinusoidal(dim=32)`, base 10,000, positions 0 to 59.

    Left, a sinusoidal table of 60 positions and 32 columns as a heat map: fast stripes in the first columns,
    none in the last.

    Right, columns 6 to 9 against the position: two pairs of a sine and a cosine, the second pair slower.
    """
    figure.set_size_inches(7, 3)
    heat, curves = figure.subplots(1, 2, width_ratios=(2, 3))
    rows = Sinusoidal(dim=32).table(np.arange(60))
    figure.colorbar(heat.imshow(rows, aspect="auto", cmap=SIGNED), ax=heat, ticks=[-1, 0, 1])
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
