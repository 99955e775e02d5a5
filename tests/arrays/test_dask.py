"""dask.array: nothing is computed until it is asked for, and then it is what NumPy has."""

import pickle
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest

import posenc_core as p
from posenc_core.encodings import Additive
from posenc_core.encodings.examples import examples
from posenc_core.encodings.rotary.base import RotaryEncoding

from .formulas import UNIT, rotated, sinusoids

CUT = 17
ROW = np.arange(2**20, 2**20 + 53)
REAL = np.linspace(-3, 200, 2 * 53).reshape(2, 53)
COUNTED = np.arange(2 * 53).reshape(2, 53)
CELLS = p.grid(5, 7) / 2
CLIPS = np.stack([p.grid(2, 3, 4), p.grid(2, 3, 4) + 9], axis=1)
PLACES = {1: np.arange(53), 2: CELLS, 3: CLIPS}
TABLES = [
    *((one, PLACES[one.num_axes]) for one in examples(Additive) if not one.parameters()),
    *((p.Integer(dim=3), positions) for positions in (ROW, REAL)),
    (p.Normalized(dim=2, length=200), COUNTED),
    (p.Binary(dim=8), COUNTED),
    *((p.Sine(dim=3, frequencies="endpoint"), positions) for positions in (ROW, REAL)),
    *((p.Sinusoidal(dim=7), positions) for positions in (ROW, REAL, ROW.astype(np.int32), COUNTED.astype(np.float16))),
    (p.Sinusoidal(dim=6, convention="column_index"), COUNTED),
    (p.Timestep(dim=5), REAL),
    (p.GridSinusoidal(dim=8, convention="mae"), ROW),
    (p.GridSinusoidal(dim=16, convention="diffusers", num_axes=3), CLIPS),
    (p.FourierFeatures(dim=6), REAL),
    (p.RandomFourierFeatures(dim=6, scale=1.0, seed=0), REAL),
]
ROTARIES = [
    *((one, PLACES[one.num_axes]) for one in examples(RotaryEncoding)),
    *((p.Rotary(head_dim=10, layout="half", rotary_dim=6), positions) for positions in (ROW, REAL)),
    (p.Rotary(head_dim=8, layout="half", precision="float32", direction="inverse"), ROW),
    (p.XPos(head_dim=8, layout="interleaved"), COUNTED),
    (p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)), ROW),
]


@contextmanager
def untouched():
    """A place where nothing may be computed."""

    def refuse(*_, **__):
        pytest.fail("computed before it was asked for")

    with dask.config.set(scheduler=refuse):
        yield


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def named(value):
    return type(value).__name__ if isinstance(value, Additive | RotaryEncoding) else f"{value.dtype}-{value.ndim}d"


@pytest.mark.parametrize(("encoding", "positions"), TABLES, ids=named)
def test_a_table_is_cut_as_its_positions_are(encoding, positions):
    with untouched():
        lazy = encoding.table(da.from_array(positions, chunks=(*positions.shape[:-1], CUT)))
    assert set(lazy.chunks[-2][:-1]) == {CUT}
    assert (lazy.dtype, lazy.chunks[-1]) == (np.float32, (encoding.dim,))
    np.testing.assert_array_equal(lazy.compute(), encoding.table(positions), strict=True)


@pytest.mark.parametrize(("encoding", "positions"), ROTARIES, ids=named)
def test_cosine_and_sine_are_made_together(encoding, positions):
    with untouched():
        both = encoding.cos_sin(da.from_array(positions, chunks=(*positions.shape[:-1], CUT)))
    assert set(both[0].chunks[-2][:-1]) == {CUT}
    assert both[0].name.rpartition("-")[2] != both[1].name.rpartition("-")[2]
    for lazy, table in zip(dask.compute(*both), encoding.cos_sin(positions), strict=True):
        np.testing.assert_array_equal(lazy, table, strict=True)


def test_axes_that_are_cut_are_put_together():
    encoding = p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))
    lazy = encoding.cos_sin(da.from_array(CELLS, chunks=(1, 5)))[1]
    np.testing.assert_array_equal(lazy.compute(), encoding.cos_sin(CELLS)[1])


def test_a_scaling_takes_its_length():
    rotary = p.Rotary(head_dim=8, layout="half", scaling=p.DynamicNTK(factor=2.0, original_max_position_embeddings=32))
    lazy = rotary.cos_sin(da.arange(64, chunks=CUT), seq_len=64)[0].compute()
    np.testing.assert_array_equal(lazy, rotary.cos_sin(range(64), seq_len=64)[0])
    assert (lazy != rotary.cos_sin(range(64))[0]).any()


def test_a_hundred_million_rows_are_a_small_graph():
    with untouched():
        table = p.Sinusoidal(dim=6).table(da.arange(100_000_000, chunks=1_000_000))
        cos, sin = p.Rotary(head_dim=6, layout="interleaved").cos_sin(da.arange(100_000_000, chunks=1_000_000))
        rotated_x = p.rotate(table, cos, sin, layout="interleaved")
    assert len(dask.optimize(table)[0].__dask_graph__()) <= 3 * table.npartitions
    assert len(dask.optimize(rotated_x)[0].__dask_graph__()) <= 10 * rotated_x.npartitions  # most are names of others
    assert len(pickle.dumps(table)) < 2**17
    some = [49_999_999, 50_000_000, 99_999_999]
    assert (table[some[:1] + some].compute() == sinusoids(some[:1] + some, 6)).all()


@pytest.mark.parametrize("placement", ["lead", "trail", "spread"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_rotation_is_cut_as_its_tokens_are(placement, layout, dtype, rng):
    x = rng.normal(size=(2, 3, 53, 10)).astype(dtype)
    rotary = p.Rotary(head_dim=10, layout=layout, rotary_dim=6, placement=placement)
    lazy = da.from_array(x, chunks=(1, 2, CUT, 10))
    options = {"layout": layout, "placement": placement}
    with untouched():
        tables = rotary.cos_sin(da.from_array(ROW, chunks=20))
        rotated_x = p.rotate(lazy, *tables, **options)
        back = p.unrotate(lazy, *rotary.cos_sin(ROW), **options)
    assert rotated_x.chunks == back.chunks == lazy.chunks
    np.testing.assert_array_equal(rotated_x.compute(), p.rotate(x, *rotary.cos_sin(ROW), **options), strict=True)
    np.testing.assert_array_equal(back.compute(), p.unrotate(x, *rotary.cos_sin(ROW), **options), strict=True)


@pytest.mark.parametrize(
    ("axes", "chunks"),
    [((0, 1, 2, 3), (1, 3, 11, 4)), ((0, 2, 1, 3), (2, 20, 1, 8)), ((1, 0, 2, 3), (-1, -1, 53, 1))],
    ids=str,
)
def test_tokens_may_be_cut_along_any_axis(axes, chunks, rng):
    x = rng.normal(size=(2, 3, 53, 8)).astype(np.float32)
    positions = np.expand_dims(ROW - 2**20, axis=1) if axes[1] == 2 else ROW - 2**20
    with untouched():
        cos, sin = p.Rotary(head_dim=8, layout="interleaved").cos_sin(da.from_array(positions, chunks=7))
        rotated_x = p.rotate(da.from_array(x.transpose(axes), chunks=chunks), cos, sin, layout="interleaved")
    expected = rotated(x, ROW - 2**20).transpose(axes)
    limit = 8 * UNIT * np.abs(x).max()  # two products, a sum, and two tables: each off by half a last place
    np.testing.assert_allclose(rotated_x.compute(), expected, rtol=0, atol=limit)


def test_rows_of_a_batch_have_positions_of_their_own(rng):
    x, positions = rng.normal(size=(2, 3, 53, 8)).astype(np.float32), COUNTED % 31
    with untouched():
        cos, sin = p.Rotary(head_dim=8, layout="interleaved").cos_sin(da.from_array(positions, chunks=(1, 10)))
        rotated_x = p.rotate(da.from_array(x, chunks=(2, 3, 20, 8)), cos[:, None], sin[:, None], layout="interleaved")
    limit = 8 * UNIT * np.abs(x).max()
    np.testing.assert_allclose(rotated_x.compute(), rotated(x, positions[:, None]), rtol=0, atol=limit)


def test_tokens_of_numpy_and_lazy_tables_are_lazy(rng):
    x = rng.normal(size=(53, 8)).astype(np.float32)
    rotary = p.Rotary(head_dim=8, layout="half")
    with untouched():
        rotated_x = p.rotate(x, *rotary.cos_sin(da.from_array(ROW, chunks=CUT)), layout="half")
    np.testing.assert_array_equal(rotated_x.compute(), p.rotate(x, *rotary.cos_sin(ROW), layout="half"))


QUERIES = da.from_array(ROW, chunks=CUT)
KEYS = da.from_array(COUNTED[:1] / 2, chunks=(1, 20))


@pytest.mark.parametrize(
    ("queries", "keys"),
    [(QUERIES, QUERIES), (QUERIES, range(2**20, 2**20 + 9)), (list(range(7)), KEYS), (KEYS, KEYS), (KEYS, QUERIES)],
    ids=["both", "queries", "keys", "batch", "mixed"],
)
@pytest.mark.parametrize("sides", ["both", "past"])
def test_a_bias_is_lazy_where_queries_or_keys_are(queries, keys, sides):
    alibi = p.Alibi(num_heads=6, sides=sides)
    with untouched():
        lazy = alibi.bias(queries, keys)
        mask = p.causal(queries, keys) if isinstance(queries, da.Array) and isinstance(keys, da.Array) else None
    known = np.asarray(queries), np.asarray(keys)
    np.testing.assert_array_equal(lazy.compute(), alibi.bias(*known), strict=True)
    assert max(map(max, lazy.chunks)) <= 53
    if mask is not None:
        np.testing.assert_array_equal(mask.compute(), p.causal(*known), strict=True)
