"""What figures hold, against formulas written anew here; no browser is needed."""

import json
import math

import numpy as np
import pytest

from posenc_backends.cli.explorer.figures import (
    PICTURES,
    columns,
    decay,
    distances,
    dot_products,
    errors,
    factors,
    rotation,
    scores,
    slopes,
    table,
    wavelengths,
)
from posenc_backends.cli.explorer.links import View
from posenc_backends.cli.explorer.style import share_axes
from posenc_core import (
    Alibi,
    Binary,
    Integer,
    LearnedQueryScale,
    Linear,
    Proportional,
    QueryScale,
    ReRoPE,
    Rotary,
    Sinusoidal,
    XPos,
)

ROTARY = Rotary(head_dim=8, layout="half", base=100)
LLAMA = Rotary(head_dim=128, layout="half", base=5e5)


def traces(picture):
    return {trace.name: (np.asarray(trace.x), np.asarray(trace.y)) for trace in picture.figure.data}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize(
    "encoding", [ROTARY, XPos(head_dim=8, layout="half"), Sinusoidal(dim=7), Integer(dim=2), Alibi(num_heads=3)]
)
def test_pictures_are_json_without_what_it_has_not(encoding, name):
    picture = PICTURES[name][1](View(encoding=encoding, length=9))
    if picture is not None:
        json.loads(picture.figure.to_json(), parse_constant=pytest.fail)
        assert picture.words.endswith(".")


def test_which_pictures_there_are():
    kinds = {"rotary": ROTARY, "waves": Sinusoidal(dim=4), "others": Binary(dim=5), "slopes": Alibi(num_heads=2)}
    kinds |= {"remapped": ReRoPE(rotary=ROTARY, window=3), "factors": QueryScale(length=8, scale=0.1)}
    drawn = {
        kind: {name for name, (_, draw) in PICTURES.items() if draw(View(encoding=each, length=8))}
        for kind, each in kinds.items()
    }
    assert drawn == {
        "rotary": set(PICTURES) - {"slopes", "patches", "distances", "factors"},
        "waves": set(PICTURES) - {"slopes", "decay", "patches", "distances", "factors"},
        "others": {"table", "columns", "dot-products", "scores"},
        "slopes": {"scores", "decay", "slopes"},
        "remapped": {"scores", "distances"},
        "factors": {"factors"},
    }


def test_remapped_distances():
    view = View(encoding=ReRoPE(rotary=ROTARY, window=3), length=9)
    picture = distances(view)
    assert traces(picture)["of query 8"][1].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3]
    assert picture.words == "Query 8: distances below 4 are kept; at 8 it is 3, the largest is 3."
    (heat,) = scores(view).figure.data
    of_distance = traces(decay(View(encoding=ROTARY, length=9)))["score of ones"][1]
    np.testing.assert_allclose(heat.z[8], of_distance[[3, 3, 3, 3, 3, 3, 2, 1, 0]], atol=1e-6)
    assert np.isnan(heat.z[0][1:].astype(float)).all()
    assert scores(view).words.endswith("keys after their query are hidden.")


def test_factors_of_queries():
    picture = factors(View(encoding=QueryScale(length=8192, scale=0.1)))
    at, values = traces(picture)["factor"]
    np.testing.assert_allclose(values, 1 + 0.1 * np.log1p(np.floor((at + 1) / 8192)), rtol=1e-6)
    assert picture.words == "1 at position 1, 1.486 at 1,048,576."
    learned = factors(View(encoding=LearnedQueryScale(num_heads=2)))
    at, values = traces(learned)["logarithm"]
    np.testing.assert_allclose(values, np.log(at + 1), rtol=1e-6)
    assert learned.words.startswith("0.6931 at position 1, 13.86 at 1,048,576. Each head multiplies it by its slope")


def test_the_table_is_that_of_the_encoding():
    (heat,) = table(View(encoding=Sinusoidal(dim=4), length=3)).figure.data
    wanted = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(3)]
    np.testing.assert_allclose(heat.z, wanted, atol=1e-7)


def test_columns_are_spread():
    drawn = traces(columns(View(encoding=Sinusoidal(dim=10), length=5)))
    assert list(drawn) == ["column 0", "column 3", "column 6", "column 9"]
    np.testing.assert_allclose(drawn["column 0"][1], np.sin(range(5)), atol=1e-7)


def test_wavelengths_before_and_after_scaling():
    scaled = Rotary(head_dim=8, layout="half", base=100, scaling=Linear(factor=4))
    picture = wavelengths(View(encoding=scaled, length=9, pair=2))
    plain = [math.tau * 100 ** (i / 4) for i in range(4)]
    drawn = traces(picture)
    np.testing.assert_allclose(drawn["unscaled"][1], plain, rtol=1e-12)
    np.testing.assert_allclose(drawn["scaled"][1], np.multiply(4, plain), rtol=1e-12)
    assert drawn["pair 2"][1] == pytest.approx(4 * plain[2])
    assert (
        picture.words
        == "Wavelengths from 25.13 to 794.8 positions; pair 2: 251.3. The scaling: divided by 4: pairs 0–3."
    )


def test_pairs_that_stand_still_have_no_wavelength():
    still = Rotary(head_dim=8, layout="half", scaling=Proportional(partial_rotary_factor=0.5))
    picture = wavelengths(View(encoding=still, length=9, pair=3))
    assert len(traces(picture)["scaled"][0]) == 2
    assert "pair 3: does not rotate." in picture.words


def test_products_with_the_middle_row():
    picture = dot_products(View(encoding=ROTARY, length=9))
    (values,) = (y for _, y in traces(picture).values())
    np.testing.assert_allclose(
        values, [sum(math.cos((p - 4) * 100 ** (-i / 4)) for i in range(4)) for p in range(9)], atol=1e-6
    )


def test_scores_by_distance():
    scores = traces(decay(View(encoding=ROTARY, length=9)))["score of ones"][1]
    np.testing.assert_allclose(
        scores, [sum(math.cos(d * 100 ** (-i / 4)) for i in range(4)) / 4 for d in range(9)], atol=1e-6
    )
    biases = decay(View(encoding=Alibi(num_heads=2), length=5, head=1))
    np.testing.assert_array_equal(traces(biases)["head 1"][1], np.arange(5) * -(2.0**-8))
    assert biases.words == "Query 4, head 1: 0 at distance 0, -0.01562 at 4."


def test_scores_of_products_have_one_scale():
    """A token has the score 1 with itself, whether rows are added or queries and keys are rotated."""
    views = [View(encoding=each, length=9) for each in (ROTARY, Sinusoidal(dim=6), Integer(dim=2))]
    maps = [scores(view).figure for view in views]
    for figure in maps[:2]:
        np.testing.assert_allclose(np.diag(figure.data[0].z), 1, atol=1e-6)
    assert np.diag(maps[2].data[0].z).mean() == pytest.approx(1)
    np.testing.assert_allclose(maps[2].data[0].z, np.outer(range(9), range(9)) / (np.arange(9.0) ** 2).mean())
    hidden = scores(View(encoding=ReRoPE(rotary=ROTARY, window=3), length=9)).figure
    share_axes([maps[1], hidden])
    assert maps[1].data[0].zmin == hidden.data[0].zmin == min(np.nanmin(each.data[0].z) for each in (maps[1], hidden))
    assert hidden.data[0].zmax == pytest.approx(1)


def test_slopes():
    picture = slopes(View(encoding=Alibi(num_heads=2), length=5, head=1))
    assert traces(picture)["slope"][1].tolist() == [2**-4, 2**-8]
    assert picture.words == "2 slopes from 0.0625 to 0.003906; head 1: 0.003906."


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_a_pair_turns(direction):
    rotary = Rotary(head_dim=8, layout="half", base=100, direction=direction)
    picture = rotation(View(encoding=rotary, length=20, pair=1, position=7))
    angle = 7 * 100 ** (-1 / 4) * (1 if direction == "forward" else -1)
    (before_x, _), (x, y) = traces(picture).values()
    assert len(before_x) == 8
    assert (x[-1], y[-1]) == (pytest.approx(math.cos(angle), abs=1e-7), pytest.approx(math.sin(angle), abs=1e-7))
    assert picture.words.startswith("Position 7: pair 1 has made 0.3523 turns; (1, 0) is now")


def test_errors_begin_where_precision_says():
    picture = errors(View(encoding=LLAMA, length=9))
    assert picture.words == "Off by 0.001 or more, float32: from position 20,121; bfloat16: from position 1."
    position, error = traces(picture)["float32"]
    assert error[position < 20121].max() < 1e-3 <= error[position > 20200].min()
    narrow = Rotary(head_dim=128, layout="half", base=5e5, precision="float32")
    assert errors(View(encoding=narrow, length=9)).words == picture.words
