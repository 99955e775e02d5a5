"""`out`: the result is written to it, or an error says why not; never a wrong number, however memory overlaps."""

import numpy as np
import pytest

from posenc_core import combine, rotate, unrotate

RNG = np.random.default_rng(17)
LAYOUTS = ("half", "interleaved", "interleaved_to_half")
SHAPE = (2, 3, 33, 64)


def tokens(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture
def tables(to_backend):
    return to_backend(tokens(33, 32)), to_backend(tokens(33, 32))


@pytest.fixture
def writable(backend, to_backend):
    """Return whether arrays of the framework can be written to."""
    array = to_backend(np.zeros(2))
    try:
        array[...] = to_backend(np.ones(2))
    except TypeError:
        pytest.skip("Arrays of this framework are immutable.")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotated", [rotate, unrotate])
def test_results_are_written_to_it(backend, to_backend, tables, writable, layout, rotated):
    numbers = tokens(*SHAPE)
    wanted = backend.to_numpy(rotated(to_backend(numbers), *tables, layout=layout))
    x, out = to_backend(numbers), to_backend(np.zeros(SHAPE))
    assert rotated(x, *tables, layout=layout, out=out) is out
    np.testing.assert_array_equal(backend.to_numpy(out), wanted)
    np.testing.assert_array_equal(backend.to_numpy(x), numbers)
    assert rotated(x, *tables, layout=layout, out=x) is x
    np.testing.assert_array_equal(backend.to_numpy(x), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [1, 64, -64])
def test_out_may_overlap_the_tokens(backend, to_backend, tables, writable, layout, shift):
    """Slices may be views or copies."""
    numbers, size = tokens(*SHAPE), int(np.prod(SHAPE))
    wanted = backend.to_numpy(rotate(to_backend(numbers), *tables, layout=layout))
    ends = (np.zeros(max(-shift, 0)), np.zeros(max(shift, 0)))
    memory = to_backend(np.concatenate([ends[0], numbers.ravel(), ends[1]]))
    start = max(-shift, 0)
    xp = backend.namespace
    x, out = (xp.reshape(memory[begin : begin + size], SHAPE) for begin in (start, start + shift))
    rotate(x, *tables, layout=layout, out=out)
    np.testing.assert_array_equal(backend.to_numpy(out), wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [0, 1])
def test_it_may_overlap_the_tables(backend, to_backend, writable, layout, shift):
    numbers, rows = tokens(600, 64), tokens(601, 64)  # more than one part of what NumPy rotates part by part
    tables = (to_backend(rows[:600, 32 * which : 32 * which + 32]) for which in (0, 1))
    wanted = backend.to_numpy(rotate(to_backend(numbers), *tables, layout=layout))
    memory = to_backend(rows)
    rotate(
        to_backend(numbers), memory[:600, :32], memory[:600, 32:], layout=layout, out=memory[shift : 600 + shift, ...]
    )
    if np.array_equal(backend.to_numpy(memory), rows):
        pytest.skip("Slices of this framework are copies.")
    np.testing.assert_array_equal(backend.to_numpy(memory)[shift : 600 + shift], wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_are_added_in_place(on, backend, to_backend, writable, dtype):
    if dtype in on.known_failures:
        pytest.skip(on.known_failures[dtype])
    x, rows = on.testing.cast(to_backend(tokens(2, 33, 64)), dtype), to_backend(tokens(33, 64))
    wanted = backend.to_numpy(combine(x, rows, how="add"))
    out = on.testing.cast(to_backend(np.zeros((2, 33, 64))), dtype)
    for place in (out, x):
        assert combine(x, rows, how="add", out=place) is place
        np.testing.assert_array_equal(backend.to_numpy(place), wanted)


def test_appended_rows_are_written_to_out(backend, to_backend, writable):
    x, rows, out = (to_backend(tokens(*shape)) for shape in ((2, 33, 64), (33, 8), (2, 33, 72)))
    assert combine(x, rows, how="concat", out=out) is out
    np.testing.assert_array_equal(backend.to_numpy(out), backend.to_numpy(combine(x, rows, how="concat")))
    with pytest.raises(ValueError, match=r"`out` must have shape \(2, 33, 72\), got \(2, 33, 64\)"):
        combine(x, rows, how="concat", out=x)


def test_rows_are_not_added_to_immutable_arrays(backend, to_backend):
    x, rows = to_backend(tokens(2, 33, 64)), to_backend(tokens(33, 64))
    before = backend.to_numpy(x).copy()
    if hasattr(x, "flags"):
        x.flags.writeable = False
    try:
        combine(x, rows, how="add", out=x)
    except TypeError as error:
        assert "`out` must be an array that can be written to" in str(error)  # noqa: PT017 - if it raises at all
        np.testing.assert_array_equal(backend.to_numpy(x), before)
    else:
        np.testing.assert_array_equal(backend.to_numpy(x), before + backend.to_numpy(rows))


@pytest.mark.parametrize("shape", [(2, 3, 33, 65), (33, 64), (1, 3, 33, 64), (2, 3, 64, 33)])
def test_another_shape_is_rejected(to_backend, tables, shape):
    with pytest.raises(ValueError, match=r"`out` must have shape \(2, 3, 33, 64\), got"):
        rotate(to_backend(tokens(*SHAPE)), *tables, layout="half", out=to_backend(np.zeros(shape)))


def test_another_dtype_is_rejected(on, to_backend, tables):
    other = next(name for name in ("float16", "bfloat16", "float64") if name not in on.known_failures)
    out = on.testing.cast(to_backend(np.zeros(SHAPE)), other)
    with pytest.raises(TypeError, match=f"`out` must be float32, got {other}"):
        rotate(to_backend(tokens(*SHAPE)), *tables, layout="half", out=out)


def test_arrays_of_other_libraries_are_rejected(to_backend, tables):
    with pytest.raises(TypeError, match="`out` must be an array of"):
        rotate(to_backend(tokens(*SHAPE)), *tables, layout="half", out=[1.0])


def test_immutable_arrays_are_rejected(backend, to_backend, tables):
    x, out = (to_backend(tokens(*SHAPE)) for _ in range(2))
    if hasattr(out, "flags"):
        out.flags.writeable = False
    before = backend.to_numpy(out).copy()
    try:
        rotate(x, *tables, layout="half", out=out)
    except TypeError as error:
        assert "`out` must be an array that can be written to" in str(error)  # noqa: PT017 - if it raises at all
        np.testing.assert_array_equal(backend.to_numpy(out), before)
    else:
        np.testing.assert_array_equal(backend.to_numpy(out), backend.to_numpy(rotate(x, *tables, layout="half")))
