"""Figures of an encoding for the browser, each with a sentence that gives its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from posenc_core.analysis.curves import bounds_by_distance, plain_rope, products, rows, scores_by_distance
from posenc_core.analysis.pairs import describe_scaling, pairs_of
from posenc_core.analysis.precision import ARITHMETICS, BOUNDS, loss
from posenc_core.encodings import Alibi, Rotary

from .links import View

# Safe for color-blind readers, on white and on black: after Okabe and Ito 2008.
BLUE, ORANGE, GREEN, PURPLE, GRAY = "#2380C4", "#D9691E", "#149A76", "#B9699A", "#808890"
COLORS = (BLUE, ORANGE, GREEN, PURPLE)


@dataclass(frozen=True)
class Picture:
    """A figure and a description of it in words."""

    figure: go.Figure
    words: str


def table(view: View) -> Picture:
    """Draw the table as a heat map; for ALiBi, the bias of one head."""
    if isinstance(view.encoding, Alibi):
        bias = view.encoding.bias(np.arange(view.length), np.arange(view.length))[view.head]
        far = view.length - 1
        back, ahead = _text(bias[far, 0]), _text(bias[0, far])
        words = f"Head {view.head}: {back} from query {far} to key 0, {ahead} from query 0 to key {far}."
        return Picture(_heat_map(bias, "key", "query"), words)
    values = rows(view.encoding, view.length)
    words = (
        f"{len(values):,} positions × {values.shape[1]} columns, from {_text(values.min())} to {_text(values.max())}."
    )
    return Picture(_heat_map(values, "column", "position"), words)


def columns(view: View) -> Picture | None:
    """Draw four columns of the table as curves."""
    if isinstance(view.encoding, Alibi):
        return None
    values, figure = rows(view.encoding, view.length), _figure("position", "value")
    shown = _evenly_spaced(values.shape[1])
    for column, color in zip(shown, COLORS, strict=False):
        _line(figure, np.arange(len(values)), values[:, column], f"column {column}", color)
    last = ", ".join(f"{_text(values[-1, column])} in column {column}" for column in shown)
    return Picture(figure, f"At position {len(values) - 1}: {last}.")


def wavelengths(view: View) -> Picture | None:
    """Draw the wavelength of each pair, before and after scaling."""
    rotary = plain_rope(view.encoding)
    if rotary is None:
        return None
    pairs, figure = pairs_of(rotary), _figure("pair", "wavelength in positions", y_log=True)
    wavelengths_by_pair = [(pair.index, pair.wavelength) for pair in pairs if pair.wavelength is not None]
    if rotary.scaling is not None:
        plain = [pair.plain_wavelength for pair in pairs]
        _line(figure, np.arange(len(plain)), plain, "unscaled", GRAY, dash="dot")
    index, values = zip(*wavelengths_by_pair, strict=True)
    _line(figure, index, values, "scaled" if rotary.scaling else "wavelength", BLUE, mode="lines+markers")
    chosen = pairs[view.pair].wavelength
    if chosen:
        _line(figure, [view.pair], [chosen], f"pair {view.pair}", ORANGE, mode="markers")
    words = f"Wavelengths from {_text(min(values))} to {_text(max(values))} positions; pair {view.pair}: "
    words += f"{_text(chosen)}." if chosen else "does not rotate."
    return Picture(figure, words + (f" The scaling: {describe_scaling(rotary, pairs)}." if rotary.scaling else ""))


def dot_products(view: View) -> Picture | None:
    """Draw the dot product of each row with the middle row."""
    if isinstance(view.encoding, Alibi):
        return None
    values, figure = products(rows(view.encoding, view.length)), _figure("position", "dot product")
    middle = len(values) // 2
    _line(figure, np.arange(len(values)), values, f"with row {middle}", BLUE)
    words = f"Row {middle} with itself: {_text(values[middle])}; with row 0: {_text(values[0])}."
    return Picture(figure, words)


def decay(view: View) -> Picture | None:
    """Draw scores by distance."""
    if isinstance(view.encoding, Alibi):
        return _biases(view.encoding, view)
    if not isinstance(view.encoding, Rotary):
        return None
    (scores,), bounds = scores_by_distance(view.encoding, view.length), bounds_by_distance(view.encoding, view.length)
    figure, distances = _figure("distance", "score"), np.arange(view.length)
    _line(figure, distances, bounds, "bound ÷ bound at 0", GRAY, dash="dot")
    _line(figure, distances, scores, "score of ones", BLUE)
    far = view.length - 1
    words = f"A query and a key of ones: {_text(scores[0])} at distance 0, {_text(scores[far])} at {far}"
    return Picture(figure, f"{words}. The bound of the paper falls there to {_text(bounds[far])} of its value at 0.")


def _biases(encoding: Alibi, view: View) -> Picture:
    scores, figure = scores_by_distance(encoding, view.length), _figure("distance", "bias")
    for head, color in zip(_evenly_spaced(encoding.num_heads), COLORS, strict=False):
        _line(figure, np.arange(view.length), scores[head], f"head {head}", color)
    far = view.length - 1
    return Picture(figure, f"Head {view.head} loses {_text(-scores[view.head, far])} at distance {far}.")


def slopes(view: View) -> Picture | None:
    """Draw the slope of each head."""
    if not isinstance(view.encoding, Alibi):
        return None
    values, figure = view.encoding.constants(1)["slopes"], _figure("head", "slope", y_log=True)
    _line(figure, np.arange(len(values)), values, "slope", BLUE, mode="lines+markers")
    words = f"{len(values)} slopes from {_text(values.max())} to {_text(values.min())}"
    return Picture(figure, f"{words}; head {view.head}: {_text(values[view.head])}.")


def rotation(view: View) -> Picture | None:
    """Draw one pair at a position and at all positions before."""
    rotary = plain_rope(view.encoding)
    if rotary is None:
        return None
    cos, sin = (table[:, view.pair].astype(float) for table in rotary.cos_sin(np.arange(view.position + 1)))
    radius, figure = rotary.attention_factor, _figure("first channel", "second channel")
    axis = {"range": [-1.2 * radius, 1.2 * radius], "constrain": "domain", "nticks": 5}
    figure.update_xaxes(**axis).update_yaxes(**axis, scaleanchor="x")
    circle = {"x0": -radius, "y0": -radius, "x1": radius, "y1": radius, "line": {"color": GRAY, "width": 1}}
    figure.add_shape(type="circle", layer="below", **circle)
    _line(figure, cos, sin, "before", BLUE, mode="markers")
    _line(figure, [0, cos[-1]], [0, sin[-1]], f"position {view.position}", ORANGE, mode="lines+markers")
    figure.update_layout(showlegend=False)
    pair = pairs_of(rotary, longest=view.position or None)[view.pair]
    turns = f"{_text(pair.turns_in_longest or 0)} turns"
    words = (
        f"Position {view.position}: pair {view.pair} has made {turns}; (1, 0) is now ({cos[-1]:.3f}, {sin[-1]:.3f})."
    )
    return Picture(figure, words)


def errors(view: View) -> Picture | None:
    """Draw the error of tables computed in float32 and bfloat16."""
    rotary = plain_rope(view.encoding)
    if rotary is None:
        return None
    rotary, bound, words = replace(rotary, precision="exact"), BOUNDS[0], []
    figure = _figure("position", "largest error so far", x_log=True, y_log=True)
    for arithmetic, color in zip(ARITHMETICS, COLORS, strict=False):
        lost = loss(rotary, arithmetic=arithmetic, bounds=(bound,))
        off = [(position, error) for position, error in lost.growing if error > 0]
        _line(figure, [position for position, _ in off], [error for _, error in off], arithmetic, color)
        first = lost.first_off[0][1]
        words.append(
            f"{arithmetic}: " + (f"from position {first:,}" if first is not None else f"never up to {lost.searched:,}")
        )
    figure.add_hline(y=bound, line={"color": GRAY, "width": 1, "dash": "dot"})
    return Picture(figure, f"Off by {bound:g} or more, {'; '.join(words)}.")


PICTURES: dict[str, tuple[str, Callable[[View], Picture | None]]] = {
    "table": ("Table", table),
    "columns": ("Columns", columns),
    "wavelengths": ("Wavelengths", wavelengths),
    "rotation": ("Rotation of one pair", rotation),
    "dot-products": ("Dot product with the middle row", dot_products),
    "decay": ("Scores by distance", decay),
    "slopes": ("Slopes", slopes),
    "errors": ("Computed in float32 and bfloat16", errors),
}


def _figure(across: str, up: str, *, x_log: bool = False, y_log: bool = False) -> go.Figure:
    axis: dict[str, Any] = {"fixedrange": True, "zeroline": False, "exponentformat": "power", "title": {"standoff": 6}}
    figure = go.Figure()
    figure.update_xaxes(**axis, title_text=across, type="log" if x_log else None, dtick=1 if x_log else None)
    figure.update_yaxes(**axis, title_text=up, type="log" if y_log else None)
    return figure.update_layout(
        template="none",
        margin={"l": 58, "r": 12, "t": 8, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode=False,
        hovermode="closest",
        font={"family": "system-ui, sans-serif", "size": 12, "color": GRAY},
        legend={
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
            "itemclick": False,
            "itemdoubleclick": False,
        },
    )


def _heat_map(values: Any, across: str, down: str) -> go.Figure:
    figure = _figure(across, down).update_yaxes(autorange="reversed")
    hover = f"{down} %{{y}}, {across} %{{x}}: %{{z:.4g}}<extra></extra>"
    bar = {"thickness": 10, "outlinewidth": 0}
    return figure.add_heatmap(z=values, colorscale="Viridis", colorbar=bar, hovertemplate=hover)


def _line(
    figure: go.Figure, x: Any, y: Any, name: str, color: str, *, mode: str = "lines", dash: str = "solid"
) -> None:
    marks = {"size": 9 if len(x) < 3 else 5}
    line = {"color": color, "width": 2, "dash": dash}
    figure.add_scatter(
        x=np.asarray(x), y=np.asarray(y), name=name, mode=mode, line=line, marker={"color": color} | marks
    )
    figure.update_layout(showlegend=len(figure.data) > 1)


def _evenly_spaced(count: int) -> Sequence[int]:
    """Return at most four numbers below `count`, evenly spaced from 0."""
    return range(0, count, -(-count // 4))


def _text(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.4g}"
