"""Write the measurements of the page on speed: results of `benchmarks/rotation.py`, `additive.py`, `biases.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

from drawn import COLORS, backend_of, circumstances, picture, results, table
from matplotlib.figure import Figure

MARKS = {"half": "o", "interleaved": "s"}
OTHERS = {
    "additive-": (
        "## Additions\n\nTime divided by that of the framework's own addition or concatenation of a precomputed table; "
        "tokens (8, 1024, 512), `benchmarks/additive.py`.\n"
    ),
    "biases-": (
        "## Biases\n\n32 heads, 4096 queries and keys; time divided by that of filling an array of that size with one "
        "number; `benchmarks/biases.py`.\n"
    ),
}


def speed() -> str:
    """Return a picture and a table for each result, as Markdown."""
    parts = []
    for stem, result in results("rotation-"):
        backend = backend_of(result)
        panels = _panels(result)
        size = (9, 0.8 + sum(0.5 + 0.2 * len(_forms(cases)) for cases in panels.values()))
        alt = f"{backend}: time divided by that of a memcpy, by implementation, dtype and layout"
        parts += [
            f"## {backend}\n",
            circumstances(result) + _clock(result) + "\n",
            picture(stem, alt, partial(_draw, panels), size),
        ]
        parts += [table(("threads", "case", "copy", "ours", "fastest of others", "ours / it"), _rows(result))]
        parts += _failed(result)
    for stem, text in OTHERS.items():
        found = [result for _, result in results(stem)]
        parts += found and [text, table(("case", *map(backend_of, found)), _by_backend(found))]
    return "\n".join(parts)


def _by_backend(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return for each case our time divided by that of the reference, per backend."""
    ratios = [{case["name"]: case["ratios"]["posenc"][1] for case in result["cases"]} for result in found]
    return [(name, *(f"{one[name]:.2f}" if name in one else "" for one in ratios)) for name in _names(ratios)]


def _names(ratios: list[dict[str, float]]) -> list[str]:
    return [*dict.fromkeys(name for one in ratios for name in one)]


def _clock(result: dict[str, Any]) -> str:
    """Return a sentence if processor time was measured."""
    busy = any(case.get("clock") == "processor" for case in result["cases"])
    return " Measured by processor time, on a machine that others used." if busy else ""


def _panels(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the cases by number of threads, shape and pass."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for case in result["cases"]:
        shape, _, _, way = case["name"].split(", ")
        if case.get("ratios"):
            panels.setdefault(f"{shape}, {way}, threads: {case['threads']}", []).append(case)
    return panels


def _forms(cases: list[dict[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for case in cases for name in case["ratios"])
    return sorted(names, key=lambda name: (name != "copy", not name.startswith("posenc"), name))


def _draw(panels: dict[str, list[dict[str, Any]]], figure: Figure) -> None:
    heights = [len(_forms(cases)) + 2 for cases in panels.values()]
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights).ravel()
    dtypes: dict[str, str] = {}
    for panel, (title, cases) in zip(axes, panels.items(), strict=True):
        forms = _forms(cases)
        for case in cases:
            _, dtype, layout, _ = case["name"].split(", ")
            color = dtypes.setdefault(dtype, COLORS[len(dtypes)])
            for name, (low, median, high) in case["ratios"].items():
                panel.plot([low, high], [forms.index(name)] * 2, color=color, lw=1)
                panel.plot(median, forms.index(name), MARKS[layout], color=color, ms=5, fillstyle="none")
        panel.set(xscale="log", yticks=range(len(forms)), yticklabels=forms, title=title)
        panel.invert_yaxis()
        panel.axvline(1, color=COLORS[-1], lw=0.8)
    axes[-1].xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    axes[-1].set_xlabel("time divided by that of a memcpy; lines join the quartiles")
    for dtype, color in dtypes.items():
        axes[0].plot([], [], color=color, label=dtype)
    for layout, mark in MARKS.items():
        axes[0].plot([], [], mark, color=COLORS[-1], fillstyle="none", label=layout)
    figure.legend(loc="outside upper center", ncols=5)


def _rows(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for case in result["cases"]:
        medians = {name: three[1] for name, three in case.get("ratios", {}).items()}
        mine = {name: number for name, number in medians.items() if name.startswith("posenc")}
        theirs = {name: medians[name] for name in medians if name not in mine and name != "copy"}
        if not mine:
            continue
        best = min(mine, key=mine.__getitem__)
        fastest = min(theirs, key=theirs.__getitem__, default=None)
        over = case["ours over"][best].get(fastest, [0, 0, 0])[1]
        other = (f"{theirs[fastest]:.2f} ({fastest})", f"{over:.2f}") if fastest else ("none", "")
        rows.append((case["threads"], case["name"], f"{medians['copy']:.2f}", f"{mine[best]:.2f} ({best})", *other))
    return rows


def _failed(result: dict[str, Any]) -> list[str]:
    failed = {name: why for case in result["cases"] for name, why in case["failed"].items()}
    return [f"{name} was skipped: `{why}`\n" for name, why in failed.items()]
