"""Draw committed results in a light and a dark form, and write the Markdown that shows them; measure nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from posenc_core.analysis.plots import STYLE

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
FOLDER = Path(__file__).parent / "_drawn"
LABELS = Path(__file__).parent / "locale" / "zh_CN" / "LC_MESSAGES" / "figures.po"
COLORS = mpl.rc_params_from_file(STYLE, use_default_template=False)["axes.prop_cycle"].by_key()["color"]
# Maps of colours whose zero is the paper, light or dark: of shares, and of signed numbers.
SHARES = LinearSegmentedColormap.from_list("shares", [to_rgba(COLORS[0], 0.04), to_rgba(COLORS[0])])
SIGNED = LinearSegmentedColormap.from_list(
    "signed", [COLORS[1], to_rgba(COLORS[1], 0), to_rgba(COLORS[0], 0), COLORS[0]]
)
NAMES = {"numpy": "NumPy", "torch": "PyTorch", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX", "mlx": "MLX"}
SHADES = {"light": "#222222", "dark": "#dddddd"}
FAMILIES = ("DejaVu Sans", "PingFang SC", "Noto Sans CJK SC", "Source Han Sans SC", "Microsoft YaHei")
FONTS = ", ".join([*(f"'{family}'" for family in FAMILIES), "sans-serif"])
NUMBER = re.compile(r"\d[\d,.]*")


def results(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of the committed results whose file names begin with `name`."""
    for path in sorted(RESULTS.glob(f"{name}*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def backend_of(result: dict[str, Any]) -> str:
    """Return the name of the framework that was measured."""
    return NAMES.get(result["backend"], result["backend"].replace("keras", "Keras").replace("tensorflow", "TensorFlow"))


def picture(
    name: str,
    alt: str,
    draw: Callable[[Figure], None],
    size: tuple[float, float],
    *,
    caption: str,
    in_chinese: bool = False,
) -> str:
    """Draw a figure in a light and a dark form; return the Markdown that shows one of them with its caption.

    With `in_chinese` both forms are also written with Chinese labels, in files that Sphinx takes for Chinese pages.
    """
    FOLDER.mkdir(exist_ok=True)
    for form, shade in SHADES.items():
        names = ("text", "axes.label", "xtick", "ytick", "axes.edge", "axes.title")
        shades = {f"{part}.color" if part in ("text", "xtick", "ytick") else f"{part}color": shade for part in names}
        with style.context([STYLE, shades]):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            path = FOLDER / f"{name}-{form}.svg"
            figure.savefig(path, transparent=True, metadata={"Date": None})
            if form == "light":
                figure.savefig(FOLDER / f"{name}.png", facecolor="white", dpi=100)  # for notebooks
            if in_chinese:
                with mpl.rc_context({"svg.fonttype": "none"}):
                    chinese = path.with_suffix(".zh_CN.svg")
                    figure.savefig(chinese, transparent=True, metadata={"Date": None})
                chinese.write_text(translated(chinese.read_text(encoding="utf-8")), encoding="utf-8")
    return f"```{{drawn}} {name}\n:alt: {alt}\n\n{caption}\n```\n"


def translated(svg: str) -> str:
    """Return an SVG with the labels of the catalogue `figures.po` in Chinese, and with fonts that have them.

    Raises:
        ValueError: if a label with a word is not in the catalogue.
    """
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", FONTS, svg)
    return re.sub(r">([^<>]+)</text>", lambda found: f">{html.escape(_chinese(html.unescape(found[1])))}</text>", svg)


def _chinese(label: str) -> str:
    """Return a label in Chinese; `#` stands in the catalogue for each number."""
    pattern = NUMBER.sub("#", label.strip())
    if not re.search("[A-Za-z]{2}", pattern):
        return label
    if pattern not in _catalogue():
        raise ValueError(f"{LABELS.name} has no Chinese for the label {pattern!r} of a figure.")
    found = _catalogue()[pattern]
    for number in NUMBER.findall(label):
        found = found.replace("#", number, 1)
    return found


@cache
def _catalogue() -> dict[str, str]:
    from babel.messages.pofile import read_po  # which only the builds of the pages have

    with LABELS.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file) if message.id}


def ink(color: str) -> str:
    """Return black or white: the one that can be read on a colour."""
    red, green, blue = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "black" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.2 else "white"


def circumstances(result: dict[str, Any]) -> str:
    """Return the machine and the versions of a measurement, in one sentence."""
    machine, versions = result["machine"], result["versions"]
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    kernel = f"kernel {machine['kernel']}, " if "kernel" in machine else ""  # older results lack it
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory, GiB']} GiB, Python {machine['python']}; "
        f"{kernel}{named}; commit {machine['commit']}."
    )


def table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a table in Markdown."""
    lines = (heads, ("---",) * len(heads), *rows)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
