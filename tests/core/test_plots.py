"""What the figures show: the lines, texts, panels and sizes, read back from matplotlib."""

import numpy as np
import pytest

import posenc_core as p
from posenc_core.analysis.curves import rows
from posenc_core.analysis.explain import explain
from posenc_core.analysis.extension import plan_extension
from posenc_core.analysis.plots import plot, plot_attention, plot_explanation, plot_extension

pytest.importorskip("matplotlib")

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}
SCALED = LLAMA | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}
PARTLY = LLAMA | {"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 10000.0}}


def lines(axes):
    """Return the points of each line that has a name."""
    return {line.get_label(): np.array(line.get_data()) for line in axes.lines if line.get_label()[0] != "_"}


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_a_table_is_drawn_with_its_columns_and_products():
    encoding = p.Sinusoidal(dim=16)
    table = encoding.table(np.arange(60))
    figure = plot(encoding)
    heat, curves, points, middle = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    np.testing.assert_array_equal(heat.images[0].get_array(), table)
    assert list(lines(curves)) == ["column 0", "column 4", "column 8", "column 12"]
    np.testing.assert_array_equal(lines(curves)["column 4"], [np.arange(60), table[:, 4]])
    assert curves.get_ylim()[1] > 1.2 > table.max()
    np.testing.assert_array_equal(points.lines[0].get_data(), table[:, :2].T)
    assert texts(points) == [str(number) for number in range(12)]
    np.testing.assert_allclose(middle.lines[0].get_ydata(), table @ table[30], rtol=1e-6)
    assert middle.lines[1].get_xdata()[0] == 30
    assert tuple(figure.get_size_inches()) == (11, 8)


def test_a_rotation_by_learned_directions_is_drawn_before_it_is_learned():
    assert len(plot(p.MixedRotary(head_dim=8, layout="half", num_heads=2), length=9).axes) >= 4


def test_magnitudes_at_angles_are_drawn_without_phases():
    encoding = p.PoPE(head_dim=4, num_heads=2)
    heat, curves, *_ = plot(encoding, length=9).axes
    cos, sin = encoding.cos_sin(range(9))
    np.testing.assert_array_equal(heat.images[0].get_array()[:, 2:4], np.stack([cos, sin], axis=-1)[:, 1])
    assert list(lines(curves)) == ["column 0", "column 2", "column 4", "column 6"]


def test_distances_of_remapped_positions():
    encoding = p.SelfExtend(rotary=p.Rotary(head_dim=4, layout="half"), window=4, group_size=2)
    heat, curve, _ = plot(encoding, length=9).axes
    np.testing.assert_array_equal(heat.images[0].get_array(), encoding.distances(range(9), range(9)))
    np.testing.assert_array_equal(lines(curve)["of query 8"][1], [0, 1, 2, 3, 4, 5, 5, 6, 6])
    few = plot(encoding, length=2000).axes[0].images[0]
    assert few.get_array().shape == (500, 500)
    assert few.get_extent() == [0, 2000, 2000, 0]


def test_logarithms_of_learned_factors():
    near, far = plot(p.LearnedQueryScale(num_heads=4), length=9).axes
    np.testing.assert_allclose(near.lines[0].get_ydata(), np.log(np.arange(1, 10)), rtol=1e-6)
    assert far.lines[0].get_xdata()[-1] == 2**20 - 1
    near, far = plot(p.QueryScale(length=4, scale=0.5), length=9).axes
    np.testing.assert_allclose(near.lines[0].get_ydata(), 1 + 0.5 * np.log1p(np.arange(1, 10) // 4), rtol=1e-6)
    assert far.lines[1].get_xdata()[0] == 4


def test_one_column_has_no_second():
    figure = plot(p.Sinusoidal(dim=1, convention="column_index"), length=5)
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), np.zeros(5))


def test_a_bias_is_drawn_by_head_and_distance():
    encoding = p.Alibi(num_heads=8)
    bias = encoding.bias(np.arange(20), np.arange(20))
    heat, curves, slopes, middle = (axes for axes in plot(encoding, length=20).axes if axes.get_label() != "<colorbar>")
    np.testing.assert_array_equal(heat.images[0].get_array(), bias[0])
    assert list(lines(curves)) == [f"head {head}" for head in (0, 2, 4, 6)]
    np.testing.assert_array_equal(lines(curves)["head 2"][1], bias[2, 19, ::-1])
    np.testing.assert_array_equal(lines(middle)["head 2"][1], bias[2, 10])
    np.testing.assert_allclose(slopes.lines[0].get_ydata(), 2.0 ** -np.arange(1, 9))


@pytest.mark.parametrize(("config", "names"), [(LLAMA, ["by the base"]), (SCALED, ["by the base", "scaled"])])
def test_wavelengths_are_those_of_the_pairs(config, names):
    (layers,) = explain(config)
    figure = plot_explanation([layers], title="a model")
    upper, lower = figure.axes
    assert figure.get_suptitle() == "a model"
    assert list(lines(upper)) == names
    plain = 2 * np.pi * 10000.0 ** (np.arange(8) / 8)
    np.testing.assert_allclose(lines(upper)["by the base"], [np.arange(8), plain])
    if len(names) > 1:
        np.testing.assert_allclose(lines(upper)["scaled"][1], 4 * plain)
    assert any("8,192 at most" in text for text in texts(upper))
    marked = [first for loss in layers.regimes[0].losses for _, first in loss.first_off[:1] if first is not None]
    assert texts(lower) == [f"{first:,}" for first in marked]
    assert lower.get_xscale() == lower.get_yscale() == upper.get_yscale() == "log"
    assert tuple(figure.get_size_inches()) == (6.5, 8)


def test_pairs_that_do_not_rotate_are_shaded():
    (layers,) = explain(PARTLY)
    figure = plot_explanation([layers, layers])
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert names == ["by the base", "not rotated"]
    (shade,) = figure.axes[0].patches
    assert (shade.get_x(), shade.get_width()) == (3.5, 4)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["positions per turn", "", "largest error of cos and sin so far", ""]  # of the first in a row
    assert tuple(figure.get_size_inches()) == (12, 8)


@pytest.mark.parametrize(
    ("heads", "question", "panels", "size"),
    [(1, "abc", 1, (1 + 1.02, 0.96)), (3, "abc", 3, (1 + 2 * 1.02, 1.92)), (2, "a" * 60, 2, (1 + 9, 1.92))],
)
def test_attention_has_a_panel_for_each_head(heads, question, panels, size):
    weights = np.random.default_rng(0).uniform(size=(heads, 2, len(question))).astype(np.float32)
    figure = plot_attention(weights, question, "ab")
    drawn = [axes for axes in figure.axes if axes.images and axes.get_label() != "<colorbar>"]
    assert len(drawn) == panels
    np.testing.assert_array_equal(drawn[-1].images[0].get_array(), weights[-1])
    assert drawn[0].images[0].get_clim() == (0, 1)
    np.testing.assert_allclose(figure.get_size_inches(), size)


def test_the_dot_products_of_a_grid_are_a_square():
    encoding = p.GridSinusoidal(dim=8, convention="timm")
    table = rows(encoding, 36)
    square = plot(encoding, length=36).axes[3]
    np.testing.assert_allclose(square.images[0].get_array(), (table @ table[21]).reshape(6, 6), rtol=1e-6)
    assert square.get_title() == "dot product with row 21, in the middle"


def test_an_extension_is_drawn_beside_the_config_and_the_trained_angles():
    plan = plan_extension(LLAMA, to=32768)
    upper, lower = plot_extension(plan, title="config.json").axes
    before, after = plan.rotary.frequencies(), plan.extension("YaRN").rotary.frequencies()
    np.testing.assert_allclose(lines(upper)["the config"][1], 2 * np.pi / before)
    np.testing.assert_allclose(lines(upper)["YaRN"][1], 2 * np.pi / after)
    np.testing.assert_allclose(lines(lower)["YaRN, at 32,768"][1], 32768 * after / (2 * np.pi))
    assert texts(upper) == ["8,192 trained", "32,768 wanted"]
    seen = lower.collections[0].get_paths()[0].vertices[:, 1]
    assert 8192 * before[-1] / (2 * np.pi) in seen
    assert list(lines(plot_extension(plan_extension(LLAMA, to=8192)).axes[0])) == ["the config"]
