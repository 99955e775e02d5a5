"""The parts of the Transformer, and what goes from one to the next."""

from drawn import COLORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

LEFT, RIGHT = 1.6, 6.4
BLUE, ORANGE, GREEN, PURPLE = COLORS[:4]
FRAME = {"fc": "none", "ec": "gray", "lw": 0.6}
ENCODER = (("feed-forward", GREEN), ("self-attention", BLUE))
DECODER = (("feed-forward", GREEN), ("cross-attention", ORANGE), ("causal self-attention", BLUE))


def parts(figure: Figure) -> None:
    """The Transformer, read from bottom to top. Left, the encoder: the question, its embedding with positions
    added, then N times self-attention and feed-forward. Right, the decoder: the answer shifted right, its
    embedding with positions, then N times causal self-attention, cross-attention and feed-forward, then the
    product with the embedding, which gives a probability for each next token. From the top of the encoder an
    arrow goes to cross-attention.
    """
    figure.set_size_inches(7.5, 4.2)
    panel = figure.subplots()
    for x, question, names in ((LEFT, "question", ENCODER), (RIGHT, "answer, shifted right", DECODER)):
        panel.text(x, 0, question, ha="center", va="center")
        _draw_box(panel, x, 1, "embedding + positions", PURPLE)
        top = 1 + len(names)
        for step, (name, color) in enumerate(names):
            _draw_box(panel, x, top - step, name, color)
        for y in range(top):
            _draw_arrow(panel, (x, y + 0.3), (x, y + 0.7))
        panel.add_patch(FancyBboxPatch((x - 1.65, 1.6), 3.3, top - 1.2, boxstyle="round,pad=0.05", **FRAME))
        panel.text(x + 1.9, top, "N ×", ha="left", va="center")
    _draw_box(panel, RIGHT, 5, "× embedding, softmax", PURPLE)
    _draw_arrow(panel, (RIGHT, 4.3), (RIGHT, 4.7))
    panel.text(RIGHT, 6, "next token", ha="center", va="center")
    _draw_arrow(panel, (RIGHT, 5.3), (RIGHT, 5.75))
    panel.plot((LEFT, LEFT, LEFT + 2.55, LEFT + 2.55), (3.3, 3.8, 3.8, 3), color="gray", lw=1)
    _draw_arrow(panel, (LEFT + 2.55, 3), (RIGHT - 1.55, 3))
    panel.text(LEFT, 3.95, "keys and values of the question", ha="center", va="bottom", fontsize=8)
    panel.set(xlim=(-0.4, 9.2), ylim=(-0.4, 6.3))
    panel.axis("off")


def _draw_box(panel: Axes, x: float, y: float, text: str, color: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "fc": color, "ec": "none"}
    panel.text(x, y, f"{text:^24}", color="white", ha="center", va="center", bbox=box)


def _draw_arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "gray", "shrinkA": 0, "shrinkB": 0})
