"""The report as a page: one file that asks for nothing else, can be sorted, and has pictures for light and for dark."""

from __future__ import annotations

import math
import platform
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from io import BytesIO
from itertools import product
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posenc_backends.cli.report.run import COLUMNS, Section, Target, cell, why
from posenc_core import __version__

Rows = list[dict[str, Any]]

# Told apart by everyone: Okabe and Ito 2008, "Color Universal Design".
BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#888888"
STYLES = {"light": "default", "dark": "dark_background"}
FACE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "posenc", "hatch.linewidth": 0.5}
WIDTH = 4.2  # inches: what a telephone shows without making it smaller


def page(sections: Sequence[Section], absent: Sequence[Target]) -> str:
    """What the rooms gave, and which are not installed, as HTML.

    The rows are those of the terminal. Pictures are drawn twice, and the browser takes the one for its color scheme.
    """
    environment = Environment(
        loader=PackageLoader("posenc_backends.cli", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    rows = [row for section in sections for row in section.rows()]
    return environment.get_template("report.html").render(
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        versions=f"posenc {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        columns=[*COLUMNS, "seconds"],
        rows=rows,
        sections=sections,
        absent=absent,
        pictures=list(_pictures(sections, rows)),
        cell=cell,
        rank=_rank,
        why=why,
    )


def _rank(value: object) -> float | str:
    """What a cell is sorted by: a number, of passed cases their share; nothing where there is none, which comes last."""
    if isinstance(value, str) and "/" in value:
        passed, cases = value.split("/")
        return int(passed) / int(cases)
    if isinstance(value, float):
        return value if math.isfinite(value) else "Infinity"  # as the browser writes it
    return ""


def _pictures(sections: Sequence[Section], rows: Rows) -> Iterator[dict[str, str]]:
    """Of all cases, and of each check that measured something: what it shows, and its forms as addresses."""
    told = [f"{section.target.name} {len(section.failed)} of {len(section.results)}" for section in sections]
    if sections:
        alt = f"Bars: how many cases each room passed, cannot pass and failed. Failed: {', '.join(told)}."
        yield {"title": "Cases", "alt": alt} | _forms(partial(_draw_cases, sections=sections), 1 + 0.3 * len(sections))
    for check in ("forward", "gradient", "compiled"):
        measured = [row for row in rows if isinstance(row[check], float)]
        if measured:
            most = max(measured, key=lambda row: row[check])
            worst = f"{cell(most[check])} units in the last place, of {most['encoding']} in {most['backend']}"
            alt = f"Heat map: worst error of each encoding in each room; the largest is {worst}. The table has all numbers."
            title = f"Worst error, {check}"
            yield {"title": title, "alt": alt} | _forms(partial(_draw_errors, rows=rows, check=check), 6.5)


def _forms(draw: Callable[[Axes], None], height: float) -> dict[str, str]:
    """A picture for each color scheme, as an address that holds it."""
    forms = {}
    for form, name in STYLES.items():
        with style.context([name, FACE]):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            draw(figure.add_subplot())
            figure.savefig(drawn := BytesIO(), format="svg", transparent=True, metadata={"Date": None})
        forms[form] = f"data:image/svg+xml;base64,{b64encode(drawn.getvalue()).decode()}"
    return forms


def _draw_cases(axes: Axes, sections: Sequence[Section]) -> None:
    """A bar for each room."""
    names = [section.target.name for section in sections]
    failed = [len(section.failed) for section in sections]
    gaps = [sum(bool(each["gap"]) and not each["passed"] for each in section.results) for section in sections]
    passed = [len(section.results) - sum(others) for section, *others in zip(sections, failed, gaps, strict=True)]
    left = [0] * len(sections)
    for label, counts, color in (("passed", passed, BLUE), ("gap", gaps, GRAY), ("failed", failed, ORANGE)):
        axes.barh(names, counts, left=left, color=color, label=label, height=0.6)
        left = [sum(pair) for pair in zip(left, counts, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("cases")
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False)


def _draw_errors(axes: Axes, rows: Rows, check: str) -> None:
    """A cell for each encoding in each room: its worst error, hatched where it is a gap, empty where there is no such case."""
    backends, encodings = (list(dict.fromkeys(row[key] for row in rows)) for key in ("backend", "encoding"))
    found = {(row["encoding"], row["backend"]): row[check] for row in rows}
    errors = [[_error(found.get((encoding, backend))) for backend in backends] for encoding in encodings]
    most = max((error for line in errors for error in line if math.isfinite(error)), default=0) or 1
    axes.imshow(errors, aspect="auto", cmap="cividis", vmin=0, vmax=most)
    axes.set_xticks(range(len(backends)), backends, rotation=90)
    axes.set_yticks(range(len(encodings)), encodings)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for (y, encoding), (x, backend) in product(enumerate(encodings), enumerate(backends)):
        value = found.get((encoding, backend))
        if isinstance(value, float):
            color = ORANGE if math.isinf(value) else "white" if value < most / 2 else "black"
            axes.text(x, y, f"{value:.1f}", ha="center", va="center", size=7, color=color)
        elif value == "gap":
            axes.add_patch(_hatched(x, y))


def _error(value: object) -> float:
    return value if isinstance(value, float) else math.nan


def _hatched(x: int, y: int) -> Rectangle:
    return Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", edgecolor=GRAY, linewidth=0)
