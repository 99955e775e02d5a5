"""Pictures of the page on order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from drawn import COLORS, SHARES, ink
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posenc_core import Sinusoidal, attention_weights, causal, same_sequence, sequence_ids, valid_lengths


def weights(figure: Figure) -> None:
    """Weights of random words of width 8, used as queries and keys; right with `Sinusoidal(dim=8)` added.

    Attention weights of two sentences, dog bites man and man bites dog, as squares of three by three numbers.

    Without positions both have the same nine numbers, in other places; with positions added, the numbers differ.
    """
    words = 0.7 * np.random.default_rng(3).normal(size=(3, 8))
    names, table = ("dog", "bites", "man"), Sinusoidal(dim=8).table(range(3))
    figure.set_size_inches(7.5, 2.2)
    for number, panel in enumerate(figure.subplots(1, 4)):
        order = [0, 1, 2] if number % 2 == 0 else [2, 1, 0]
        tokens = words[order] + (table if number > 1 else 0)
        _square(panel, attention_weights(tokens, tokens), [names[place] for place in order])
        panel.set_title("without positions" if number < 2 else "with positions")


def masks(figure: Figure) -> None:
    """Six queries and six keys: what `valid_lengths`, `causal` and `same_sequence` let through.

    Three masks of six queries and six keys, where blue squares are seen.

    Valid lengths: the first four keys, for each query. Causal: a triangle, no key after its query. Packed: two
    sentences in one row, each a square of its own.
    """
    places, ids = np.arange(6), sequence_ids([0, 4, 6])
    shown = {
        "valid length 4": np.broadcast_to(valid_lengths(np.array([4]), places)[0, 0], (6, 6)),
        "causal": causal(places, places),
        "two sentences, packed": same_sequence(ids, ids),
    }
    figure.set_size_inches(7, 2.4)
    for panel, (title, mask) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        panel.imshow(mask, cmap=SHARES, vmin=0, vmax=1.4)
        panel.set(title=title, xlabel="key", xticks=places, yticks=places)
    figure.axes[0].set_ylabel("query")


def sums(figure: Figure) -> None:
    """The three tokens of this page in both orders, and the rows 0 to 2 of `Sinusoidal(dim=2)`.

    Two sums of tables, for dog bites man and for man bites dog. Tokens, one in a line with two numbers, plus the rows
    of positions 0, 1 and 2 give the input of the first layer. The rows are the same in both sums.

    Dog is (2, 0) in both sentences. With the row of position 0 added it is (2, 1), with that of position 2
    (2.91, −0.42).
    """
    words = {"dog": (2, 0), "bites": (0, 1), "man": (1, 1)}
    rows, colors = Sinusoidal(dim=2).table(range(3)), dict(zip(words, COLORS, strict=False))
    figure.set_size_inches(7, 3.6)
    panel = figure.subplots()
    for top, names in ((0, [*words]), (4.4, [*reversed(words)])):
        tokens = np.array([words[name] for name in names], float)
        shades = [colors[name] for name in names]
        for left, numbers, fills in ((1.2, tokens, shades), (4.7, rows, ["#cccccc"] * 3), (8.2, tokens + rows, shades)):
            _draw_numbers(panel, (left, top), numbers, fills)
        for place, name in enumerate(names):
            panel.text(0.9, top + place + 0.5, name, ha="right", va="center")
            panel.text(4.4, top + place + 0.5, str(place), ha="right", va="center")
        panel.text(3.75, top + 1.5, "+", ha="center", va="center", fontsize=14)
        panel.text(7.7, top + 1.5, "=", ha="center", va="center", fontsize=14)
    for middle, title in ((2.2, "tokens"), (5.7, "rows of positions"), (9.2, "input of the first layer")):
        panel.text(middle, -0.35, title, ha="center")
    panel.set(xlim=(-0.3, 10.6), ylim=(7.6, -1))
    panel.axis("off")


def heads(figure: Figure) -> None:
    """Five tokens of width 8 and two heads of width 4, with random tokens and matrices; a cell is a number, a colour a
    head.

    Multi-head attention from left to right. The tokens, a table of 5 by 8, times the matrices of queries, keys and
    values give three tables of 5 by 8. The first four columns of each, blue, belong to head 1, the others, orange, to
    head 2.

    Each head compares its queries with its keys, which gives weights of 5 by 5, and takes the mean of its values,
    5 by 4. The means of both stand beside each other in a table of 5 by 8, which the last matrix mixes into the result,
    5 by 8.
    """
    generator = np.random.default_rng(5)
    tokens, (q, k) = generator.normal(size=(5, 8)), generator.normal(size=(2, 8, 8))
    figure.set_size_inches(7.5, 3.3)
    panel = figure.subplots()
    both, gray = [COLORS[0]] * 4 + [COLORS[1]] * 4, ["#bbbbbb"] * 8
    _draw_cells(panel, (0, 9), np.ones((5, 8)), gray, "tokens\n5 × 8")
    for top, name in ((0, "q"), (9, "k"), (18, "v")):
        _draw_arrow(panel, (8.5, 11.5), (12.5, top + 2.5), f"$W_{name}$")
        _draw_cells(
            panel, (13, top), np.ones((5, 8)), both, {"q": "queries", "k": "keys", "v": "values"}[name] + "\n5 × 8"
        )
    for head, top in enumerate((3, 15)):
        part = slice(4 * head, 4 * head + 4)
        weights = attention_weights((tokens @ q)[:, part], (tokens @ k)[:, part])
        _draw_arrow(panel, (21.5, 11.5), (24.5, top + 2.5), "")
        _draw_cells(panel, (25, top), weights, [COLORS[head]] * 5, f"weights of head {head + 1}\n5 × 5")
        _draw_arrow(panel, (30.5, top + 2.5), (37.5, top + 2.5), "× values")
        _draw_cells(panel, (38, top), np.ones((5, 4)), [COLORS[head]] * 4, "mean\n5 × 4")
        _draw_arrow(panel, (42.5, top + 2.5), (45.5, 11.5), "")
    _draw_cells(panel, (46, 9), np.ones((5, 8)), both, "beside each other\n5 × 8")
    _draw_arrow(panel, (54.5, 11.5), (58.5, 11.5), "$W_o$")
    _draw_cells(panel, (59, 9), np.ones((5, 8)), gray, "result\n5 × 8")
    panel.set(xlim=(-0.5, 67.5), ylim=(23.5, -3), aspect="equal")
    panel.axis("off")


def _draw_numbers(panel: Axes, corner: tuple[float, float], numbers: npt.NDArray[Any], fills: Sequence[str]) -> None:
    """A table whose lines have these colours, with its upper left corner there."""
    for (line, column), number in np.ndenumerate(numbers):
        at = corner[0] + column, corner[1] + line
        panel.add_patch(Rectangle(at, 0.94, 0.88, fc=fills[line], ec="none"))
        said = f"{number:.2f}".rstrip("0").rstrip(".").replace("-", "−")
        panel.text(at[0] + 0.47, at[1] + 0.46, said, color=ink(fills[line]), ha="center", va="center")


def _draw_cells(
    panel: Axes, corner: tuple[float, float], strengths: npt.NDArray[Any], fills: Sequence[str], title: str
) -> None:
    """Cells whose columns have these colours, with their upper left corner there, below a title."""
    for (line, column), strength in np.ndenumerate(strengths):
        at = corner[0] + column, corner[1] + line
        panel.add_patch(Rectangle(at, 0.86, 0.86, fc=fills[column], ec="none", alpha=float(0.12 + 0.88 * strength)))
    panel.text(corner[0] + strengths.shape[1] / 2, corner[1] - 0.3, title, ha="center", va="bottom", fontsize=8)


def _draw_arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float], name: str) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "gray", "shrinkA": 0, "shrinkB": 0})
    side, above = ("center" if start[1] == end[1] else "right"), end[1] <= start[1]
    at = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + (-0.3 if above else 0.3)
    panel.text(*at, name, ha=side, va="bottom" if above else "top", fontsize=8)


def _square(panel: Axes, numbers: Any, names: Sequence[str]) -> None:
    panel.imshow(numbers, cmap=SHARES, vmin=0, vmax=1)
    panel.set_xticks(range(3), names)
    panel.set_yticks(range(3), names, rotation=90, va="center")
    for (row, column), number in np.ndenumerate(numbers):
        shade = "white" if number > 0.7 else None
        panel.text(column, row, f"{number:.2f}", ha="center", va="center", color=shade)
