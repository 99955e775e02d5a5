"""The parts of the Transformer, and what goes from one to the next."""

from drawn import COLORS, ink
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

LEFT, RIGHT = 1.6, 6.4
STEP = 1.75  # from one sublayer to the next
BLUE, ORANGE, GREEN, PURPLE = COLORS[:4]
FRAME = {"fc": "none", "ec": "gray", "lw": 0.6}
ENCODER = (("feed-forward", GREEN), ("self-attention", BLUE))
DECODER = (("feed-forward", GREEN), ("cross-attention", ORANGE), ("causal self-attention", BLUE))


def parts(figure: Figure) -> None:
    """The model of Vaswani et al. 2017. Dashed: the residual path, by which the input of a sublayer is added to its
    output; a layer normalization follows.

    The Transformer, read from bottom to top. Left, the encoder: the question, its embedding with positions
    added, then N times self-attention and feed-forward. Right, the decoder: the answer shifted right, its
    embedding with positions, then N times causal self-attention, cross-attention and feed-forward, then the
    product with the embedding, which gives a probability for each next token. From the top of the encoder an
    arrow goes to cross-attention.
    """
    figure.set_size_inches(7.5, 5)
    panel = figure.subplots()
    for x, question, names in ((LEFT, "question", ENCODER), (RIGHT, "answer, shifted right", DECODER)):
        panel.text(x, 0, question, ha="center", va="center")
        _draw_arrow(panel, (x, 0.25), (x, 0.65))
        _draw_box(panel, x, 1, "embedding + positions", PURPLE)
        for step, (name, color) in enumerate(reversed(names)):
            _draw_sublayer(panel, x, 2 + STEP * step, name, color)
        height = STEP * len(names)
        panel.add_patch(FancyBboxPatch((x - 1.75, 1.55), 3.5, height, boxstyle="round,pad=0.05", **FRAME))
        panel.text(x + 1.95, 1.4 + height, "N ×", ha="left", va="center")
    top = 2 + STEP * len(DECODER)
    _draw_arrow(panel, (RIGHT, top - 0.65), (RIGHT, top - 0.3))
    _draw_box(panel, RIGHT, top, "× embedding, softmax", PURPLE)
    _draw_arrow(panel, (RIGHT, top + 0.3), (RIGHT, top + 0.75))
    panel.text(RIGHT, top + 1, "next token", ha="center", va="center")
    encoded, crossed = 2 + STEP * len(ENCODER), 2 + STEP
    path = (LEFT, encoded - 0.65), (LEFT, encoded - 0.1), (LEFT + 2.45, encoded - 0.1), (LEFT + 2.45, crossed)
    panel.plot(*zip(*path, strict=True), color="gray", lw=1)
    _draw_arrow(panel, (LEFT + 2.45, crossed), (RIGHT - 1.3, crossed))
    panel.text(LEFT, encoded + 0.05, "keys and values of the question", ha="center", va="bottom")
    panel.set(xlim=(-0.4, 9.2), ylim=(-0.3, top + 1.3))
    panel.axis("off")


def _draw_sublayer(panel: Axes, x: float, y: float, name: str, color: str) -> None:
    """Draw a sublayer, the sum and norm above it, and the residual path around it."""
    _draw_arrow(panel, (x, y - 0.65), (x, y - 0.3))
    _draw_box(panel, x, y, name, color)
    _draw_arrow(panel, (x, y + 0.3), (x, y + 0.5))
    _draw_box(panel, x, y + 0.75, "add, norm", "#dddddd", pad=0.15)
    panel.plot((x, x - 1.55, x - 1.55), (y - 0.5, y - 0.5, y + 0.75), color="gray", lw=0.8, ls="--")
    _draw_arrow(panel, (x - 1.55, y + 0.75), (x - 1.1, y + 0.75))


def _draw_box(panel: Axes, x: float, y: float, text: str, color: str, pad: float = 0.35) -> None:
    box = {"boxstyle": f"round,pad={pad}", "fc": color, "ec": "none"}
    panel.text(x, y, f"{text:^24}", color=ink(color), ha="center", va="center", bbox=box)


def _draw_arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "gray", "shrinkA": 0, "shrinkB": 0})
