"""Write the measurements of the page on costs: results of `benchmarks/growth.py` and `benchmarks/blockwise.py`."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from typing import Any

from drawn import COLORS, RESULTS, backend_of, circumstances, picture, results, table
from matplotlib.figure import Figure

Curves = list[dict[str, Any]]
WIDEST = 3  # panels beside one another
LONG = 2**16  # sizes from which on only powers of 2 fit beside one another


def costs() -> str:
    """Return tables and pictures of the three layers, of every encoding and of blockwise attention, as Markdown."""
    parts = []
    for stem, result in results("growth"):
        layers = [curve for curve in result["curves"] if curve["kind"] == "layer"]
        others = [curve for curve in result["curves"] if curve["kind"] != "layer"]
        parts += ["## Convolution, recurrence, self-attention\n", table(HEADS, _layers(result))]
        parts += [_picture(f"{stem}-layers", layers, "Layers against length and width")]
        parts += [circumstances(result) + "\n", *(["## Every encoding\n"] if others else [])]
        for axis in ("length", "batch", "heads"):
            some = [one for one in others if one["axis"] == axis]
            kinds = [*dict.fromkeys(one["kind"] for one in some)]
            for first in range(0, len(kinds), WIDEST):
                beside = kinds[first : first + WIDEST]
                drawn = [one for one in some if one["kind"] in beside]
                parts += [_picture(f"{stem}-{axis}-{first}", drawn, f"{', '.join(beside)} against {axis}")]
        parts += others and [table(("kind", "encoding", "against", "time", "memory", "should be"), _powers(others))]
    blockwise = [result for _, result in results("blockwise")]
    parts += blockwise and ["## Attention of long sequences\n", table(LONG_HEADS, [_long(one) for one in blockwise])]
    parts += [circumstances(one) + "\n" for one in blockwise[:1]]
    return "\n".join(parts)


LONG_HEADS = ("framework", "queries × keys", "seconds", "memory, MiB", "all scores would be, MiB", "worst error")


def _long(result: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of the table for `attend_by_block` in one framework."""
    size, peak = f"{result['length']:,}", result["peak over before, MiB"]
    scores, error = f"{result['scores, MiB']:,}", f"{result['worst error']:.1e}"
    return backend_of(result), f"{size} × {size}", str(result["seconds"]), str(peak), scores, error


HEADS = ("layer", "time, as in the text", "multiplications, counted", "seconds", "memory", "sequential operations")


def _layers(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return counts and measurements as powers of the length n and of the width d."""
    expected = _expected()
    rows = []
    for name in dict.fromkeys(one["name"] for one in result["layers"]):
        arange_like = {one["axis"]: one for one in result["layers"] if one["name"] == name}
        measured = {one["axis"]: one for one in result["curves"] if (one["kind"], one["name"]) == ("layer", name)}
        products, steps = (_product(arange_like, f"{what} grow by") for what in ("products", "steps"))
        seconds, memory = (_product(measured, f"{what} grow by") for what in ("seconds", "bytes"))
        rows.append((name, expected[name].time, products, seconds, memory, f"{expected[name].steps}: {steps}"))
    return rows


def _expected() -> dict[str, Any]:
    """Return what the text gives for each layer, as `benchmarks/sequence_layers.py` has it."""
    folder = str(RESULTS.parent)
    sys.path.insert(0, folder)
    try:
        return runpy.run_path(f"{folder}/sequence_layers.py")["LAYERS"]
    finally:
        sys.path.remove(folder)


def _product(by_axis: dict[str, dict[str, Any]], key: str) -> str:
    letters = {"length": "n", "width": "d"}
    powers = [f"{letters[axis]}^{abs(one[key]):g}" for axis, one in by_axis.items() if key in one]
    return " · ".join(powers) or "not measured"


def _powers(curves: Curves) -> list[tuple[str, ...]]:
    return [
        (
            curve["kind"],
            curve["name"],
            curve["axis"],
            str(curve.get("seconds grow by", "")),
            str(curve["bytes grow by"]),
            f"{curve['bytes should grow by']:g}",
        )
        for curve in curves
    ]


def _picture(name: str, curves: Curves, alt: str) -> str:
    if not curves:
        return ""
    columns = dict.fromkeys((one["kind"], one["axis"]) for one in curves)
    alt, size = f"{alt}: time and memory", (max(2.5 * len(columns), 5), 6.6)
    return picture(name, alt, partial(_draw, curves), size, caption=f"{alt}; both axes are logarithmic.")


def _draw(curves: Curves, figure: Figure) -> None:
    columns = list(dict.fromkeys((one["kind"], one["axis"]) for one in curves))
    rows = [key for key in ("seconds", "bytes") if any(key in one for one in curves)]
    most = max(sum((one["kind"], one["axis"]) == column for one in curves) for column in columns)
    heights = [1] * len(rows) + [0.1 + 0.08 * most]  # below the panels stand the legends
    panels = figure.subplots(len(heights), len(columns), sharey="row", squeeze=False, height_ratios=heights)
    for column, (kind, axis) in enumerate(columns):
        some = [one for one in curves if (one["kind"], one["axis"]) == (kind, axis)]
        for row, key in enumerate(rows):
            panel = panels[row, column]
            for number, one in enumerate(some):
                style = {"color": COLORS[number % len(COLORS)], "ls": "-" if number < len(COLORS) else "--"}
                if key in one:
                    panel.plot(one["sizes"], one[key], label=one["name"], lw=1.2, **style)
            panel.set(xscale="log", yscale="log", xlabel=axis, ylabel=key if column == 0 else "")
            panel.set_xscale("log", base=2)
            if max(one["sizes"][-1] for one in some) < LONG:
                panel.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
        panels[0, column].set_title(kind)
        panels[-1, column].legend(*panels[0, column].get_legend_handles_labels(), loc="upper center")
        panels[-1, column].axis("off")
