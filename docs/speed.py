"""Write the measurements of the page on speed: results of the benchmarks of rotations, additions, biases, attention."""

from __future__ import annotations

from functools import partial
from typing import Any

from drawn import COLORS, backend_of, circumstances, picture, results, table
from matplotlib.figure import Figure

MARKS = {"half": "o", "interleaved": "s"}
SHOWN = {"prefill": "prefill, 4,096 tokens", "decode one row grouped": "one token"}  # in the first table and picture
WAYS = ("eager", "eager, without the kernel", "compiled")
TABLED = ("with the kernel", "without it")
COMPILED = ("compiled", "hybridized", "XLA", "in a model")  # in the names of implementations
OPTIONAL = (", out", "in place", "donated", "operator")  # what has to be asked for
NO_PEERS = ("copy", "identity", "by hand", "posenc's formula")  # measured to explain the others
SLOWER = 1.05  # ratios up to it are noise
MOST_USED = ("bfloat16", "float16", "float32")  # dtypes; the first that a framework was measured in is shown
OTHERS = {
    "additive-": (
        "### Additions\n\nTime divided by that of the framework's own addition or concatenation of a precomputed "
        "table; tokens (8, 1024, 512), or so many of one row; `benchmarks/additive.py`.\n"
    ),
    "biases-": (
        "### Biases\n\n32 heads, 4096 queries and keys; time divided by that of filling an array of that size with one "
        "number; a layer of few tokens by that of plain operators; `benchmarks/biases.py`.\n"
    ),
    "attention-": (
        "### Attention\n\nEight heads of 64 channels, one row; time divided by that of the same projections, rotation "
        "and softmax in plain operators; `benchmarks/attention.py`.\n"
    ),
}
RATIOS = {"posenc": "", "module": ", the least `nn.Module` of the formula"}


def speed() -> str:
    """Return a table and a picture for each result, as Markdown."""
    parts: list[str] = []
    for stem, result in results("rotation-"):
        backend = backend_of(result)
        panels = _panels(result)
        size = (7.5, 0.8 + sum(0.5 + 0.2 * len(_forms(cases)) for cases in panels.values()))
        alt = f"{backend}: time divided by that of a memcpy, by implementation, dtype and layout"
        parts += [
            f"### {backend}\n",
            circumstances(result) + _clock(result) + "\n",
            picture(stem, alt, partial(_draw, panels), size, caption=f"{alt}. Lines join the quartiles."),
        ]
        parts += [table(("threads", "case", "copy", "ours", "fastest of others", "ours / it"), _rows(result))]
        parts += _failed(result)
    for stem, text in OTHERS.items():
        found = [result for _, result in results(stem)]
        parts += found and [text, table(("case", *map(backend_of, found)), _by_backend(found))]
    return "\n".join(parts)


def first_screen() -> str:
    """Return a table and a picture of what each framework takes, as it is installed, as Markdown."""
    rows, points = [], {}
    for _, result in results("rotation-"):
        measured = points[backend_of(result)] = {shape: _shown(result, shape) for shape in SHOWN}
        (dtype, long), (_, short) = measured.values()
        both = [_cell(medians, way) for medians in (long, short) for way in ("eager", "compiled")]
        rows.append((_command(result["backend"]), dtype, *both[:2], f"{short['copy']:.3g}", *both[2:]))
    runs = "eager", "compiled"
    columns = [f"4,096 tokens, {run}" for run in runs] + [f"one token, {run}" for run in ("limit", *runs)]
    alt = "time divided by that of a memcpy: ours and the fastest of others, eager and compiled, by framework"
    size = (7.5, 1.2 + 0.9 * len(points))
    caption = f"{alt[0].upper()}{alt[1:]}; one thread."
    drawn = picture("speed-first", alt, partial(_draw_first, points), size, caption=caption)
    return "\n".join([table(("you type", "dtype", *columns), rows), drawn])


def without_kernel() -> str:
    """Return a table of what each framework that has the kernel takes without it, as Markdown."""
    rows = []
    for _, result in results("rotation-"):
        cells = [_cell(_shown(result, shape)[1], way) for shape in SHOWN for way in WAYS[:2]]
        if cells[1]:
            rows.append((backend_of(result), _shown(result, next(iter(SHOWN)))[0], *cells))
    return table(("framework", "dtype", *(f"{case}, {way}" for case in SHOWN.values() for way in TABLED)), rows)


def behind() -> str:
    """Return a table of how often another implementation that runs in the same way is faster, as Markdown."""
    rows = []
    for _, result in results("rotation-"):
        for way in ("eager", "compiled"):
            ratios = [one for case in result["cases"] if (one := _over_fastest(case, way))]
            slower = sorted((one for one in ratios if one[0] > SLOWER), reverse=True)
            worst = (f"{slower[0][0]:.2f}", *slower[0][1:]) if slower else ("", "", "")
            if ratios:
                rows.append((backend_of(result), way, f"{len(slower)} of {len(ratios)}", *worst))
    return table(("framework", "runs", "slower in", "worst ratio", "in the case", "than"), rows)


def reasons() -> str:
    """Return a table of each compiled case in which another implementation is faster, and what explains it."""
    rows = []
    for _, result in results("rotation-"):
        for case in result["cases"]:
            found = _over_fastest(case, "compiled")
            if found is not None and found[0] > SLOWER:
                rows.append((backend_of(result), *found[1:], *_explained(case, *found[2:])))
    heads = ("framework", "case", "faster", "it", "ours", "by hand", "nothing", "ours / it", "reason")
    return table(heads, rows)


def _explained(case: dict[str, Any], theirs: str) -> tuple[str, ...]:
    """Return our time, theirs, those of the experiments beside them, and the reason that these give."""
    medians = {name: three[1] for name, three in case["ratios"].items()}
    mine = _fastest(medians, "compiled", ours=True)
    low, median, high = case["ours over"][mine[0]][theirs]
    hand, nothing = (_least(medians, prefix) for prefix in ("by hand", "identity"))
    off, ours_off = (case["differences"].get(name, 0) for name in (theirs, hand[0]))
    if low <= SLOWER:
        reason = f"noise: the quartiles of the ratio are {low:.2f} and {high:.2f}"
    elif hand[1] is None:
        reason = "this result has no experiment"
    elif hand[1] <= SLOWER * medians[theirs]:
        reason = "checks, look-up and guards: our formula by hand is level"
    elif off > ours_off:
        reason = f"no form that we know with our numbers is faster; its own are up to {off:.2g} from ours"
    else:
        reason = "its form: with the same numbers it is faster than those that we know"
    times = (medians[theirs], mine[1], hand[1], nothing[1])
    return *("" if time is None else f"{time:.3g}" for time in times), f"{median:.2f}", reason


def _least(medians: dict[str, float], prefix: str) -> tuple[str, float | None]:
    """Return the name and median of the fastest compiled implementation whose name has the prefix; "" without one."""
    found = {name: median for name, median in medians.items() if name.startswith(prefix)}
    return min(found.items(), key=lambda item: item[1], default=("", None))


def _over_fastest(case: dict[str, Any], way: str) -> tuple[float, str, str] | None:
    """Return our time divided by that of the fastest of others, the case, and their name."""
    medians = {name: three[1] for name, three in case.get("ratios", {}).items()}
    mine, theirs = _fastest(medians, way, ours=True), _fastest(medians, way, ours=False)
    if mine is None or theirs is None:
        return None
    threads = f"{case['threads']} thread{'s' if case['threads'] > 1 else ''}"
    return case["ours over"][mine[0]][theirs[0]][1], f"{case['name']}, {threads}", theirs[0]


def _command(backend: str) -> str:
    """Return what a user types, as Markdown; Keras comes without the framework that it runs on."""
    name, _, companion = backend.partition(" on ")
    if name == "numpy":
        return "`pip install .` (NumPy)"
    return f'`pip install ".[{name}]"{companion and " "}{companion}`'


def _shown(result: dict[str, Any], shape: str) -> tuple[str, dict[str, float]]:
    """Return the dtype that is shown, and the median of each implementation with one thread, half layout, forward."""
    for dtype in MOST_USED:
        for case in result["cases"]:
            if case["name"] == f"{shape}, {dtype}, half, forward" and case["threads"] == 1 and case.get("ratios"):
                return dtype, {name: three[1] for name, three in case["ratios"].items()}
    return "", {}


def _fastest(medians: dict[str, float], way: str, *, ours: bool) -> tuple[str, float] | None:
    """Return the name and the median of the fastest layer or function, ours or others', that runs this way."""
    found = {}
    for name, median in medians.items():
        runs = "compiled" if any(word in name for word in COMPILED) else "eager"
        runs += ", without the kernel" if "without the kernel" in name else ""
        counts = not name.startswith(NO_PEERS) and not any(word in name for word in OPTIONAL)
        if runs == way and counts and name.startswith("posenc") == ours:
            found[name] = median
    return min(found.items(), key=lambda item: item[1], default=None)


def _cell(medians: dict[str, float], way: str) -> str:
    """Return our memcpys, and in brackets our time divided by that of the fastest of others."""
    mine, theirs = _fastest(medians, way, ours=True), _fastest(medians, way.partition(",")[0], ours=False)
    if mine is None:
        return ""
    memcpys = f"{mine[1]:.3g}" if mine[1] < 100 else f"{mine[1]:,.0f}"
    return memcpys + (f" ({mine[1] / theirs[1]:.2f})" if theirs else "")


def _draw_first(points: dict[str, dict[str, tuple[str, dict[str, float]]]], figure: Figure) -> None:
    panels = figure.subplots(1, len(SHOWN), sharey=True, squeeze=False).ravel()
    forms = [(way, ours) for way in WAYS for ours in (True, False) if ours or "," not in way]
    for panel, shape in zip(panels, SHOWN, strict=True):
        for row, (_, measured) in enumerate(points.items()):
            for number, (way, ours) in enumerate(forms):
                best = _fastest(measured[shape][1], way, ours=ours)
                if best is not None:
                    height, color = row + 0.14 * (number - 2), COLORS[WAYS.index(way)]
                    panel.plot(best[1], height, "o" if ours else "x", color=color, ms=6)
        panel.set(xscale="log", title=SHOWN[shape], yticks=range(len(points)), yticklabels=points)
        panel.axvline(1, color=COLORS[-1], lw=0.8)
        panel.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
        panel.set_xlabel("time divided by that of a memcpy")
    panels[0].invert_yaxis()
    for way, ours in forms:
        label = f"{'posenc' if ours else 'fastest of others'}, {way}"
        panels[0].plot([], [], "o" if ours else "x", color=COLORS[WAYS.index(way)], label=label)
    figure.legend(loc="outside upper center", ncols=3)


def _by_backend(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return for each case our time divided by that of the reference, per backend."""
    ratios = [
        {
            case["name"] + text: case["ratios"][implementation][1]
            for case in result["cases"]
            for implementation, text in RATIOS.items()
            if implementation in case["ratios"]
        }
        for result in found
    ]
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
        mine = {name: medians[name] for name in medians if name.startswith("posenc") and not name.startswith(NO_PEERS)}
        theirs = {name: medians[name] for name in medians if name not in mine and not name.startswith(NO_PEERS)}
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
