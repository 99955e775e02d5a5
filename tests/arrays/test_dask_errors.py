"""Arrays of dask that do not fit: at once where their shapes or dtypes tell, else when they are computed."""

import re

import dask.array as da
import numpy as np
import pytest

import posenc_core as p

ROTARY = p.Rotary(head_dim=8, layout="half")
X = da.ones((2, 3, 40, 8), chunks=(1, 3, 16, 8), dtype=np.float32)
COUNT = da.arange(40, chunks=16)
ODD = COUNT[COUNT % 2 == 1]  # of a length that only computing would tell


def some():
    """Tokens of unknown number."""
    return X[:, :, COUNT % 2 == 1]


def test_positions_of_unknown_length_have_tables_of_unknown_length():
    table = p.Sinusoidal(dim=4).table(ODD)
    assert np.isnan(table.shape[0])
    np.testing.assert_array_equal(table.compute(), p.Sinusoidal(dim=4).table(range(1, 40, 2)), strict=True)
    cos, sin = ROTARY.cos_sin(ODD)
    rotated = p.rotate(
        some().compute_chunk_sizes(), cos.compute_chunk_sizes(), sin.compute_chunk_sizes(), layout="half"
    )
    np.testing.assert_array_equal(
        rotated.compute()[0, 0], p.rotate(np.ones((20, 8), np.float32), *ROTARY.cos_sin(range(1, 40, 2)), layout="half")
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: p.rotate(some(), *ROTARY.cos_sin(range(20)), layout="half"),
         "`x` must have known sizes, got shape (2, 3, nan, 8)"),
        (lambda: p.rotate(X, *ROTARY.cos_sin(ODD), layout="half"), "`cos` must have known sizes, got shape (nan, 4)"),
        (lambda: p.rotate(X, ROTARY.cos_sin(COUNT)[0], ROTARY.cos_sin(ODD)[1], layout="half"),
         "`sin` must have known sizes"),
        (lambda: p.attend(X, some(), some()), "`v` must have known sizes, got shape (2, 3, nan, 8)"),
        (lambda: p.attend(X, some(), X), "`k` must have known sizes"),
        (lambda: p.rotate(X, *ROTARY.cos_sin(COUNT[:20]), layout="half"),
         "`cos` must broadcast to shape (2, 3, 40, 4), got (20, 4)."),
        (lambda: p.Sinusoidal(dim=4).table(da.asarray(np.array(3))),
         "`positions` must have shape (..., length), got 0 axes"),
        (lambda: p.Alibi(num_heads=1).bias(da.asarray(np.array(3)), range(3)),
         "`positions` must have shape (..., length), got 0 axes"),
        (lambda: p.GridSinusoidal(dim=8, convention="mae").table(da.ones((3, 5))),
         "`positions` must have shape (2, ..., length), got (3, 5)"),
        (lambda: p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)).cos_sin(da.ones((3, 5))),
         "must have shape (2, ..., length), got (3, 5)"),
    ],
)  # fmt: skip
def test_shapes_tell_at_once(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize("dtype", [bool, complex, object])
@pytest.mark.parametrize(
    "call",
    [p.Sinusoidal(dim=4).table, ROTARY.cos_sin, lambda positions: p.Alibi(num_heads=1).bias(range(3), positions)],
    ids=["table", "cos_sin", "bias"],
)
def test_dtypes_tell_at_once(call, dtype):
    with pytest.raises(TypeError, match="`positions` must be integers or real numbers, got "):
        call(da.ones(3, chunks=2).astype(dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: p.Sinusoidal(dim=4).table(COUNT * 2.0**30),
         "`positions` must be finite and below 2**31 in size, got 34359738368.0."),
        (lambda: ROTARY.cos_sin(COUNT * np.nan)[0], "`positions` must be finite and below 2**31 in size, got nan."),
        (lambda: p.Alibi(num_heads=1).bias(COUNT, COUNT / 0),
         "`positions` must be finite and below 2**31 in size, got "),
        (lambda: p.Binary(dim=5).table(COUNT), "must lie from 0 to 31, got 32."),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value) encountered:RuntimeWarning")
def test_numbers_tell_when_they_are_computed(call, message):
    lazy = call()
    with pytest.raises(ValueError, match=re.escape(message)):
        lazy.compute(scheduler="synchronous")


def test_positions_to_rerotate_and_bounds_are_read_at_once():
    """As the page says; the keys are not."""
    read = []
    lazy = da.map_blocks(
        lambda block: (read.append("keys"), block)[1], X, dtype=X.dtype, meta=np.empty((0,) * 4, X.dtype)
    )
    positions = da.map_blocks(
        lambda block: (read.append("positions"), block)[1], COUNT, dtype=int, meta=np.empty(0, int)
    )
    moved = p.rerotate(lazy, positions, COUNT + 1, rotary=ROTARY)
    assert set(read) == {"positions"}
    wanted = p.rerotate(np.ones(X.shape, np.float32), range(40), range(1, 41), rotary=ROTARY)
    np.testing.assert_array_equal(moved.compute(scheduler="synchronous"), wanted)
    assert set(read) == {"positions", "keys"}
    np.testing.assert_array_equal(p.from_cu_seqlens(da.asarray(np.array([0, 3, 5]))), [0, 1, 2, 0, 1])
