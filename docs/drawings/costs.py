"""Pictures of the page on costs."""

from __future__ import annotations

from drawn import COLORS
from matplotlib.figure import Figure


def products(figure: Figure) -> None:
    """Multiplications of one layer of width $d = 512$ for a text of $n$ words: $3 n d^2$, $2 n d^2$, $2 n^2 d$ and
    $2 n^2 d + 4 n d^2$.

    Products of numbers against the length of the text, on logarithmic scales, for a width of 512.

    Convolution and recurrence are parallel straight lines. Scores and sums of attention rise twice as steeply,
    and cross the recurrence at 512 words. With its projections attention lies above both, and bends upwards at
    about 1,000 words.
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
