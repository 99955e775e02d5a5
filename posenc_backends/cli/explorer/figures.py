"""Figures of an encoding for the browser, each with a sentence that gives its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from posenc_core.analysis.curves import bounds_by_distance, products
from posenc_core.analysis.pairs import describe_scaling, pairs_of
from posenc_core.analysis.precision import ARITHMETICS, BOUNDS, loss
from posenc_core.encodings import PositionScoring, QueryEncoding, RotaryEncoding
from posenc_core.encodings.remapping import RemappedRotary

from .style import BLUE, COLORS, GRAY, ORANGE, evenly_spaced, heat_map, line, new_figure, text
from .view import View

AXES = ("time", "height", "width")
FAR = 2**20  # the last position of factors of queries
MOST_COLUMNS = 256  # of a map; more would only be slow


@dataclass(frozen=True)
class Picture:
    """A figure and a description of it in words."""

    figure: go.Figure
    words: str


def table(view: View) -> Picture | None:
    """Draw the table as a heat map."""
    values = view.table()
    if values is None:
        return None
    step = -(-values.shape[1] // MOST_COLUMNS)
    shown = np.arange(0, values.shape[1], step)
    words = (
        f"{len(values):,} positions × {values.shape[1]} columns, from {text(values.min())} to {text(values.max())}."
        + (f" One column of {step} is drawn." if step > 1 else "")
    )
    row = "patch" if view.is_image else "position"
    return Picture(heat_map(values[:, shown], "column", row, x=shown), words)


def scores(view: View) -> Picture | None:
    """Draw the scores of all queries and keys."""
    if isinstance(view.encoding, QueryEncoding):
        return None
    tokens = view.sample()
    values = view.scores(tokens, tokens)
    first, last = tokens[0], tokens[-1]
    back, ahead = text(values[-1, 0]), text(values[0, -1])
    what = f"Head {view.head}: " if view.has_heads else ""
    words = f"{what}{back} from query {last} to key {first}, "
    words += (
        "and keys after their query are hidden." if ahead == "nan" else f"{ahead} from query {first} to key {last}."
    )
    if len(tokens) < view.length:
        words += f" One position of {tokens[1]} is drawn."
    return Picture(heat_map(values, "key", "query", x=tokens, y=tokens, is_square=True), words)


def patches(view: View) -> Picture | None:
    """Draw the scores of one patch of an image with all patches, as an image."""
    if not view.is_image:
        return None
    height, width = view.shape
    others = view.length - height * width  # a class token before the patches
    cell = max(view.cell - others, 0)
    values = view.scores(np.array([cell + others]), np.arange(others, view.length))[0]
    words = f"Patch {cell} is at row {cell // width}, column {cell % width}: {text(values[cell])} with itself, "
    words += f"from {text(values.min())} to {text(values.max())} with all."
    figure = heat_map(values.reshape(height, width), "column", "row", is_square=True)
    line(figure, [cell % width], [cell // width], f"patch {cell}", ORANGE, mode="markers")
    return Picture(figure.update_layout(showlegend=False), words)


def columns(view: View) -> Picture | None:
    """Draw four columns of the table as curves."""
    values = view.table()
    if values is None or view.is_image:
        return None
    figure, shown = new_figure("position", "value"), evenly_spaced(values.shape[1])
    for column, color in zip(shown, COLORS, strict=False):
        line(figure, np.arange(len(values)), values[:, column], f"column {column}", color)
    last = ", ".join(f"{text(values[-1, column])} in column {column}" for column in shown)
    return Picture(figure, f"At position {len(values) - 1}: {last}.")


def wavelengths(view: View) -> Picture | None:
    """Draw the wavelength of each pair, before and after scaling; by axis where there are several."""
    encoding = view.encoding
    if isinstance(encoding, RotaryEncoding) and encoding.num_axes > 1 and not encoding.computes_rows:
        return _wavelengths_by_axis(encoding)
    rotary = view.rotary
    if rotary is None:
        return None
    pairs, figure = pairs_of(rotary), new_figure("pair", "wavelength in positions", y_log=True)
    wavelengths_by_pair = [(pair.index, pair.wavelength) for pair in pairs if pair.wavelength is not None]
    if rotary.scaling is not None:
        plain = [pair.plain_wavelength for pair in pairs]
        line(figure, np.arange(len(plain)), plain, "unscaled", GRAY, dash="dot")
    index, values = zip(*wavelengths_by_pair, strict=True)
    line(figure, index, values, "scaled" if rotary.scaling else "wavelength", BLUE, mode="lines+markers")
    chosen = pairs[view.pair].wavelength
    if chosen:
        line(figure, [view.pair], [chosen], f"pair {view.pair}", ORANGE, mode="markers")
    words = f"Wavelengths from {text(min(values))} to {text(max(values))} positions; pair {view.pair}: "
    words += f"{text(chosen)}." if chosen else "does not rotate."
    return Picture(figure, words + (f" The scaling: {describe_scaling(rotary, pairs)}." if rotary.scaling else ""))


def _wavelengths_by_axis(encoding: RotaryEncoding) -> Picture:
    lengths, figure, words = 2 * np.pi / encoding.frequencies(), new_figure("pair", "wavelength", y_log=True), []
    names = AXES[-encoding.num_axes :] if encoding.num_axes <= len(AXES) else tuple(map(str, range(encoding.num_axes)))
    for axis, color in zip(range(encoding.num_axes), (*COLORS, GRAY), strict=False):
        pairs = [pair for pair, each in enumerate(encoding.axes) if each == axis]
        line(figure, pairs, lengths[pairs], names[axis], color, mode="markers")
        words += [f"{names[axis]}: from {text(lengths[pairs].min())} to {text(lengths[pairs].max())}"] if pairs else []
    return Picture(figure, f"Wavelengths in positions, {'; '.join(words)}.")


def dot_products(view: View) -> Picture | None:
    """Draw the dot product of each row with the middle row."""
    table = view.table()
    if table is None or view.is_image:
        return None
    values, figure = products(table), new_figure("position", "dot product")
    middle = len(values) // 2
    line(figure, np.arange(len(values)), values, f"with row {middle}", BLUE)
    return Picture(figure, f"Row {middle} with itself: {text(values[middle])}; with row 0: {text(values[0])}.")


def decay(view: View) -> Picture | None:
    """Draw scores by distance."""
    if view.is_image:
        return None
    if isinstance(view.encoding, PositionScoring):
        return _biases(view)
    encoding: Any = view.encoding
    if encoding.layer_name != "RotaryEmbedding" or encoding.needs_attention or encoding.mixes_rows:
        return None
    by_distance = view.scores(np.arange(view.length), np.zeros(1, np.int64))[:, 0]
    figure, distances, far = new_figure("distance", "score"), np.arange(view.length), view.length - 1
    words = f"A query and a key of ones: {text(by_distance[0])} at distance 0, {text(by_distance[far])} at {far}."
    if encoding.widening == 1:
        bounds = bounds_by_distance(encoding, view.length)
        line(figure, distances, bounds, "bound ÷ bound at 0", GRAY, dash="dot")
        words += f" The bound of the paper falls there to {text(bounds[far])} of its value at 0."
    line(figure, distances, by_distance, "score of ones", BLUE)
    return Picture(figure, words)


def _biases(view: View) -> Picture:
    """Draw what the last query gets for the keys before it."""
    far, figure = view.length - 1, new_figure("distance", "bias")
    by_head = view.biases(np.array([far]), np.arange(far, -1, -1))[:, 0]
    for head, color in zip(evenly_spaced(len(by_head)), COLORS, strict=False):
        line(figure, np.arange(view.length), by_head[head], f"head {head}", color)
    chosen = by_head[view.head]
    return Picture(
        figure, f"Query {far}, head {view.head}: {text(chosen[0] + 0.0)} at distance 0, {text(chosen[far])} at {far}."
    )


def distances(view: View) -> Picture | None:
    """Draw the distances by which the keys of the last query are rotated."""
    if not isinstance(view.encoding, RemappedRotary):
        return None
    far, figure = view.length - 1, new_figure("distance", "distance in the rotation")
    remapped = view.encoding.distances([far], np.arange(far, -1, -1))[0]
    line(figure, np.arange(view.length), np.arange(view.length), "kept", GRAY, dash="dot")
    line(figure, np.arange(view.length), remapped, f"of query {far}", BLUE)
    kept = int(np.argmin([*(remapped == np.arange(view.length)), False]))
    words = f"Query {far}: distances below {kept} are kept; at {far} it is {text(remapped[far])}"
    return Picture(figure, f"{words}, the largest is {text(remapped.max())}.")


def factors(view: View) -> Picture | None:
    """Draw the factors of queries at positions up to 2**20."""
    if not isinstance(view.encoding, QueryEncoding):
        return None
    positions = np.unique(np.geomspace(1, FAR, 500).round().astype(np.int64))
    (column,) = view.encoding.rows(positions).values()
    is_learned = bool(view.encoding.parameters())
    figure = new_figure("position", "ln(position + 1)" if is_learned else "factor", x_log=True)
    line(figure, positions, column[:, 0], "logarithm" if is_learned else "factor", BLUE)
    words = f"{text(column[0, 0])} at position 1, {text(column[-1, 0])} at {FAR:,}."
    if is_learned:
        words += " Each head multiplies it by its slope and adds its intercept: 0 and 1 before training, a factor of 1."
    return Picture(figure, words)


def slopes(view: View) -> Picture | None:
    """Draw the slope of each head."""
    values = view.encoding.constants(1).get("slopes")
    if values is None:
        return None
    figure = new_figure("head", "slope", y_log=True)
    line(figure, np.arange(len(values)), values, "slope", BLUE, mode="lines+markers")
    words = f"{len(values)} slopes from {text(values.max())} to {text(values.min())}"
    return Picture(figure, f"{words}; head {view.head}: {text(values[view.head])}.")


def rotation(view: View) -> Picture | None:
    """Draw one pair at a position and at all positions before."""
    rotary = view.rotary
    if rotary is None:
        return None
    cos, sin = (table[:, view.pair].astype(float) for table in rotary.cos_sin(np.arange(view.position + 1)))
    radius, figure = rotary.attention_factor, new_figure("first channel", "second channel")
    axis = {"range": [-1.2 * radius, 1.2 * radius], "constrain": "domain", "nticks": 5}
    figure.update_xaxes(**axis).update_yaxes(**axis, scaleanchor="x")
    circle = {"x0": -radius, "y0": -radius, "x1": radius, "y1": radius, "line": {"color": GRAY, "width": 1}}
    figure.add_shape(type="circle", layer="below", **circle)
    line(figure, cos, sin, "before", BLUE, mode="markers")
    line(figure, [0, cos[-1]], [0, sin[-1]], f"position {view.position}", ORANGE, mode="lines+markers")
    figure.update_layout(showlegend=False)
    pair = pairs_of(rotary, longest=view.position or None)[view.pair]
    turns = f"{text(pair.turns_in_longest or 0)} turns"
    words = (
        f"Position {view.position}: pair {view.pair} has made {turns}; (1, 0) is now ({cos[-1]:.3f}, {sin[-1]:.3f})."
    )
    return Picture(figure, words)


def errors(view: View) -> Picture | None:
    """Draw the error of tables computed in float32 and bfloat16."""
    rotary = view.rotary
    if rotary is None:
        return None
    rotary, bound, words = replace(rotary, precision="exact"), BOUNDS[0], []
    figure = new_figure("position", "largest error so far", x_log=True, y_log=True)
    for arithmetic, color in zip(ARITHMETICS, COLORS, strict=False):
        lost = loss(rotary, arithmetic=arithmetic, bounds=(bound,))
        off = [(position, error) for position, error in lost.growing if error > 0]
        line(figure, [position for position, _ in off], [error for _, error in off], arithmetic, color)
        first = lost.first_off[0][1]
        words.append(
            f"{arithmetic}: " + (f"from position {first:,}" if first is not None else f"never up to {lost.searched:,}")
        )
    figure.add_hline(y=bound, line={"color": GRAY, "width": 1, "dash": "dot"})
    return Picture(figure, f"Off by {bound:g} or more, {'; '.join(words)}.")


PICTURES: dict[str, tuple[str, Callable[[View], Picture | None]]] = {
    "table": ("Table", table),
    "scores": ("Scores", scores),
    "patches": ("One patch and all others", patches),
    "columns": ("Columns", columns),
    "wavelengths": ("Wavelengths", wavelengths),
    "rotation": ("Rotation of one pair", rotation),
    "dot-products": ("Dot product with the middle row", dot_products),
    "decay": ("Scores by distance", decay),
    "distances": ("Remapped distances", distances),
    "factors": ("Factors of queries", factors),
    "slopes": ("Slopes", slopes),
    "errors": ("Computed in float32 and bfloat16", errors),
}


def draw_all(view: View) -> dict[str, Picture | None]:
    """Return all pictures of a view, by name; None where the encoding has no such picture."""
    return {name: draw(view) for name, (_, draw) in PICTURES.items()}
