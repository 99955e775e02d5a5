"""Pictures of the page on the first steps of the ladder."""

from __future__ import annotations

import numpy as np
from drawn import COLORS
from matplotlib.figure import Figure

from posenc_core import Binary, Integer, Normalized


def lines(figure: Figure) -> None:
    """`Integer(dim=1)` for 20 positions, and `Normalized(dim=1)` for texts of 5, 10 and 20 words.

    Left, integers against positions: a line that leaves the band from -3 to 3, where numbers of words lie, at
    once.

    Right, normalized positions of texts of 5, 10 and 20 words: lines of three slopes, so that position 4 is at
    0.8, 0.4 and 0.2.
    """
    figure.set_size_inches(7, 2.4)
    whole, shares = figure.subplots(1, 2)
    whole.axhspan(-3, 3, color=COLORS[0], alpha=0.2, lw=0, label="numbers of words")
    whole.plot(Integer(dim=1).table(range(20))[:, 0], "o", color=COLORS[1], ms=3, label="integers")
    for length, color in zip((5, 10, 20), COLORS, strict=False):
        rows = Normalized(dim=1, length=length).table(range(length))[:, 0]
        shares.plot(rows, "o-", color=color, ms=3, lw=0.8, label=f"{length} words")
    shares.axvline(4, color=COLORS[6], lw=0.8, ls=":")
    for panel in (whole, shares):
        panel.set(xlabel="position", xticks=range(0, 20, 4))
        panel.legend()


def digits(figure: Figure) -> None:
    """`Binary(dim=4)` for 16 positions, and `Binary(dim=3)` for eight.

    Left, the binary digits of the positions 0 to 15 as four square waves, each half as fast as the one below.

    Right, the eight codes of three digits as corners of a cube, joined in the order of their positions: the way
    from 3 to 4 goes across the whole cube.
    """
    figure.set_size_inches(7, 3)
    waves, cube = figure.subplots(1, 2, width_ratios=(3, 2))
    table = Binary(dim=4).table(np.arange(16))
    for column, color in zip(range(4), COLORS, strict=False):
        heights = np.append(table[:, column], table[-1, column]) + 1.5 * (3 - column)
        waves.step(np.arange(17), heights, where="post", color=color)
    waves.set_yticks([0.5 + 1.5 * (3 - column) for column in range(4)], [f"column {column}" for column in range(4)])
    waves.set(xlabel="position", xticks=range(0, 17, 2))
    seen = Binary(dim=3).table(np.arange(8)) @ np.array([[0.45, 0.35], [0, 1], [1, 0]])
    for one in range(8):
        for digit in (1, 2, 4):
            cube.plot(*seen[[one, one ^ digit]].T, color=COLORS[6], lw=0.6, ls=":")
    cube.plot(*seen.T, color=COLORS[0], lw=1)
    cube.plot(*seen[[3, 4]].T, color=COLORS[1], lw=2)
    for position, (x, y) in enumerate(seen):
        beside = (6, -11) if position == 4 else (4, 4)
        cube.annotate(f"{position}: {position:03b}", (x, y), beside, textcoords="offset points")
    cube.set(xlim=(-0.1, 1.8), ylim=(-0.1, 1.55))
    cube.axis("off")
