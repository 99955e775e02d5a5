"""Resized tables against exact sums over padded rows; grown distances against mpmath; what stays; what is rejected."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from posenc_core import SwinBias, resize_bias_table, resize_table
from posenc_core.weights.resample import METHODS

from ..errors import rejects

RNG = np.random.default_rng(11)
GRIDS = [
    ((7,), (12,)),
    ((7,), (3,)),
    ((5,), (1,)),
    ((1,), (4,)),
    ((3, 4), (6, 5)),
    ((5, 3), (2, 7)),
    ((2, 3, 4), (3, 3, 2)),
]


def drawn(*shape):
    return RNG.normal(size=shape)


def keys(x, a):
    """Cubic convolution: 1 at 0, 0 at all other whole numbers, slope `a` at 1."""
    x = abs(x)
    if x <= 1:
        return 1 - x * x * (a + 3 - (a + 2) * x)
    return a * (x - 1) * (x - 2) ** 2 if x <= 2 else Fraction(0)


def share(method, old, new, i, j):
    """How much of row `j`, which may lie beyond the border, the new row `i` takes; a cell spans from j to j + 1."""
    place = Fraction(2 * i + 1, 2 * new) * old - Fraction(1, 2)
    width = max(Fraction(old, new), Fraction(1)) if method.startswith("antialiased") else 1
    if method == "aligned_linear":
        place = Fraction(i * (old - 1), new - 1) if new > 1 else Fraction(0)
    distance = (j - place) / width
    if method.endswith("linear"):
        return max(1 - abs(distance), Fraction(0))
    return keys(distance, Fraction(-1, 2) if method.startswith("antialiased") else Fraction(-3, 4))


def line(rows, new, method):
    """Rows, lists of fractions, resized to `new` of them."""
    old = len(rows)
    repeated = 0 if method.startswith("antialiased") else 4
    padded = [rows[0]] * repeated + rows + [rows[-1]] * repeated
    result = []
    for i in range(new):
        shares = [share(method, old, new, i, j - repeated) for j in range(len(padded))]
        sums = [sum(s * v for s, v in zip(shares, column, strict=True)) for column in zip(*padded, strict=True)]
        result.append([total / sum(shares) for total in sums])
    return result


def resized(table, old, new, method):
    """A grid resized axis by axis in fractions, as float64: `(prod(old), dim)` to `(prod(new), dim)`."""
    grid = np.vectorize(Fraction, otypes=[object])(table.astype(np.float64)).reshape(*old, -1)
    for axis, size in enumerate(new):
        if size != grid.shape[axis]:
            ahead = np.moveaxis(grid, axis, 0)
            flat = line([list(row) for row in ahead.reshape(len(ahead), -1)], size, method)
            grid = np.moveaxis(np.array(flat, dtype=object).reshape(size, *ahead.shape[1:]), 0, axis)
    return grid.reshape(-1, table.shape[-1]).astype(np.float64)


def slack(table, old, new):
    """What roundings may add up to: of each row its weight, the product and the sum, on each axis.

    The sizes of the weights of a row add up to 11/8 at most: 4 * 3/32 below 0 and above 1, for a = -3/4 in the middle
    of two rows. A kernel that is cut off at the border has a larger share below 0, but no more than twice as much.
    """
    most = 2 if len(old) == 1 else 2 ** len(old)
    taps = sum(4 * max(math.ceil(before / after), 1) + 2 for before, after in zip(old, new, strict=True))
    return taps * most * np.finfo(table.dtype).eps / 2 * np.abs(table).max()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("old", "new"), GRIDS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_are_sums_over_the_rows_around_them(method, old, new, dtype):
    table = drawn(math.prod(old), 3).astype(dtype)
    got = resize_table(table, size=new, old_size=old, method=method)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, resized(table, old, new, method), rtol=0, atol=slack(table, old, new))


@pytest.mark.parametrize("method", METHODS)
def test_long_tables_are_resized_as_short_ones_are(method):
    old, new = 2**17, 2**20 + 3
    table = drawn(old, 1).astype(np.float32)
    got = resize_table(table, size=new, method=method)
    for i in (0, 1, 524289, new - 2, new - 1):
        around = range(max(i * old // new - 6, 0), min(i * old // new + 7, old))
        shares = {j: share(method, old, new, i, j) for j in range(around.start - 6, around.stop + 6)}
        if method.startswith("antialiased"):
            shares = {j: s for j, s in shares.items() if 0 <= j < old}
        wanted = sum(s * Fraction(float(table[min(max(j, 0), old - 1), 0])) for j, s in shares.items())
        wanted /= sum(shares.values())
        np.testing.assert_allclose(got[i, 0], float(wanted), rtol=0, atol=slack(table, (old,), (new,)))


@pytest.mark.parametrize("method", METHODS)
def test_a_table_turned_round_gives_a_result_turned_round(method):
    table = drawn(7, 2)
    for new in (4, 10):
        back = resize_table(table[::-1], size=new, method=method)[::-1]
        np.testing.assert_allclose(resize_table(table, size=new, method=method), back, rtol=0, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_stay_equal(method):
    got = resize_table(np.full((35, 2), 0.1), size=(3, 12), old_size=(7, 5), method=method)
    np.testing.assert_allclose(got, 0.1, rtol=1e-15)


def test_methods_differ_but_for_linear_ones_that_have_nothing_to_widen():
    table = drawn(6, 1)
    for new, same in ((4, set()), (9, {("antialiased_linear", "linear")})):
        results = {method: resize_table(table, size=new, method=method) for method in METHODS}
        pairs = itertools.combinations(METHODS, 2)
        assert {pair for pair in pairs if np.abs(results[pair[0]] - results[pair[1]]).max() < 1e-3} == same


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_table_of_the_same_size_is_the_same(dtype):
    table = drawn(13, 2).astype(dtype)
    assert resize_table(table, size=(3, 4), old_size=(3, 4), prefix_tokens=1) is table
    assert resize_table(table, size=13) is table
    window = table[:12]
    assert resize_bias_table(window, window=(2, 2), prefix_tokens=1) is window


def test_an_axis_of_the_same_size_keeps_its_numbers():
    table = drawn(3, 5, 2)
    table[1, 2] = np.inf
    got = resize_table(table.reshape(15, 2), size=(6, 5), old_size=(3, 5)).reshape(6, 5, 2)
    assert np.isfinite(got[:, [0, 1, 3, 4]]).all()


def test_rows_that_belong_to_no_cell_stay_as_they_are():
    table = drawn(2 + 9, 3).astype(np.float32)
    table[0] = [np.nan, -0.0, np.inf]
    got = resize_table(table, size=(4, 5), prefix_tokens=2)
    assert got.shape == (22, 3)
    assert got[:2].tobytes() == table[:2].tobytes()
    np.testing.assert_array_equal(got[2:], resize_table(table[2:], size=(4, 5)))
    bias = np.concatenate([drawn(25, 2), [[np.nan, -0.0], [1e300, 5e-324], [np.inf, 0.1]]])
    for method in ("cubic", "geometric"):
        got = resize_bias_table(bias, window=(5, 4), prefix_tokens=1, method=method)
        assert got[-3:].tobytes() == bias[-3:].tobytes()
        np.testing.assert_array_equal(got[:-3], resize_bias_table(bias[:-3], window=(5, 4), method=method))


def test_tables_of_several_layers_are_resized_one_by_one():
    tables = drawn(2, 3, 10, 4)
    got = resize_table(tables, size=(2, 4), prefix_tokens=1)
    for layer in np.ndindex(2, 3):
        np.testing.assert_array_equal(got[layer], resize_table(tables[layer], size=(2, 4), prefix_tokens=1))


def test_half_precision_is_blended_in_float32_and_rounded_once(to_backend, backend):
    table = drawn(10, 3).astype(np.float16)
    wide = resize_table(table.astype(np.float32), size=(5, 4), prefix_tokens=1)
    got = resize_table(to_backend(table, "float16"), size=(5, 4), prefix_tokens=1)
    assert backend.to_numpy(got).dtype == np.float16
    np.testing.assert_array_equal(backend.to_numpy(got), wide.astype(np.float16))


@pytest.mark.parametrize("method", METHODS)
def test_arrays_of_any_standard_library_will_do(xp, method):
    table = drawn(9, 2).astype(np.float32)
    got = resize_table(xp.asarray(table), size=(2, 4), method=method)
    np.testing.assert_array_equal(np.asarray(got), resize_table(table, size=(2, 4), method=method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("old", "new"), [((3, 3), (4, 6)), ((4, 2), (2, 3)), ((5,), (8,)), ((2, 3, 2), (3, 2, 2))], ids=str
)
def test_tables_of_windows_are_grids_of_relative_positions(method, old, new):
    before, after = (tuple(2 * size - 1 for size in window) for window in (old, new))
    table = drawn(math.prod(before), 2)
    got = resize_bias_table(table, window=new, old_window=old, method=method)
    wanted = resized(table, before, after, method)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=slack(table, before, after))


@pytest.mark.parametrize("prefix", [0, 1])
def test_windows_grow_into_what_the_encoding_asks_for(prefix):
    old, new = (SwinBias(num_heads=3, window=window, prefix_tokens=prefix) for window in ((7, 7), (12, 9)))
    table = drawn(*old.parameters()["table"].shape)
    got = resize_bias_table(table, window=new.window, prefix_tokens=prefix)
    assert got.shape == new.parameters()["table"].shape


def growth(count, border):
    """BEiT's ratio, to 30 digits: where the geometric sum reaches the border, between 1.01 and 1.5."""
    with mp.workdps(30):
        slow, fast = mp.mpf("1.01"), mp.mpf("1.5")
        nearest, farthest = ((q**count - 1) / (q - 1) for q in (slow, fast))
        if not nearest < border < farthest:
            return slow if border <= nearest else fast
        return mp.findroot(lambda q: (q**count - 1) / (q - 1) - border, (slow, fast), solver="anderson")


@pytest.mark.parametrize(("old", "new"), [(4, 5), (4, 7), (7, 12), (8, 9), (14, 24), (4, 30), (9, 4), (2, 6)])
def test_distances_grow_geometrically(old, new):
    """Of a table that holds its own distances, of what comes between them, and of what lies past the border."""
    q = growth(old - 1, new - 1) if old > 2 else mp.mpf(1)
    places = [float(mp.fsum(q**k for k in range(n))) for n in range(old)]
    table = np.array([-n for n in places[:0:-1]] + places)[:, None]
    got = resize_bias_table(table, window=(new,), method="geometric")[:, 0]
    targets = np.arange(1 - new, new)
    np.testing.assert_allclose(got, np.clip(targets, table[0, 0], table[-1, 0]), rtol=0, atol=1e-12)
    squares = resize_bias_table(table**2, window=(new,), method="geometric")[:, 0]
    for target, square in zip(abs(targets), squares, strict=True):
        first = max((p for p in places if p <= target + 1e-9), default=0)
        last = min((p for p in places if p >= target - 1e-9), default=places[-1])
        blended = first**2 + (target - first) * (first + last) if last > first else first**2
        assert square == pytest.approx(blended, abs=1e-7)


def test_next_neighbours_keep_their_bias():
    table = drawn(13 * 13, 2)
    got = resize_bias_table(table, window=(12, 9), method="geometric").reshape(23, 17, 2)
    np.testing.assert_allclose(got[10:13, 7:10], table.reshape(13, 13, 2)[5:8, 5:8], rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "sizes",
    [np.array([4, 5]), [4, 5], (np.int64(4), np.int32(5)), iter((4, 5))],
    ids=["array", "list", "tuple", "iterator"],
)
def test_sizes_may_be_any_integers(sizes):
    table = drawn(9, 1)
    np.testing.assert_array_equal(resize_table(table, size=sizes), resize_table(table, size=(4, 5)))


TABLE = np.zeros((197, 2))


@pytest.mark.parametrize(
    ("table", "words", "kind", "names"),
    [
        (TABLE, {"size": 0}, ValueError, ("size", "0")),
        (TABLE, {"size": (14, 0)}, ValueError, ("size", "0")),
        (TABLE, {"size": ()}, ValueError, ("size", "()")),
        (TABLE, {"size": 14.0}, TypeError, ("size", "14.0")),
        (TABLE, {"size": "14"}, TypeError, ("size", "'14'")),
        (TABLE, {"size": -1}, ValueError, ("size", "-1")),
        (TABLE, {"size": True}, TypeError, ("size", "True")),
        (TABLE, {"size": (16, 16)}, ValueError, ("old_size", "`table`", "`prefix_tokens`", "0", "197")),
        (TABLE, {"size": (16, 16), "old_size": (14, 14)}, ValueError, ("old_size", "(14, 14)")),
        (TABLE, {"size": 9, "old_size": 196}, ValueError, ("old_size", "(196,)")),
        (TABLE, {"size": (16, 16), "old_size": 197}, ValueError, ("old_size", "197")),
        (TABLE, {"size": 16, "prefix_tokens": -1}, ValueError, ("prefix_tokens", "-1")),
        (TABLE, {"size": 16, "prefix_tokens": True}, TypeError, ("prefix_tokens", "True")),
        (TABLE, {"size": 16, "prefix_tokens": 197}, ValueError, ("table", "(197, 2)")),
        (np.zeros((0, 2)), {"size": 16}, ValueError, ("table", "(0, 2)")),
        (TABLE, {"size": 16, "method": "bicubic"}, ValueError, ("method", "'bicubic'")),
        (TABLE, {"size": 16, "method": "geometric"}, ValueError, ("method", "'geometric'")),
        (TABLE, {"size": 16, "offset": 1}, ValueError, ("offset", "1")),
        (TABLE, {"size": 16, "offset": -0.1}, ValueError, ("offset", "-0.1")),
        (TABLE, {"size": 16, "offset": 0.1, "method": "linear"}, ValueError, ("offset", "0.1", "`method`")),
        (TABLE.astype(int), {"size": 16}, TypeError, ("table", "int64")),
        (np.zeros(5), {"size": 16}, ValueError, ("table", "(5,)")),
        ([[0.0]], {"size": 16}, TypeError, ("table", "list")),
    ],
)
def test_tables_and_sizes_that_do_not_fit(table, words, kind, names):
    with rejects(kind, *names):
        resize_table(table, **words)


@pytest.mark.parametrize(
    ("rows", "words", "names"),
    [
        (49, {"window": (0, 4)}, ("window", "0")),
        (49, {"window": (8, 8), "old_window": (4, 4, 1)}, ("old_window", "(4, 4, 1)")),
        (49, {"window": (8, 8), "old_window": (3, 5)}, ("old_window", "(3, 5)")),
        (52, {"window": (8, 8)}, ("old_window", "`table`", "`prefix_tokens`", "0", "52")),
        (52, {"window": (8, 8), "old_window": (4, 4)}, ("old_window", "(4, 4)")),
        (36, {"window": (8, 8)}, ("old_window", "`table`", "`prefix_tokens`", "0", "36")),
        (3, {"window": (8, 8), "prefix_tokens": 1}, ("table", "(3, 2)")),
        (49, {"window": (8, 8), "prefix_tokens": -1}, ("prefix_tokens", "-1")),
        (49, {"window": (8, 8), "prefix_tokens": 3}, ("prefix_tokens", "3")),
        (49, {"window": (8, 8), "method": "spline"}, ("method", "'spline'")),
    ],
)
def test_windows_that_do_not_fit(rows, words, names):
    with rejects(ValueError, *names):
        resize_bias_table(np.zeros((rows, 2)), **words)
