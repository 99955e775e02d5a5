"""Arguments of `rotate` that are refused, whichever kernel or operators would rotate."""

import re

import numpy as np
import pytest

from posenc_core import rotate

X, COS = np.ones((2, 3, 8), np.float32), np.ones((3, 4), np.float32)
WRONG = {
    "x without axes": (X[0, 0, 0], COS, COS, ValueError, "`x` must have at least one axis"),
    "cosine without axes": (X, COS[0, 0], COS, ValueError, "`cos` must have at least one axis"),
    "sine without axes": (X, COS, COS[0, 0], ValueError, "`sin` must have at least one axis"),
    "sine of one column": (X, COS, COS[:, :1], ValueError, "`sin` must have a column for each of the 4 pairs"),
    "complex cosine": (X, COS.astype(np.complex64), COS, TypeError, "`cos` must be floating-point, got complex"),
    "complex sine": (X, COS, COS.astype(np.complex64), TypeError, "`sin` must be floating-point, got complex"),
    "list as cosine": (X, COS.tolist(), COS, TypeError, "`cos` must be an array, got list"),
    "list as sine": (X, COS, COS.tolist(), TypeError, "`sin` must be an array, got list"),
    "number as cosine": (X, 1.0, COS, TypeError, "`cos` must be an array, got float"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("blocks", [1, 2])
def test_wrong_arguments_are_refused(on, to_backend, wrong, blocks):
    x, cos, sin, error, message = wrong
    given = [each if isinstance(each, (list, float)) else _given(on, to_backend, each) for each in (x, cos, sin)]
    with pytest.raises(error, match=re.escape(message)):
        rotate(*given, layout="half", blocks=blocks)


@pytest.mark.parametrize("name", ["complex cosine", "complex sine", "sine of one column", "list as cosine"])
def test_compiled_code_refuses_them_likewise(on, to_backend, name):
    if "compiled" in on.known_failures or on.backend.__name__.endswith("mxnet"):
        pytest.skip("a framework that compiles no functions")
    x, cos, sin, _, message = WRONG[name]
    cos, sin = (each if isinstance(each, list) else _given(on, to_backend, each) for each in (cos, sin))

    def rotated(x):
        return rotate(x, cos, sin, layout="half")

    with pytest.raises(Exception, match=re.escape(message)):  # compilers wrap errors
        on.testing.compiled(rotated)(to_backend(x))


def _given(on, to_backend, array):
    """Return the array of the framework; MXNet has no complex numbers."""
    if not np.iscomplexobj(array):
        return to_backend(array)
    if on.backend.__name__.endswith("mxnet"):
        pytest.skip("a framework without complex numbers")
    return on.backend.from_numpy(array)


@pytest.mark.parametrize("name", ["cos", "sin"])
def test_tables_of_another_library_are_refused_or_taken(on, to_backend, name):
    """JAX takes arrays of NumPy."""
    tables = {each: to_backend(COS) for each in ("cos", "sin")} | {name: COS}
    x, wanted = to_backend(X), rotate(X, COS, COS, layout="half")
    try:
        rotated = on.backend.to_numpy(rotate(x, **tables, layout="half"))
    except TypeError as error:
        assert str(error) == f"`{name}` must be an array of {type(x).__name__}'s library, got ndarray."  # noqa: PT017
    else:
        np.testing.assert_allclose(rotated, wanted, rtol=0, atol=1e-6)
