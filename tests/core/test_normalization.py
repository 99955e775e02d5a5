"""`normalize_and_rotate` against the definition in float64."""

import numpy as np
import pytest

from posenc_core import Rotary, normalize_and_rotate, rotate

from ..errors import rejects

RNG = np.random.default_rng(40)
X = RNG.normal(size=(2, 3, 5, 8))
COS, SIN = Rotary(head_dim=8, layout="half").cos_sin([0, 1, 255, 2**20, -7])
PER_HEAD, PER_ROW = RNG.normal(size=8), RNG.normal(size=24)


def by_definition(x, tables, weight, *, offset, epsilon, order, head_axis):
    """The norm and the rotation in float64."""
    axes = -1 if head_axis is None else (head_axis, -1)
    shape = {None: (8,), -3: (3, 1, 8), -2: (3, 8)}[head_axis]
    gain = 1.0 if weight is None else offset + weight.reshape(shape)

    def normalized(x):
        return x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon) * gain

    tables = [table.astype(float) for table in tables]
    if order == "norm_first":
        return rotate(normalized(x), *tables, layout="half")
    return normalized(rotate(x, *tables, layout="half"))


@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
@pytest.mark.parametrize(
    ("weight", "offset", "epsilon", "head_axis"),
    [(None, 0.0, 1e-6, None), (PER_HEAD, 1.0, 0.5, None), (PER_ROW, 0.0, 0.0, -3), (PER_ROW, 0.5, 1e-5, -2)],
)
def test_it_is_the_definition_rounded_once(xp, order, weight, offset, epsilon, head_axis):
    x, cos, sin = X, COS, SIN
    if head_axis == -2:
        x, cos, sin = X.swapaxes(-2, -3), COS[:, None], SIN[:, None]
    options = {"offset": offset, "epsilon": epsilon, "order": order, "head_axis": head_axis}
    wanted = by_definition(x, (cos, sin), weight, **options)
    for dtype, atol in (("float64", 1e-14), ("float32", 4e-6)):
        own = x.astype(dtype)
        given = None if weight is None else xp.asarray(weight.astype(dtype))
        out = xp.asarray(own)
        got = normalize_and_rotate(
            xp.asarray(own), *map(xp.asarray, (cos, sin)), layout="half", weight=given, out=out, **options
        )
        assert got is out
        assert got.dtype == xp.asarray(own).dtype
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
def test_half_precision_is_rounded_once(order):
    x, options = X.astype(np.float16), {"layout": "half", "order": order, "offset": 1.0}
    wide = normalize_and_rotate(x.astype(np.float32), COS, SIN, weight=PER_HEAD.astype(np.float32), **options)
    got = normalize_and_rotate(x, COS, SIN, weight=PER_HEAD.astype(np.float32), **options)
    np.testing.assert_array_equal(got, wide.astype(np.float16))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"offset": 1.0}, ValueError, ("offset", "weight")),
        ({"epsilon": -1e-6}, ValueError, ("epsilon", "0")),
        ({"order": "norm"}, ValueError, ("order", "norm_first")),
        ({"head_axis": -1}, ValueError, ("head_axis", "-2")),
        ({"weight": PER_ROW}, ValueError, ("weight", "8", "24")),
        ({"weight": PER_HEAD, "head_axis": -3}, ValueError, ("weight", "24", "8")),
        ({"weight": PER_HEAD[None]}, ValueError, ("weight",)),
        ({"weight": np.arange(8)}, TypeError, ("weight", "int64")),
    ],
)
def test_what_does_not_fit_is_refused(options, error, words):
    with rejects(error, *words):
        normalize_and_rotate(X, COS, SIN, layout="half", **options)


def test_a_row_needs_heads():
    with rejects(ValueError, "x", "length"):
        normalize_and_rotate(X[0, 0], COS, SIN, layout="half", head_axis=-3)
