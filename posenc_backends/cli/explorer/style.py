"""The style of all figures: axes, curves, maps, colors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .language import translate

# Safe for color-blind readers, on white and on black: after Okabe and Ito 2008.
BLUE, ORANGE, GREEN, PURPLE, GRAY = "#2380C4", "#D9691E", "#149A76", "#B9699A", "#808890"
COLORS = (BLUE, ORANGE, GREEN, PURPLE)


def new_figure(across: str, up: str, *, x_log: bool = False, y_log: bool = False) -> go.Figure:
    """Return an empty figure with the style of all."""
    axis: dict[str, Any] = {"fixedrange": True, "zeroline": False, "exponentformat": "power"}
    layout = {
        "template": "none",
        "xaxis": axis
        | {"title": {"standoff": 6, "text": translate(across)}}
        | ({"type": "log", "dtick": 1} if x_log else {}),
        "yaxis": axis | {"title": {"standoff": 6, "text": translate(up)}} | ({"type": "log"} if y_log else {}),
        "margin": {"l": 58, "r": 12, "t": 8, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "dragmode": False,
        "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": GRAY},
        "legend": {
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
            "itemclick": False,
            "itemdoubleclick": False,
        },
    }
    return go.Figure(layout=layout)  # in one step: updates take ten times as long


def heat_map(
    values: Any, across: str, down: str, *, x: Any = None, y: Any = None, is_square: bool = False
) -> go.Figure:
    """Return a map of values in colors, with the first row at the top."""
    figure = new_figure(across, down)
    figure.layout.yaxis.autorange = "reversed"
    if is_square:
        figure.layout.xaxis.constrain = figure.layout.yaxis.constrain = "domain"
        figure.layout.yaxis.scaleanchor = "x"
    hover = f"{translate(down)} %{{y}}, {translate(across)} %{{x}}: %{{z:.4g}}<extra></extra>"
    bar = {"thickness": 10, "outlinewidth": 0}
    return figure.add_heatmap(z=values, x=x, y=y, colorscale="Viridis", colorbar=bar, hovertemplate=hover)


def share_axes(figures: Sequence[go.Figure]) -> None:
    """Give figures the same axes and the same colors, so that they can be compared."""
    maps = [trace for figure in figures for trace in figure.data if trace.type == "heatmap"]
    if maps:
        lowest, highest = min(np.nanmin(each.z) for each in maps), max(np.nanmax(each.z) for each in maps)
        for each in maps:
            each.update(zmin=lowest, zmax=highest)
        return
    for name in ("xaxis", "yaxis"):
        axes = [figure.layout[name] for figure in figures]
        limits = [_limits(figure, name) for figure in figures]
        for axis in axes:
            axis.range = (min(first for first, _ in limits), max(last for _, last in limits))


def _limits(figure: go.Figure, name: str) -> tuple[float, float]:
    """Return the range of an axis, as Plotly has it: powers of ten if it is logarithmic."""
    axis = figure.layout[name]
    if axis.range is not None:
        return axis.range[0], axis.range[1]
    values = np.concatenate([np.asarray(trace[name[0]], float) for trace in figure.data] or [np.zeros(1)])
    values = np.log10(values[values > 0]) if axis.type == "log" else values[np.isfinite(values)]
    lowest, highest = (values.min(), values.max()) if values.size else (0.0, 1.0)
    margin = 0.04 * (highest - lowest) or 0.5
    return lowest - margin, highest + margin


def line(figure: go.Figure, x: Any, y: Any, name: str, color: str, *, mode: str = "lines", dash: str = "solid") -> None:
    """Add a curve, or points."""
    marks = {"size": 9 if len(x) < 3 else 5}
    line = {"color": color, "width": 2, "dash": dash}
    figure.add_scatter(
        x=np.asarray(x), y=np.asarray(y), name=name, mode=mode, line=line, marker={"color": color} | marks
    )
    figure.update_layout(showlegend=len(figure.data) > 1)


def evenly_spaced(count: int) -> Sequence[int]:
    """Return at most four numbers below `count`, evenly spaced from 0."""
    return range(0, count, -(-count // 4))
