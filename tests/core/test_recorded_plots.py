"""How figures look: each artist that they draw, as recorded in `recorded_plots.json`.

After a change on purpose, look at the figures, and write the file anew with `python -m tests.core.test_recorded_plots`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_core import Alibi, GridSinusoidal, QueryScale, Sandwich, Sinusoidal
from posenc_core.analysis.explain import explain
from posenc_core.analysis.plots import plot, plot_attention, plot_explanation

pytest.importorskip("matplotlib")

RECORDED = Path(__file__).with_name("recorded_plots.json")
TEXT = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 2048}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
PARTLY = {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 10000.0}
VISION = {"model_type": "qwen2_vl", "hidden_size": 256, "num_attention_heads": 2}
WITHOUT = {
    "model_type": "cohere2",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "layer_types": ["sliding_attention", "full_attention"],
}
FIGURES = {
    "a table": lambda: plot(Sinusoidal(dim=16)),
    "a short table": lambda: plot(Sinusoidal(dim=1, convention="column_index"), length=5),
    "a square": lambda: plot(GridSinusoidal(dim=16, convention="timm"), length=30),
    "Alibi": lambda: plot(Alibi(num_heads=9), length=9),
    "Sandwich": lambda: plot(Sandwich(num_heads=2, dim=4, max_distance=16), length=8),
    "factors": lambda: plot(QueryScale(length=64, scale=0.1)),
    **{
        f"RoPE, {rope['rope_type']}": lambda rope=rope: plot_explanation(explain(TEXT | {"rope_parameters": rope}))
        for rope in (YARN, DYNAMIC, PARTLY)
    },
    "RoPE on three axes": lambda: plot_explanation(explain(VISION), title="three axes"),
    "RoPE of some layers": lambda: plot_explanation(explain(WITHOUT), title="some"),
    "no RoPE": lambda: plot_explanation([]),
    "one head": lambda: plot_attention(np.eye(3, 4, dtype=np.float32)[None], "abcd", "xyz"),
    "long questions": lambda: plot_attention(np.ones((3, 2, 41), np.float32), "q" * 41, "xy"),
    "three heads": lambda: plot_attention(np.ones((3, 2, 40), np.float32), "q" * 40, "xy"),
}
LINE = ("label", "color", "linewidth", "linestyle", "marker", "markersize", "alpha", "zorder")
TEXT_OF = ("text", "position", "color", "fontsize", "ha", "va", "parse_math")
AXES = ("title", "xlabel", "ylabel", "xscale", "yscale", "xlim", "ylim", "aspect", "adjustable")


def described(figure):
    """Return the size of a figure and the properties of each artist in its panels, as JSON."""
    return simple(
        {
            "size": figure.get_size_inches(),
            "title": figure.get_suptitle(),
            "panels": [panel(axes) for axes in figure.axes],
        }
    )


def panel(axes):
    found = of(axes, AXES) | {"ticks": [label.get_text() for label in axes.get_xticklabels()][:5]}
    found["place"] = [axes.get_subplotspec() and str(axes.get_subplotspec()), axes.get_label()]
    found["lines"] = [of(line, LINE) | {"points": of_points(line.get_xydata())} for line in axes.lines]
    found["texts"] = [
        of(text, TEXT_OF) | {"xy": text.xy, "at": text.xycoords, "textat": text.anncoords} for text in axes.texts
    ]
    found["images"] = [[image.get_array().shape, image.get_clim(), image.get_interpolation()] for image in axes.images]
    found["patches"] = [
        [patch.get_extents().bounds, patch.get_facecolor(), patch.get_label()] for patch in axes.patches
    ]
    legend = axes.get_legend()
    if legend is not None:
        rows = [[text.get_text(), text.get_fontsize()] for text in legend.get_texts()]
        found["legend"] = [
            rows,
            legend._loc,
            legend._ncols,
            legend.get_title().get_text(),
            legend.get_title().get_fontsize(),
        ]
    return found


def of(artist, names):
    """Return the values of these properties."""
    return {name: getattr(artist, f"get_{name}")() for name in names}


def of_points(points):
    """Return how many points a line has, the first, the last, and their mean."""
    points = np.asarray(points, float)
    return [len(points), points[0], points[-1], points.mean(axis=0)]


def simple(value):
    """Return a value in the types of JSON, numbers with four digits."""
    if isinstance(value, dict):
        return {key: simple(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [simple(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.4g}") if abs(value) > 1e-12 else 0.0
    return value


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_looks_as_recorded(name):
    assert described(FIGURES[name]()) == json.loads(RECORDED.read_text(encoding="utf-8"))[name]


def test_each_recorded_figure_is_drawn():
    assert json.loads(RECORDED.read_text(encoding="utf-8")).keys() == FIGURES.keys()


if __name__ == "__main__":
    found = {name: described(draw()) for name, draw in FIGURES.items()}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
