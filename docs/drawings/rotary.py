"""Pictures of rotated pairs of channels, and of the channels that form a pair."""

import numpy as np
from drawn import COLORS, ink
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc

from posenc_core import Rotary, rotate

SHOWN = (0, 6, 12)  # pairs of a head of 64
STEPS = 8
LAYOUTS = ("interleaved", "half", "interleaved_to_half")
WIDTH = 8


def turning(figure: Figure) -> None:
    """Three of the 32 pairs of `Rotary(head_dim=64)` at the positions 0 to 7; right, the mean over all 32 pairs.

    Three pairs of channels as arrows on circles, at positions 0 to 7: the first pair goes more than once
    around, the seventh a fifth of a circle, the thirteenth hardly moves. Beside them, the mean cosine of all
    pairs by offset: it falls from 1 in waves, more slowly where the base is higher.
    """
    figure.set_size_inches(7.5, 2.4)
    *circles, curve = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.7))
    rotary = Rotary(head_dim=64, layout="half")
    cos, sin = rotary.cos_sin(range(STEPS))
    for panel, pair in zip(circles, SHOWN, strict=True):
        _draw_arrows(panel, np.stack([cos[:, pair], sin[:, pair]], axis=-1))
        panel.set_title(f"pair {pair}: ω = {rotary.frequencies()[pair]:.3g}")
    for base, color in ((1e4, COLORS[0]), (5e5, COLORS[1])):
        cos, _ = Rotary(head_dim=64, layout="half", base=base).cos_sin(range(513))
        curve.plot(cos.mean(axis=-1), color=color, lw=1, label=f"base {base:,.0f}")
    curve.set(title="mean of cos(ω δ), 32 pairs", xlabel="offset δ", ylim=(-0.1, 1.05))
    curve.legend()


def layouts(figure: Figure) -> None:
    """Eight channels, four pairs of one colour each; c and s are cosine and sine of the angle of a pair.

    A head of eight channels in three layouts, with arcs between the two channels of each pair. Interleaved:
    neighbours, and a matrix with blocks on its diagonal. Half: channels i and i + 4, and a matrix of three diagonals.
    Interleaved to half: neighbours come in, and go out where half has them.
    """
    figure.set_size_inches(7.5, 4.3)
    panels = figure.subplots(2, 3, height_ratios=(1, 2))
    for (channels, matrix), layout in zip(panels.T, LAYOUTS, strict=True):
        _draw_channels(channels, layout)
        _draw_matrix(matrix, layout)


def _draw_arrows(panel: Axes, ends: np.ndarray) -> None:
    panel.add_patch(Arc((0, 0), 2, 2, color="gray", lw=0.6))
    for position, end in enumerate(ends):
        style = {"arrowstyle": "->", "color": COLORS[0], "alpha": 0.3 + 0.7 * position / (STEPS - 1)}
        panel.annotate("", end, (0, 0), arrowprops={**style, "shrinkA": 0, "shrinkB": 0})
        if ends[1, 1] > 0.5 or position in (0, STEPS - 1):  # else numbers would overlap
            panel.text(*(1.16 * end), str(position), ha="center", va="center", fontsize=8)
    panel.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    panel.axis("off")


def _draw_channels(panel: Axes, layout: str) -> None:
    """Boxes in the colour of their pair, and arcs from partner to partner."""
    before, _, after = layout.partition("_to_")
    for row, each in enumerate(filter(None, (before, after))):
        pair_of = np.repeat(range(4), 2) if each == "interleaved" else np.tile(range(4), 2)
        for channel, pair in enumerate(pair_of):
            _draw_box(panel, (channel, -2.4 * row), str(channel), pair)
        for pair in range(4):
            first, second = np.flatnonzero(pair_of == pair)
            middle, width = ((first + second) / 2, -3 if row else 0.55), second - first
            angles = {"theta1": 180, "theta2": 360} if row else {"theta1": 0, "theta2": 180}
            panel.add_patch(Arc(middle, width, 0.9 * width**0.7, color=COLORS[pair], **angles))
    if after:
        panel.annotate("", (3.5, -1.8), (3.5, -0.6), arrowprops={"arrowstyle": "->", "color": "gray"})
    panel.set(xlim=(-0.6, 7.6), ylim=(-4.4, 2) if after else (-3.2, 3.2), title=f'"{layout}"')
    panel.axis("off")


def _draw_matrix(panel: Axes, layout: str) -> None:
    """The rotation as a matrix: each channel of the result from the two channels of its pair, by c, s and −s."""
    one, none = np.ones((1, 4)), np.zeros((1, 4))
    for name, tables in (("c", (one, none)), ("s", (none, one))):
        matrix = rotate(np.eye(WIDTH), *tables, layout=layout).T  # (out, in)
        for out, into in np.argwhere(matrix):
            pair = into // 2 if layout.startswith("interleaved") else into % 4
            sign = "−" if matrix[out, into] < 0 else ""
            _draw_box(panel, (into, out), f"{sign}{name}$_{pair}$", pair, pad=0.25)
    panel.set(xlim=(-0.6, 7.6), ylim=(7.6, -0.6), aspect="equal")
    panel.set(xlabel="channel that comes in", ylabel="channel that goes out", xticks=range(WIDTH), yticks=range(WIDTH))
    panel.tick_params(length=0)


def _draw_box(panel: Axes, at: tuple[float, float], text: str, pair: int, pad: float = 0.3) -> None:
    box = {"boxstyle": f"round,pad={pad}", "fc": COLORS[pair], "ec": "none"}
    panel.text(*at, text, color=ink(COLORS[pair]), ha="center", va="center", fontsize=9, bbox=box)
