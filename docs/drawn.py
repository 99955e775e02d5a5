"""Draw committed results in a light and a dark form, and write the Markdown that shows them; measure nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
FOLDER = Path(__file__).parent / "_drawn"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")  # Okabe and Ito 2008
NAMES = {"numpy": "NumPy", "torch": "PyTorch", "paddle": "Paddle", "mxnet": "MXNet", "jax": "JAX"}
SHADES = {"light": "#222222", "dark": "#dddddd"}


def results(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of the committed results whose file names begin with `name`."""
    for path in sorted(RESULTS.glob(f"{name}*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def backend_of(result: dict[str, Any]) -> str:
    """Return the name of the framework that was measured."""
    return NAMES.get(result["backend"], result["backend"].replace("keras", "Keras").replace("tensorflow", "TensorFlow"))


def picture(name: str, alt: str, draw: Callable[[Figure], None], size: tuple[float, float]) -> str:
    """Draw a figure in a light and a dark form; return the Markdown that shows one of them."""
    FOLDER.mkdir(exist_ok=True)
    images = []
    for form, shade in SHADES.items():
        names = ("text", "axes.label", "xtick", "ytick", "axes.edge", "axes.title")
        shades = {f"{part}.color" if part in ("text", "xtick", "ytick") else f"{part}color": shade for part in names}
        with mpl.rc_context({**shades, "svg.hashsalt": "posenc", "font.size": 9, "legend.frameon": False}):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            figure.savefig(FOLDER / f"{name}-{form}.svg", transparent=True, metadata={"Date": None})
        images.append(f"```{{image}} /_drawn/{name}-{form}.svg\n:class: only-{form}\n:alt: {alt}\n```\n")
    return "\n".join(images)


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
