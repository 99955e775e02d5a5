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

from .language import join_sentences, number, translate, translate_phrases
from .style import BLUE, COLORS, GRAY, ORANGE, evenly_spaced, heat_map, line, new_figure
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
    size = "{rows} positions × {columns} columns, from {least} to {most}."
    words = translate(size, rows=f"{len(values):,}", columns=values.shape[1], least=values.min(), most=values.max())
    words = join_sentences(words, translate("One column of {step} is drawn.", step=step) if step > 1 else "")
    row = "patch" if view.is_image else "position"
    return Picture(heat_map(values[:, shown], "column", row, x=shown), words)


def scores(view: View) -> Picture | None:
    """Draw the scores of all queries and keys."""
    if isinstance(view.encoding, QueryEncoding):
        return None
    tokens = view.sample()
    values = view.scores(tokens, tokens)
    first, last = tokens[0], tokens[-1]
    back, ahead = values[-1, 0], values[0, -1]
    hidden = "{back} from query {last} to key {first}, and keys after their query are hidden."
    seen = "{back} from query {last} to key {first}, {ahead} from query {first} to key {last}."
    words = translate("Head {head}: ", head=view.head) if view.has_heads else ""
    words += translate(hidden if np.isnan(ahead) else seen, back=back, ahead=ahead, first=first, last=last)
    few = translate("One position of {step} is drawn.", step=tokens[1]) if len(tokens) < view.length else ""
    return Picture(heat_map(values, "key", "query", x=tokens, y=tokens, is_square=True), join_sentences(words, few))


def patches(view: View) -> Picture | None:
    """Draw the scores of one patch of an image with all patches, as an image."""
    if not view.is_image:
        return None
    height, width = view.shape
    others = view.length - height * width  # a class token before the patches
    cell = max(view.cell - others, 0)
    values = view.scores(np.array([cell + others]), np.arange(others, view.length))[0]
    words, (row, column) = "Patch {cell} is at row {row}, column {column}: ", divmod(cell, width)
    words += "{itself} with itself, from {least} to {most} with all."
    words = translate(
        words, cell=cell, row=row, column=column, itself=values[cell], least=values.min(), most=values.max()
    )
    figure = heat_map(values.reshape(height, width), "column", "row", is_square=True)
    line(figure, [column], [row], translate("patch {cell}", cell=cell), ORANGE, mode="markers")
    return Picture(figure.update_layout(showlegend=False), words)


def columns(view: View) -> Picture | None:
    """Draw four columns of the table as curves."""
    values = view.table()
    if values is None or view.is_image:
        return None
    figure, shown = new_figure("position", "value"), evenly_spaced(values.shape[1])
    for column, color in zip(shown, COLORS, strict=False):
        line(figure, np.arange(len(values)), values[:, column], translate("column {column}", column=column), color)
    each = [translate("{value} in column {column}", value=values[-1, column], column=column) for column in shown]
    return Picture(
        figure, translate("At position {last}: {values}.", last=len(values) - 1, values=translate(", ").join(each))
    )


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
        line(figure, np.arange(len(plain)), plain, translate("unscaled"), GRAY, dash="dot")
    index, values = zip(*wavelengths_by_pair, strict=True)
    line(figure, index, values, translate("scaled" if rotary.scaling else "wavelength"), BLUE, mode="lines+markers")
    chosen = pairs[view.pair].wavelength
    if chosen:
        line(figure, [view.pair], [chosen], translate("pair {pair}", pair=view.pair), ORANGE, mode="markers")
    words, still = "Wavelengths from {least} to {most} positions; pair {pair}: {chosen}.", translate("does not rotate")
    words = translate(words, least=min(values), most=max(values), pair=view.pair, chosen=chosen or still)
    scaling = translate_phrases(describe_scaling(rotary, pairs)) if rotary.scaling else ""
    return Picture(
        figure, join_sentences(words, translate("The scaling: {scaling}.", scaling=scaling) if scaling else "")
    )


def _wavelengths_by_axis(encoding: RotaryEncoding) -> Picture:
    lengths, figure, words = 2 * np.pi / encoding.frequencies(), new_figure("pair", "wavelength", y_log=True), []
    names = AXES[-encoding.num_axes :] if encoding.num_axes <= len(AXES) else tuple(map(str, range(encoding.num_axes)))
    for axis, color in zip(range(encoding.num_axes), (*COLORS, GRAY), strict=False):
        pairs = [pair for pair, each in enumerate(encoding.axes) if each == axis]
        line(figure, pairs, lengths[pairs], translate(names[axis]), color, mode="markers")
        if pairs:
            of, least, most = translate(names[axis]), lengths[pairs].min(), lengths[pairs].max()
            words.append(translate("{axis}: from {least} to {most}", axis=of, least=least, most=most))
    return Picture(figure, translate("Wavelengths in positions, {axes}.", axes=translate("; ").join(words)))


def dot_products(view: View) -> Picture | None:
    """Draw the dot product of each row with the middle row."""
    table = view.table()
    if table is None or view.is_image:
        return None
    values, figure = products(table), new_figure("position", "dot product")
    middle = len(values) // 2
    line(figure, np.arange(len(values)), values, translate("with row {row}", row=middle), BLUE)
    words = "Row {row} with itself: {itself}; with row 0: {first}."
    return Picture(figure, translate(words, row=middle, itself=values[middle], first=values[0]))


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
    words = "A query and a key of ones: {near} at distance 0, {last} at {far}."
    words = translate(words, near=by_distance[0], last=by_distance[far], far=far)
    if encoding.widening == 1:
        bounds = bounds_by_distance(encoding, view.length)
        line(figure, distances, bounds, translate("bound ÷ bound at 0"), GRAY, dash="dot")
        bound = translate("The bound of the paper falls there to {bound} of its value at 0.", bound=bounds[far])
        words = join_sentences(words, bound)
    line(figure, distances, by_distance, translate("score of ones"), BLUE)
    return Picture(figure, words)


def _biases(view: View) -> Picture:
    """Draw what the last query gets for the keys before it."""
    far, figure = view.length - 1, new_figure("distance", "bias")
    by_head = view.biases(np.array([far]), np.arange(far, -1, -1))[:, 0]
    for head, color in zip(evenly_spaced(len(by_head)), COLORS, strict=False):
        line(figure, np.arange(view.length), by_head[head], translate("head {head}", head=head), color)
    chosen = by_head[view.head]
    words = "Query {far}, head {head}: {near} at distance 0, {last} at {far}."
    return Picture(figure, translate(words, far=far, head=view.head, near=chosen[0] + 0.0, last=chosen[far]))


def distances(view: View) -> Picture | None:
    """Draw the distances by which the keys of the last query are rotated."""
    if not isinstance(view.encoding, RemappedRotary):
        return None
    far, figure = view.length - 1, new_figure("distance", "distance in the rotation")
    remapped = view.encoding.distances([far], np.arange(far, -1, -1))[0]
    line(figure, np.arange(view.length), np.arange(view.length), translate("kept"), GRAY, dash="dot")
    line(figure, np.arange(view.length), remapped, translate("of query {far}", far=far), BLUE)
    kept = int(np.argmin([*(remapped == np.arange(view.length)), False]))
    words = "Query {far}: distances below {kept} are kept; at {far} it is {last}, the largest is {most}."
    last, most = number(remapped[far]), number(remapped.max())  # which may be integers
    return Picture(figure, translate(words, far=far, kept=kept, last=last, most=most))


def factors(view: View) -> Picture | None:
    """Draw the factors of queries at positions up to 2**20."""
    if not isinstance(view.encoding, QueryEncoding):
        return None
    positions = np.unique(np.geomspace(1, FAR, 500).round().astype(np.int64))
    (column,) = view.encoding.rows(positions).values()
    is_learned = bool(view.encoding.parameters())
    figure = new_figure("position", "ln(position + 1)" if is_learned else "factor", x_log=True)
    line(figure, positions, column[:, 0], translate("logarithm" if is_learned else "factor"), BLUE)
    at = "{first} at position 1, {last} at {far}."
    learned = "Each head multiplies it by its slope and adds its intercept: 0 and 1 before training, a factor of 1."
    words = translate(at, first=column[0, 0], last=column[-1, 0], far=f"{FAR:,}")
    return Picture(figure, join_sentences(words, translate(learned) if is_learned else ""))


def slopes(view: View) -> Picture | None:
    """Draw the slope of each head."""
    values = view.encoding.constants(1).get("slopes")
    if values is None:
        return None
    figure = new_figure("head", "slope", y_log=True)
    line(figure, np.arange(len(values)), values, translate("slope"), BLUE, mode="lines+markers")
    words, most, least = "{count} slopes from {most} to {least}; head {head}: {slope}.", values.max(), values.min()
    words = translate(words, count=len(values), most=most, least=least, head=view.head, slope=values[view.head])
    return Picture(figure, words)


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
    line(figure, cos, sin, translate("before"), BLUE, mode="markers")
    line(
        figure,
        [0, cos[-1]],
        [0, sin[-1]],
        translate("position {position}", position=view.position),
        ORANGE,
        mode="lines+markers",
    )
    figure.update_layout(showlegend=False)
    pair = pairs_of(rotary, longest=view.position or None)[view.pair]
    words, at = "Position {position}: pair {pair} has made {turns} turns; (1, 0) is now ({x}, {y}).", view.position
    turns, x, y = pair.turns_in_longest or 0, f"{cos[-1]:.3f}", f"{sin[-1]:.3f}"
    return Picture(figure, translate(words, position=at, pair=view.pair, turns=turns, x=x, y=y))


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
        from_when = (
            "{arithmetic}: from position {position}" if first is not None else "{arithmetic}: never up to {position}"
        )
        position = lost.searched if first is None else first
        words.append(translate(from_when, arithmetic=arithmetic, position=f"{position:,}"))
    figure.add_hline(y=bound, line={"color": GRAY, "width": 1, "dash": "dot"})
    return Picture(
        figure, translate("Off by {bound} or more, {places}.", bound=f"{bound:g}", places=translate("; ").join(words))
    )


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
