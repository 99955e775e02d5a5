"""Figures: of an encoding, of the RoPE that a config describes, and of attention weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_floating, check_integer, check_items, check_rank, check_type
from .._requirement import requirement
from ..encodings import Additive, Encoding, PositionScoring, QueryEncoding
from ..encodings.remapping import RemappedRotary
from .curves import MOST_POSITIONS, products, rows
from .explain import Layers
from .extension import Plan
from .pairs import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("posenc.mplstyle")
# Its colours, which colour-blind readers can tell apart: Okabe and Ito 2008, "Color Universal Design".
BLUE, ORANGE, GREEN, PURPLE, GRAY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
BELOW: dict[str, Any] = {"xytext": (4, -14)}
ABOVE: dict[str, Any] = {"xytext": (-4, 6), "ha": "right"}
MOST_IN_MAP = 512  # rows and columns of a map of distances
LONG = 40  # characters of a question whose panels are too wide to stand side by side
MARKS = {"time": ("o", GREEN), "height": ("s", ORANGE), "width": ("^", PURPLE)}


Drawing = TypeVar("Drawing", bound=Callable[..., Any])


def _in_our_style(draw: Drawing) -> Drawing:
    """Let a function draw in the style of `posenc.mplstyle`."""

    @wraps(draw)
    def drawn(*args: Any, **options: Any) -> Any:
        try:
            from matplotlib import style
        except ModuleNotFoundError as error:
            install = requirement("plots")
            raise ImportError(f'`matplotlib` is not installed; run `pip install "{install}"`.') from error
        with style.context(STYLE):
            return draw(*args, **options)

    return cast("Drawing", drawn)


@_in_our_style
def plot(encoding: Encoding, *, length: int = 60) -> Figure:
    """Draw the first `length` positions of an encoding.

    A table is drawn as a heat map, columns as curves, rows as points, and as the dot products with the middle row.
    Factors of queries are drawn as a curve, for the first positions and for positions up to 2**20; of
    `LearnedQueryScale`, the logarithm that each head multiplies. Remapped positions are drawn as distances.

    Args:
        encoding: an additive encoding with a fixed table, a rotary encoding or `PoPE` (what is learned, as `cos_sin`
            has it), one of remapped positions, a factor of queries, or a bias by position that learns nothing.
        length: number of positions, at most as many as the encoding has. For an encoding of several axes: about as many
            cells of a square or cube, row by row. Coordinates of Fourier features, and those in turns, go from -1 to 1.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        TypeError: if the encoding has no fixed table.
        ValueError: if `length` is not from 1 to 2**20.
        ImportError: if matplotlib is not installed.
    """
    length = check_integer("length", length, maximum=MOST_POSITIONS)
    check_type("encoding", encoding, Encoding, "an encoding")
    if isinstance(encoding, Additive):
        length = min(length, encoding.limit)
    is_low = isinstance(encoding, QueryEncoding | RemappedRotary)
    figure = _figure(11, 4 if is_low else 8)
    figure.suptitle(repr(encoding))
    if is_low:
        draw: Any = _plot_factors if isinstance(encoding, QueryEncoding) else _plot_distances
        draw(figure.subplots(1, 2), encoding, length)
        return figure
    panels = figure.subplots(2, 2).ravel()
    if isinstance(encoding, PositionScoring) and not encoding.parameters():
        _plot_bias(panels, encoding, length)
    else:
        _plot_table(panels, rows(encoding, length))
        if isinstance(encoding, Additive) and encoding.num_axes == 2:
            _plot_square(panels[3], rows(encoding, length))
    return figure


@_in_our_style
def plot_explanation(layers: Sequence[Layers], *, title: str = "") -> Figure:
    """Draw the RoPE that a config describes, a column for each layer type.

    The upper panel shows the wavelength of each pair, the lower one the errors of tables computed in low precision.

    Args:
        layers: from `posenc_core.analysis.explain.explain`.
        title: the title of the figure.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        TypeError: if `layers` are not what `explain` returns, or `title` is not a string.
        ImportError: if matplotlib is not installed.
    """
    check_items("layers", layers, Layers, "layers, from `explain`")
    check_type("title", title, str, "a string")
    with_rope = [one for one in layers if one.rotary_dim]
    without = ", ".join(one.layer_type or "all layers" for one in layers if not one.rotary_dim)
    figure = _figure(1 + 5.5 * max(len(with_rope), 1), 8 if with_rope else 1)
    figure.suptitle(title + (f"\nwithout RoPE: {without}" if without else ""), parse_math=False)
    if with_rope:
        panels = figure.subplots(2, len(with_rope), squeeze=False, sharey="row")
        panels[0, 0].set_ylabel("positions per turn")
        panels[1, 0].set_ylabel("largest error of cos and sin so far")
        for (upper, lower), one in zip(panels.T, with_rope, strict=True):
            _plot_wavelengths(upper, one)
            _plot_losses(lower, one)
    return figure


@_in_our_style
def plot_extension(plan: Plan, *, name: str | None = None, title: str = "") -> Figure:
    """Draw a plan for a longer context: the wavelengths of the pairs, and the angles that training has seen.

    The lower panel shows the turns of each pair within the wanted length, before and after. The shaded area is what
    training has seen: all angles of pairs that made a turn, and of the others an arc.

    Args:
        plan: from `posenc_core.analysis.plan_extension`.
        name: one of its extensions; by default the recommended one.
        title: the title of the figure.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        TypeError: if `plan` is not what `plan_extension` returns, or `title` is not a string.
        ValueError: if the name is unknown.
        ImportError: if matplotlib is not installed.
    """
    check_type("plan", plan, Plan, "a plan, from `plan_extension`")
    check_type("title", title, str, "a string")
    extension = plan.extension(name)
    figure = _figure(8, 8)
    figure.suptitle(title, parse_math=False)
    upper, lower = figure.subplots(2, 1, sharex=True)
    longest = max(plan.to, plan.trained_length)
    lines = [("the config", plan.rotary, "--", GRAY), (extension.name, extension.rotary, "-", BLUE)]
    for label, rotary, line, color in lines[: 1 if extension.rotary == plan.rotary else 2]:
        frequencies = rotary.frequencies(longest)[: rotary.pairs]
        upper.plot(math.tau / frequencies, line, color=color, label=label)
        lower.plot(plan.to * frequencies / math.tau, line, color=color, label=f"{label}, at {plan.to:,}")
    for length, which in ((plan.trained_length, "trained"), (plan.to, "wanted")):
        upper.axhline(length, color="black", linewidth=0.8, linestyle=":")
        upper.annotate(f"{length:,} {which}", (0.01, length), xycoords=("axes fraction", "data"), va="bottom")
    upper.set(ylabel="positions per turn", yscale="log")
    seen = plan.trained_length * plan.rotary.frequencies(plan.trained_length)[: plan.rotary.pairs] / math.tau
    lower.set(xlabel="pair", ylabel="turns", yscale="log")
    low, high = lower.get_ylim()
    lower.fill_between(range(len(seen)), low, np.where(seen < 1, seen, high), alpha=0.15, color=GREEN, label="seen")
    lower.set_ylim(low, high)
    for panel in (upper, lower):
        panel.legend(fontsize="small")
    return figure


@_in_our_style
def plot_attention(weights: npt.NDArray[np.float32], question: str, answer: str) -> Figure:
    """Draw the attention weights of each head: the answer from top to bottom, the question from left to right.

    Args:
        weights: attention weights, shape `(heads, answer, question)`.
        question, answer: one character for each column and each row.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        TypeError: if `weights` is not an array of real numbers, or a text is not a string.
        ValueError: if the shape of `weights` does not fit the characters.
        ImportError: if matplotlib is not installed.
    """
    for name, text in (("question", question), ("answer", answer)):
        check_type(name, text, str, "a string")
    check_floating("weights", weights)
    check_rank("weights", weights, minimum=3, maximum=3, axes="(heads, answer, question)")
    if weights.shape[1:] != (len(answer), len(question)):
        raise ValueError(f"`weights` must have shape (heads, {len(answer)}, {len(question)}), got {weights.shape}.")
    columns = 1 if len(weights) == 1 or len(question) > LONG else 2
    rows = -(-len(weights) // columns)
    figure = _figure(1 + columns * (0.6 + 0.14 * len(question)), (0.6 + 0.18 * len(answer)) * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(weights) :]:
        panel.remove()
    for head, panel in enumerate(panels[: len(weights)]):
        image = panel.imshow(weights[head], vmin=0, vmax=1, aspect="auto")
        panel.set_yticks(range(len(answer)), answer)
        panel.set_xticks(range(len(question)), question)
        panel.tick_params(length=0, labelbottom=True, labelsize="small")
        panel.set_title(f"head {head + 1}")
    figure.colorbar(image, ax=figure.axes, label="share of the attention", fraction=0.03)
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _plot_table(panels: Any, table: npt.NDArray[np.float32]) -> None:
    heat, curves, points, middle = panels
    _heat_map(heat, table, "column", "position")
    for column in _evenly_spaced(table.shape[1], 4):
        curves.plot(table[:, column], label=f"column {column}")
    low, high = curves.get_ylim()
    curves.set(title="columns", xlabel="position", ylabel="value", ylim=(low, high + 0.12 * (high - low)))
    curves.legend(loc="upper center", ncols=4)
    second = table[:, 1] if table.shape[1] > 1 else np.zeros(len(table))
    points.plot(table[:, 0], second, "o-", linewidth=0.5, alpha=0.6)
    for position in range(min(len(table), 12)):
        points.annotate(str(position), (table[position, 0], second[position]), (4, 4), textcoords="offset points")
    points.set_aspect("equal", adjustable="datalim")
    points.set(title="rows, in the plane of the first two columns", xlabel="column 0", ylabel="column 1")
    middle.plot(products(table))
    middle.axvline(len(table) // 2, color="gray", linewidth=0.5)
    middle.set(title=f"dot product with row {len(table) // 2}", xlabel="position", ylabel="dot product")


def _plot_square(axes: Axes, table: npt.NDArray[np.float32]) -> None:
    """Draw the dot products of the cells of a square with the middle cell."""
    side = math.isqrt(len(table))
    middle = (side + 1) * (side // 2)
    axes.clear()
    _heat_map(axes, (table @ table[middle]).reshape(side, side), "second axis", "first axis")
    axes.set_title(f"dot product with row {middle}, in the middle")


def _plot_bias(panels: Any, encoding: PositionScoring, length: int) -> None:
    heat, curves, slopes, middle = panels
    bias = encoding.bias(np.arange(length), np.arange(length))
    _heat_map(heat, bias[0], "key", "query")
    heat.set_title("bias of head 0")
    for head in _evenly_spaced(encoding.num_heads, 4):
        curves.plot(bias[head, -1, ::-1], label=f"head {head}")
        middle.plot(bias[head, length // 2], label=f"head {head}")
    curves.set(title="bias by distance", xlabel="distance", ylabel="bias")
    curves.legend(loc="lower left")
    for name, numbers in encoding.constants(length).items():  # ALiBi's slopes, Sandwich's factors
        if numbers.shape == (encoding.num_heads,):
            slopes.semilogy(numbers, "o-")
            slopes.set(title=name, xlabel="head", ylabel=name.removesuffix("s"))
    slopes.set_visible(slopes.has_data())
    middle.set(title=f"bias of query {length // 2}", xlabel="key", ylabel="bias")


def _plot_factors(panels: Any, encoding: QueryEncoding, length: int) -> None:
    near, far = panels
    name = "ln(position + 1), times slope plus intercept" if encoding.parameters() else "factor of queries"
    near.plot(*encoding.rows(np.arange(length)).values())
    near.set(title=f"the first {length:,} positions", xlabel="position", ylabel=name)
    positions = np.unique(np.geomspace(1, MOST_POSITIONS - 1, 2000).round().astype(np.int64))
    far.semilogx(positions, *encoding.rows(positions).values())
    if hasattr(encoding, "length"):
        far.axvline(encoding.length, color="gray", linewidth=0.5)
    far.set(title=f"to {MOST_POSITIONS:,} positions", xlabel="position", ylabel=name)


def _plot_distances(panels: Any, encoding: RemappedRotary, length: int) -> None:
    heat, curve = panels
    tokens = np.arange(0, length, -(-length // MOST_IN_MAP))
    _heat_map(heat, encoding.distances(tokens, tokens), "key", "query", (0, length, length, 0))
    heat.set_title("distance in the rotation")
    distances = np.arange(length)
    curve.plot(distances, distances, "--", color=GRAY, label="kept")
    curve.plot(distances, encoding.distances([length - 1], distances[::-1])[0], label=f"of query {length - 1}")
    curve.set(title=f"distances of query {length - 1}", xlabel="distance", ylabel="distance in the rotation")
    curve.legend(loc="upper left")


def _plot_wavelengths(axes: Axes, layers: Layers) -> None:
    name = layers.layer_type or "all layers"
    base = "" if layers.base is None else f", base {layers.base:,.10g}"
    title = f"{name}: {layers.rotary_dim} of {layers.head_dim} channels{base}"
    axes.set_title(title, parse_math=False)
    axes.set(xlabel="pair", yscale="log", ymargin=0.12)
    pairs = layers.regimes[0].pairs
    is_scaled = any(pair.slowed_by not in (1, None) for regime in layers.regimes for pair in regime.pairs)
    if is_scaled:
        plain = [pair.plain_wavelength for pair in pairs if pair.frequency]
        axes.plot(range(len(plain)), plain, "--", color=GRAY, zorder=3, label="by the base")
    for regime, color in zip(layers.regimes, (BLUE, ORANGE), strict=False):
        label = regime.lengths if len(layers.regimes) > 1 else "scaled" if is_scaled else "by the base"
        axes.plot(*_wavelengths(regime.pairs), color=color, label=label)
    for axis, (mark, color) in MARKS.items():
        if on_axis := [pair for pair in pairs if pair.axis == axis]:
            axes.plot(*_wavelengths(on_axis), mark, color=color, markersize=4, label=f"rotated by {axis}")
    unrotated = [pair.index for pair in pairs if not pair.frequency]
    if unrotated:
        axes.axvspan(unrotated[0] - 0.5, unrotated[-1] + 0.5, color="#EEEEEE", label="not rotated")
    for length, which in (
        (layers.original_length, "originally"),
        (layers.chunk_size, "the largest distance"),
        (layers.longest_length, "at most"),
    ):
        if length:
            axes.axhline(length, color="black", linewidth=0.8, linestyle=":")
            axes.annotate(f"{length:,} {which}", (0.01, length), xycoords=("axes fraction", "data"), va="bottom")
    axes.legend(loc="lower right", fontsize="small")


def _wavelengths(pairs: Sequence[Pair]) -> tuple[list[int], list[float]]:
    """Return the indices and the wavelengths of the pairs that are rotated."""
    rotated = [(pair.index, pair.wavelength) for pair in pairs if pair.wavelength is not None]
    return [index for index, _ in rotated], [wavelength for _, wavelength in rotated]


def _plot_losses(axes: Axes, layers: Layers) -> None:
    axes.set(xlabel="position", xscale="log", yscale="log")
    for regime, line, place in zip(layers.regimes, ("-", "--"), (BELOW, ABOVE), strict=False):
        for loss, color in zip(regime.losses, (BLUE, ORANGE), strict=True):
            suffix = f", {regime.lengths}" if len(layers.regimes) > 1 else ""
            axes.plot(*zip(*loss.growing, strict=True), line, color=color, label=f"{loss.arithmetic}{suffix}")
            bound, first = loss.first_off[0]
            axes.axhline(bound, color=GRAY, linewidth=0.8)
            if first is not None:
                axes.plot(first, bound, "o", color=color)
                axes.annotate(f"{first:,}", (first, bound), color=color, textcoords="offset points", **place)
    axes.legend(loc="lower right", fontsize="small", title="computed in", title_fontsize="small")


def _heat_map(
    axes: Axes,
    values: npt.NDArray[np.floating[Any]],
    across: str,
    down: str,
    extent: tuple[float, float, float, float] | None = None,
) -> None:
    image = axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent)
    axes.set(title="table", xlabel=across, ylabel=down)
    axes.figure.colorbar(image, ax=axes)


def _evenly_spaced(count: int, most: int) -> range:
    """Return at most `most` numbers below `count`, evenly spaced from 0 on."""
    return range(0, count, -(-count // most))
