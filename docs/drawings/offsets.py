"""Pictures of the page on offsets."""

from __future__ import annotations

import numpy as np
from drawn import COLORS, SIGNED
from matplotlib.figure import Figure

from posenc_core import Rotary, Sinusoidal


def onward(figure: Figure) -> None:
    """Five positions on, for `Sinusoidal(dim=32)`: the matrix, and six pairs of columns at positions 0 (blue) and 5
    (orange).

    Left, the matrix that leads from a row to that five positions later: zeros but for squares of two along the
    diagonal.

    Right, the hands of six pairs before and after: the first has gone most of the way round, the last hardly at
    all.
    """
    figure.set_size_inches(7.5, 3.3)
    heat, hands = figure.subplots(1, 2, width_ratios=(1, 2))
    cos, sin = Rotary(head_dim=32, layout="interleaved").cos_sin([5])
    matrix = np.zeros((32, 32))
    even, odd = np.arange(0, 32, 2), np.arange(1, 32, 2)
    matrix[even, even], matrix[even, odd], matrix[odd, even], matrix[odd, odd] = cos[0], sin[0], -sin[0], cos[0]
    figure.colorbar(heat.imshow(matrix, cmap=SIGNED, vmin=-1, vmax=1), ax=heat, ticks=[-1, 0, 1], shrink=0.8)
    encoding = Sinusoidal(dim=32)
    rows, rates = encoding.table([0, 5]), encoding.angular_frequencies()
    round_about = np.linspace(0, 2 * np.pi, 100)
    for number, pair in enumerate(range(0, 12, 2)):
        centre = 2.9 * (number % 3), -3.3 * (number // 3)
        hands.plot(centre[0] + np.cos(round_about), centre[1] + np.sin(round_about), color=COLORS[6], lw=0.6)
        for row, color in zip(rows, COLORS, strict=False):
            tip = row[pair], row[pair + 1]
            hands.plot([centre[0], centre[0] + tip[0]], [centre[1], centre[1] + tip[1]], color=color, lw=1.5)
        for below, text in ((1.3, f"columns {pair}, {pair + 1}"), (1.65, f"ω = {rates[pair]:.3g}")):
            hands.text(centre[0], centre[1] - below, text, ha="center", va="center")
    hands.set_aspect("equal")
    hands.axis("off")


def products(figure: Figure) -> None:
    """`Sinusoidal(dim=32)` and `Sinusoidal(dim=512)`, base 10,000: row 100 times the rows 0 to 200.

    Dot products with the row in the middle against the offset, for tables of 32 and 512 columns, divided by
    their largest.

    Both are symmetric, highest at 0, fall quickly and then in waves; that of 512 columns falls more smoothly.
    """
    panel = figure.subplots()
    for dim, color in ((32, COLORS[0]), (512, COLORS[1])):
        rows = Sinusoidal(dim=dim).table(np.arange(201))
        panel.plot(np.arange(-100, 101), rows @ rows[100] * 2 / dim, color=color, lw=1.2, label=f"{dim} columns")
    panel.set(xlabel="offset", ylabel="dot product")
    panel.legend()
