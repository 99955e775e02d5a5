"""The parts of the Transformer, and what goes from one to the next."""

import json
from pathlib import Path

import numpy as np
from drawn import COLORS, SHARES, ink
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

RESULTS = Path(__file__).parents[2] / "experiments" / "results" / "dates.json"
LEFT, RIGHT = 1.9, 7.5
BLUE, ORANGE, GREEN, PURPLE = COLORS[:4]
FRAME = {"fc": "none", "ec": "gray", "lw": 0.6}
ENCODER = (("self-attention", BLUE), ("feed-forward", GREEN))
DECODER = (("causal self-attention", BLUE), ("cross-attention", ORANGE), ("feed-forward", GREEN))
STEP = 1.6  # from one part of a block to the next
SIDE = 1.95  # from the middle of a block to its residual connections


def parts(figure: Figure) -> None:
    """The model of Vaswani et al. 2017. Dashed: the residual path, by which the input of a sublayer is added to its
    output; a layer normalization follows.

    The Transformer, read from bottom to top. Left, the encoder: the question, its embedding with positions
    added, then N times self-attention and feed-forward. Right, the decoder: the answer shifted right, its
    embedding with positions, then N times causal self-attention, cross-attention and feed-forward, then the
    product with the embedding and the softmax, which give a probability for each next token. After each part of a
    block stands a box, add and norm; a line leads around the part into it, the residual connection. From the
    top of the encoder an arrow goes to cross-attention.
    """
    figure.set_size_inches(7.5, 6)
    panel = figure.subplots()
    for x, question, names in ((LEFT, "question", ENCODER), (RIGHT, "answer, shifted right", DECODER)):
        panel.text(x, 0.4, question, ha="center", va="center")
        _draw_arrow(panel, (x, 0.62), (x, 1))
        _draw_box(panel, x, 1.3, "embedding + positions", PURPLE)
        for step, (name, color) in enumerate(names):
            _draw_part(panel, x, 2.2 + STEP * step, name, color)
        height = STEP * len(names)
        panel.add_patch(FancyBboxPatch((x - 2.15, 1.68), 4.3, height - 0.08, boxstyle="round,pad=0.05", **FRAME))
        panel.text(x + 2.3, 1.6 + height, "N ×", ha="left", va="top")
    top = 2.2 + STEP * len(DECODER)
    _draw_arrow(panel, (RIGHT, top - 0.6), (RIGHT, top - 0.1))
    _draw_box(panel, RIGHT, top + 0.2, "× embedding, softmax", PURPLE)
    _draw_arrow(panel, (RIGHT, top + 0.5), (RIGHT, top + 0.9))
    panel.text(RIGHT, top + 1.1, "next token", ha="center", va="center")
    cross, above, middle = 2.2 + STEP, 2.2 + 2 * STEP, (LEFT + RIGHT) / 2
    panel.plot((LEFT, LEFT, middle, middle), (above - 0.6, above, above, cross), color="gray", lw=1)
    _draw_arrow(panel, (middle, cross), (RIGHT - 1.5, cross))
    panel.text(LEFT, above + 0.1, "keys and values of the question", ha="center", va="bottom", fontsize=8)
    panel.set(xlim=(-0.5, 10.6), ylim=(0.2, top + 1.3))
    panel.axis("off")


def attention(figure: Figure) -> None:
    """Cross-attention of the last block of a model that `posenc train dates` has trained: each line is a token of the
    answer, 2026-11-21, and its weights are those of the characters of the question.

    Four heads, each a table of ten lines and twenty-five columns, pale but for a few dark cells in each line.

    For the digits of the year, the heads look at the end of the question; for those of the day at "21", at its
    beginning; for those of the month at the N and the v of November.
    """
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    figure.set_size_inches(7.5, 4.2)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for head, (panel, weights) in enumerate(zip(panels, np.array(found["attention"]), strict=True), 1):
        image = panel.imshow(weights, cmap=SHARES, vmin=0, vmax=1, aspect="auto")
        panel.set_xticks(range(weights.shape[1]), found["question"].replace(" ", "␣"), fontsize=7)
        panel.set_yticks(range(len(weights)), found["answer"], fontsize=7)
        panel.tick_params(length=0, labelbottom=True)
        panel.set_title(f"head {head}")
    figure.supxlabel("question", fontsize=9)
    figure.supylabel("answer", fontsize=9)
    figure.colorbar(image, ax=panels, label="weight", fraction=0.03)


def _draw_part(panel: Axes, x: float, y: float, name: str, color: str) -> None:
    """A part of a block, the box that adds and normalizes, and the residual connection around the part."""
    _draw_arrow(panel, (x, y - 0.62), (x, y - 0.3))
    _draw_box(panel, x, y, name, color)
    _draw_arrow(panel, (x, y + 0.3), (x, y + 0.42))
    _draw_box(panel, x, y + 0.7, "add, norm", "#dddddd")
    panel.plot((x, x + SIDE, x + SIDE), (y - 0.5, y - 0.5, y + 0.7), color="gray", lw=0.8, ls="--")
    _draw_arrow(panel, (x + SIDE, y + 0.7), (x + 1.5, y + 0.7))


def _draw_box(panel: Axes, x: float, y: float, text: str, color: str) -> None:
    panel.add_patch(FancyBboxPatch((x - 1.4, y - 0.18), 2.8, 0.36, boxstyle="round,pad=0.1", fc=color, ec="none"))
    panel.text(x, y, text, color=ink(color), ha="center", va="center")


def _draw_arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "gray", "shrinkA": 0, "shrinkB": 0})
