"""Pictures of the page on costs."""

from __future__ import annotations

from drawn import COLORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Arrow = tuple[float, float, float, float]  # from column, row; to column, row

TOKENS = 5


def paths(figure: Figure) -> None:
    """Paths from the first token to the last result: two steps, four, and one.

    Five tokens below and their results above, in three layers, with an arrow for each direct dependence.

    Convolution with a window of three: two layers, in which the last result depends on the first token along one
    thick arrow in each layer. Recurrence: arrows from state to state, four thick ones in a row. Self-attention:
    arrows from every token to every result, and a single thick one from the first token to the last result.
    """
    figure.set_size_inches(7, 2.2)
    near = [(one, other) for one in range(TOKENS) for other in range(TOKENS) if abs(one - other) <= 1]
    convolution, recurrence, attention = figure.subplots(1, 3)
    windows = [(one, row, other, row + 1) for one, other in near for row in (0, 1)]
    _layer(convolution, "convolution, window of 3", windows, [(0, 0, 1, 1), (1, 1, 2, 2)], rows=3)
    inputs = [(one, 0, one, 1) for one in range(TOKENS)]
    states = [(one, 1, one + 1, 1) for one in range(TOKENS - 1)]
    _layer(recurrence, "recurrence", [*inputs, *states], [inputs[0], *states], rows=2)
    pairs = [(one, 0, other, 1) for one in range(TOKENS) for other in range(TOKENS)]
    _layer(attention, "self-attention", pairs, [(0, 0, TOKENS - 1, 1)], rows=2)


def products(figure: Figure) -> None:
    """Multiplications of one layer of width $d = 512$ for $L$ tokens: $3 L d^2$, $2 L d^2$, $2 L^2 d$ and
    $2 L^2 d + 4 L d^2$.

    Products of numbers against the length of the text, on logarithmic scales, for a width of 512.

    Convolution and recurrence are parallel straight lines. Scores and sums of attention rise twice as steeply,
    and cross the recurrence at 512 tokens. With its projections attention lies above both, and bends upwards at
    about 1,000 tokens.
    """
    panel, lengths, width = figure.subplots(), [2**power for power in range(5, 17)], 512
    lines = {
        "convolution, window of 3": [3 * n * width**2 for n in lengths],
        "recurrence": [2 * n * width**2 for n in lengths],
        "attention: scores and sums": [2 * n**2 * width for n in lengths],
        "attention with projections": [2 * n**2 * width + 4 * n * width**2 for n in lengths],
    }
    for (name, counts), color in zip(lines.items(), COLORS, strict=False):
        panel.plot(lengths, counts, color=color, lw=1.2, label=name)
    panel.set(xscale="log", yscale="log", xlabel="length", ylabel="products")
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
    panel.legend()


def _layer(panel: Axes, title: str, arrows: list[Arrow], path: list[Arrow], rows: int) -> None:
    for arrow in arrows:
        chosen = arrow in path
        color, width = (COLORS[1], 1.8) if chosen else (COLORS[6], 0.6)
        x, y, to_x, to_y = (number * scale for number, scale in zip(arrow, (1, 2 / (rows - 1)) * 2, strict=True))
        style = {"arrowstyle": "->", "color": color, "lw": width, "shrinkA": 5, "shrinkB": 5}
        panel.annotate("", (to_x, to_y), (x, y), arrowprops=style, zorder=3 if chosen else 2)
    for row in range(rows):
        color = COLORS[2] if row == 0 else COLORS[0]
        panel.plot(range(TOKENS), [row * 2 / (rows - 1)] * TOKENS, "o", color=color, ms=7)
    panel.set(title=title, xlim=(-0.4, TOKENS - 0.6), ylim=(-0.3, 2.3))
    panel.axis("off")
