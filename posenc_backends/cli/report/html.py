"""The report as an HTML page: one self-contained file with a sortable table and pictures."""

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

from posenc_backends._kernels import describe
from posenc_core import __version__

from .results import COLUMNS, KNOWN_FAILURE, LEGEND, Section, Target, cell, why

Rows = list[dict[str, Any]]

# Safe for color-blind readers: Okabe and Ito 2008, "Color Universal Design".
BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#888888"
STYLES = {"light": "default", "dark": "dark_background"}
FONT = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "posenc", "hatch.linewidth": 0.5}
WIDTH = 4.2  # inches: fits a phone without scaling


def page(sections: Sequence[Section], absent: Sequence[Target]) -> str:
    """Return the report as HTML.

    Each picture is drawn twice, and the browser shows the one for its color scheme.

    Args:
        sections: the results of the installed backends.
        absent: the backends that are not installed.
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
        versions=f"posenc {__version__}, kernel {describe()}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
        columns=[*COLUMNS, "seconds"],
        rows=rows,
        sections=sections,
        absent=absent,
        legend=LEGEND,
        pictures=list(_pictures(sections, rows)),
        cell=cell,
        sort_key=_sort_key,
        why=why,
    )


def _sort_key(value: object) -> float | str:
    """Return the number that a cell is sorted by, such as the share of passed cases; empty sorts last."""
    if isinstance(value, str) and "/" in value:
        passed, cases = value.split("/")
        return int(passed) / int(cases)
    if isinstance(value, float):
        return value if math.isfinite(value) else "Infinity"  # the spelling of JavaScript
    return ""


def _pictures(sections: Sequence[Section], rows: Rows) -> Iterator[dict[str, str]]:
    """Yield a picture of all cases and one for each check: title, text alternative, and a URL per color scheme."""
    counts = [f"{section.target.name} {len(section.failed)} of {len(section.results)}" for section in sections]
    if sections:
        alt = f"Bars: cases of each backend: passed, known failures, failed. Failed: {', '.join(counts)}."
        urls = _draw_in_both_schemes(partial(_draw_cases, sections=sections), 1 + 0.3 * len(sections))
        yield {"title": "Cases", "alt": alt} | urls
    for check in ("forward", "gradient", "compiled"):
        measured = [row for row in rows if isinstance(row[check], float)]
        if measured:
            worst = max(measured, key=lambda row: row[check])
            largest = f"{cell(worst[check])} ulp, of {worst['encoding']} in {worst['backend']}"
            alt = f"Heat map: worst error of each encoding in each backend; the largest is {largest}. See the table."
            urls = _draw_in_both_schemes(partial(_draw_errors, rows=rows, check=check), 6.5)
            yield {"title": f"Worst error, {check}", "alt": alt} | urls


def _draw_in_both_schemes(draw: Callable[[Axes], None], height: float) -> dict[str, str]:
    """Return a picture for each color scheme as a data URL."""
    urls = {}
    for scheme, name in STYLES.items():
        with style.context([name, FONT]):
            figure = Figure(figsize=(WIDTH, height), layout="constrained")
            draw(figure.add_subplot())
            figure.savefig(svg := BytesIO(), format="svg", transparent=True, metadata={"Date": None})
        urls[scheme] = f"data:image/svg+xml;base64,{b64encode(svg.getvalue()).decode()}"
    return urls


def _draw_cases(axes: Axes, sections: Sequence[Section]) -> None:
    """Draw a bar for each backend."""
    names = [section.target.name for section in sections]
    failed = [len(section.failed) for section in sections]
    known = [sum(bool(result["gap"]) and not result["passed"] for result in section.results) for section in sections]
    passed = [len(section.results) - sum(others) for section, *others in zip(sections, failed, known, strict=True)]
    left = [0] * len(sections)
    for label, counts, color in (("passed", passed, BLUE), ("known failure", known, GRAY), ("failed", failed, ORANGE)):
        axes.barh(names, counts, left=left, color=color, label=label, height=0.6)
        left = [sum(pair) for pair in zip(left, counts, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("cases")
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False)


def _draw_errors(axes: Axes, rows: Rows, check: str) -> None:
    """Draw the worst error of each encoding in each backend, hatched for a known failure, empty without a case."""
    backends, encodings = (list(dict.fromkeys(row[key] for row in rows)) for key in ("backend", "encoding"))
    found = {(row["encoding"], row["backend"]): row[check] for row in rows}
    numbers = {place: value for place, value in found.items() if isinstance(value, float)}
    errors = [[numbers.get((encoding, backend), math.nan) for backend in backends] for encoding in encodings]
    most = max(filter(math.isfinite, numbers.values()), default=0) or 1
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
        elif value == KNOWN_FAILURE:
            corner = (x - 0.5, y - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="////", edgecolor=GRAY, linewidth=0))
