"""Additive layers: grids, coordinates, learned frequencies, and gradients with respect to real positions."""

import math
import re

import mpmath as mp
import numpy as np
import pytest

from posenc_core import (
    Binary,
    FourierFeatures,
    GridSinusoidal,
    Learned,
    LearnedSinusoidal,
    Normalized,
    RandomFourierFeatures,
    Rotary,
    Sinusoidal,
    Timestep,
    grid,
)

REALS = [0.25, 17.5, 1234.5]
PATCHES = GridSinusoidal(dim=8, convention="mae")
MIXED = RandomFourierFeatures(dim=6, scale=0.5, seed=0, num_axes=2)


@pytest.fixture
def layer(on, backend):
    """Makes a layer that evaluates."""

    def make(encoding, *rest, **options):
        return on.testing.eval_mode(backend.PositionalEncoding(encoding.dim, *rest, encoding=encoding, **options))

    return make


@pytest.fixture
def differentiable(on, backend):
    if "gradient" in on.known_failures:
        pytest.skip("This framework has no gradients.")


@pytest.fixture
def compiled(on, backend):
    """Compiles a layer that is called with real positions."""
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    return on.testing.compiled


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("batch", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("encoding", [PATCHES, MIXED], ids=repr)
@pytest.mark.parametrize("real", [False, True], ids=["whole", "real"])
def test_positions_have_an_axis_before_their_batch(backend, to_backend, layer, encoding, batch, real):
    cells = grid(2, 3) + (0.5 if real else 0)
    positions = np.stack([cells + row for row in range(*(batch or (1,)))], axis=1) if batch else cells
    rows = backend.to_numpy(layer(encoding)(to_backend(zeros(3, 6, encoding.dim)), positions=to_backend(positions)))
    np.testing.assert_array_equal(rows, np.broadcast_to(encoding.table(positions), rows.shape))


@pytest.mark.parametrize("encoding", [PATCHES, MIXED, FourierFeatures(dim=8, num_axes=2)], ids=repr)
def test_positions_on_several_axes_must_be_given(to_backend, layer, encoding):
    message = f"`positions` must be given to {encoding!r}: (2, length), as `grid` makes them."
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(encoding)(to_backend(zeros(1, 6, encoding.dim)))
    for wrong in (grid(1, 2, 3), grid(2, 3)[:1]):
        with pytest.raises(ValueError, match=r"`positions` must have shape \(2, ..., length\)"):
            layer(encoding)(to_backend(zeros(1, 6, encoding.dim)), positions=wrong)
    with pytest.raises(ValueError, match=r"`positions` must have shape .* to fit the tokens"):
        layer(encoding)(to_backend(zeros(1, 5, encoding.dim)), positions=grid(2, 3))


@pytest.mark.parametrize("encoding", [PATCHES, MIXED, Timestep(dim=5), LearnedSinusoidal(dim=5)], ids=repr)
def test_columns_are_appended(backend, to_backend, layer, encoding):
    positions = {} if encoding.num_axes == 1 else {"positions": grid(2, 3)}
    x = np.arange(36, dtype=np.float32).reshape(2, 6, 3)
    both = backend.to_numpy(layer(encoding, combine="concat")(to_backend(x), **positions))
    np.testing.assert_array_equal(both[..., :3], x)
    alone = backend.to_numpy(layer(encoding)(to_backend(zeros(2, 6, encoding.dim)), **positions))
    np.testing.assert_array_equal(both[..., 3:], alone)


def test_real_positions_of_the_framework_are_exact(backend, to_backend, layer):
    times = [0.25, 17.5, 1234.5, 999.0, 2.0**20, 2.0**20 + 0.125]
    for encoding in (Timestep(dim=7, shift=1), Sinusoidal(dim=7)):
        rows = backend.to_numpy(layer(encoding)(to_backend(zeros(1, 6, 7)), positions=to_backend(times)))
        np.testing.assert_array_equal(rows[0], encoding.table(times))


def gradient(on, to_backend, backend, layer, positions, column):
    """That of one column with respect to the positions, and how far it may be off where it is computed in float32."""
    traced = []

    def call(given):
        traced.append(backend.is_traced(given))
        return layer(to_backend(zeros(1, len(positions), layer.encoding.dim)), positions=given)

    weights = np.zeros((1, len(positions), layer.encoding.dim), np.float32)
    weights[..., column] = 1
    got = backend.to_numpy(on.testing.gradient(call, to_backend(positions, np.float32), to_backend(weights)))
    return got, np.abs(positions) * 2.0**-23 + 2.0**-22 if traced[0] else 2.0**-24


@pytest.mark.usefixtures("differentiable")
def test_the_derivative_of_a_sine_is_a_cosine(on, backend, to_backend, layer):
    positions = np.array([*REALS, 5.0])
    got, off = gradient(on, to_backend, backend, layer(Sinusoidal(dim=2)), positions, 0)
    assert (np.abs(got - [float(mp.cos(p)) for p in positions]) <= off).all()
    got, off = gradient(on, to_backend, backend, layer(Timestep(dim=4, shift=1, base=100, scale=0.5)), positions, 1)
    assert (np.abs(got - [float(mp.cos(p / 200) / 200) for p in positions]) <= off / 200).all()


@pytest.mark.usefixtures("differentiable")
def test_a_learned_frequency_passes_the_gradient_on(on, backend, to_backend, layer):
    got, _ = gradient(on, to_backend, backend, layer(LearnedSinusoidal(dim=2)), np.array(REALS), 1)
    np.testing.assert_allclose(got, [-math.sin(p) for p in REALS], rtol=0, atol=1234.5 * 2.0**-23)


@pytest.mark.usefixtures("differentiable")
def test_no_gradient_reaches_the_positions_of_digits(on, backend, to_backend, layer):
    binary = layer(Binary(dim=3))

    def call(positions):
        return binary(to_backend(zeros(1, 3, 3)), positions=positions) + 0 * positions[None, :, None]

    if backend.__name__.endswith("jax") or on.testing.CONTRACTS:  # which trace
        with pytest.raises(TypeError, match="Traced positions of Binary"):
            on.testing.gradient(call, to_backend([1.0, 2.0, 5.0]), to_backend(zeros(1, 3, 3)))
        return
    got = on.testing.gradient(call, to_backend([1.0, 2.0, 5.0]), to_backend(zeros(1, 3, 3) + 1))
    np.testing.assert_array_equal(backend.to_numpy(got), 0)


@pytest.mark.usefixtures("differentiable")
def test_rotary_positions_have_gradients(on, backend, to_backend):
    encoding = Rotary(head_dim=2, layout="half", direction="inverse")
    rope = on.testing.eval_mode(backend.RotaryEmbedding(encoding))
    ones = to_backend(np.ones((1, 1, 3, 2), np.float32) * [1, 0])

    def call(positions):
        return rope(ones, positions=positions)

    for column, wanted in ((0, lambda p: -mp.sin(p)), (1, lambda p: -mp.cos(p))):
        weights = to_backend(np.eye(2)[[column] * 3][None, None].astype(np.float32))
        got = backend.to_numpy(on.testing.gradient(call, to_backend(REALS), weights))
        np.testing.assert_allclose(got, [float(wanted(p)) for p in REALS], rtol=0, atol=1234.5 * 2.0**-23)


@pytest.mark.parametrize(
    ("encoding", "positions"),
    [
        (Timestep(dim=7, shift=1), np.array([*REALS, 5.0])),
        (Sinusoidal(dim=6, convention="column_index"), np.array([*REALS, 0.0])),
        (Normalized(dim=2, length=2000), np.array(REALS)),
        (PATCHES, grid(2, 3) / 4),
        (MIXED, grid(2, 3) / 4),
    ],
    ids=str,
)
def test_real_positions_in_compiled_code(backend, to_backend, layer, compiled, encoding, positions):
    x, own = to_backend(zeros(1, positions.shape[-1], encoding.dim)), to_backend(positions.astype(np.float32))
    call = compiled(layer(encoding))
    try:
        rows = backend.to_numpy(call(x, positions=own))[0]
    except Exception as error:  # compilers wrap what they meet in errors of their own
        if not backend.namespace.__name__.endswith("torch.namespace"):
            raise
        assert re.search("Dynamo|disable", str(error))  # noqa: PT017
        return
    # MXNet computes outside of its graph; others in float32, where angles are rounded twice and their sine once or so.
    np.testing.assert_allclose(
        rows, encoding.table(positions), rtol=0, atol=np.abs(positions).max() * 2.0**-21 + 2.0**-22
    )


def test_the_table_begins_at_the_offset(on, backend, to_backend, layer):
    opt = layer(Learned(dim=3, length=4, offset=2))
    assert backend.to_numpy(opt.P).shape == (1, 4, 3)
    rows = backend.to_numpy(opt(to_backend(zeros(1, 4, 3))))
    np.testing.assert_array_equal(rows, backend.to_numpy(opt.P))
    held = backend.to_numpy(opt.arrays["table"])
    assert held.shape == (6, 3)
    np.testing.assert_array_equal(rows[0], held[2:])
    with pytest.raises(ValueError, match="end at 3, got 4"):
        opt(to_backend(zeros(1, 5, 3)))


@pytest.mark.parametrize("encoding", [LearnedSinusoidal(dim=4), MIXED], ids=repr)
def test_what_holds_no_table_shows_none(layer, encoding):
    with pytest.raises(TypeError, match=r"`P` is a table, and a layer of .* holds none"):
        _ = layer(encoding).P


def test_learned_frequencies_start_from_those_of_the_paper(backend, to_backend, layer):
    for convention in ("interleaved", "concatenated", "tensor2tensor", "timestep"):
        encoding = LearnedSinusoidal(dim=7, convention=convention)
        rows = backend.to_numpy(layer(encoding)(to_backend(zeros(1, 50, 7)), 5))
        np.testing.assert_allclose(rows[0], encoding.table(range(5, 55)), rtol=0, atol=55 * 2.0**-22)


@pytest.mark.parametrize("wrong", [3e9, float("nan")])
def test_learned_frequencies_have_the_limits_of_others(to_backend, layer, wrong):
    with pytest.raises(ValueError, match=r"`positions` must be finite and below 2\*\*31 in size, got"):
        layer(LearnedSinusoidal(dim=4))(to_backend(np.zeros((1, 2, 4))), positions=to_backend([0.5, wrong]))


@pytest.mark.parametrize("encoding", [PATCHES, MIXED], ids=["grid", "mixed axes"])
def test_one_number_is_no_point_of_several_axes(to_backend, layer, encoding):
    with pytest.raises(ValueError, match=r"`positions` must have shape \(2, \.\.\., length\), got"):
        layer(encoding)(to_backend(np.zeros((1, 2, encoding.dim))), positions=3)


@pytest.mark.parametrize("start", [0, 3, 64])
def test_long_sequences_have_the_rows_of_their_positions(on, to_backend, start):
    """Rows of a plain call are taken without further ado; given as positions, they are looked up."""
    layer = on.testing.eval_mode(on.backend.PositionalEncoding(64, max_len=128))
    numbers = np.random.default_rng(3).normal(size=(2, 64, 64)).astype(np.float32)
    places = range(start, start + 64)
    wanted = numbers + Sinusoidal(dim=64).table(places)
    for got in (layer(to_backend(numbers), start=start), layer(to_backend(numbers), positions=np.asarray(places))):
        np.testing.assert_array_equal(on.backend.to_numpy(got), wanted)
    longer = layer(to_backend(numbers), start=65)  # one row more than is held
    np.testing.assert_array_equal(on.backend.to_numpy(longer), numbers + Sinusoidal(dim=64).table(range(65, 129)))
