"""`RotaryEmbedding.cos_sin`: cosine and sine of positions, against golden numbers and the tables of encodings."""

import warnings

import numpy as np
import pytest

from posenc_backends.conformance.cases import golden
from posenc_core import (
    Alibi,
    AxialRotary,
    Encoding,
    FoPE,
    LearnedRotary,
    MultimodalRotary,
    PoPE,
    Rotary,
    XPos,
    YaRN,
    grid,
    rotate,
)
from posenc_core._array_api.namespace import dtype_name
from posenc_core.layers.base import PROJECTIONS

GOLDEN = golden("rope_models") + golden("scalings")
SCALING = YaRN(factor=4.0, original_max_position_embeddings=64)
HALF = Rotary(head_dim=8, layout="half", rotary_dim=4, scaling=SCALING)
FAR = 2**20 + 77


def numbers(backend, arrays):
    return [backend.to_numpy(array) for array in arrays]


@pytest.mark.parametrize("case", GOLDEN[::4], ids=lambda case: case["name"])
def test_golden_numbers(backend, to_backend, case):
    layer = backend.RotaryEmbedding(Encoding.from_dict(case["encoding"]), max_len=16)
    channels, wanted = np.array(case["channels"]), np.array(case["cos_sin"]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Position .* lies past")
        given = to_backend([case["positions"]]), "float32", "channels", case["seq_len"]
        cos, sin = numbers(backend, layer.cos_sin(*given))
    found = np.stack([table[0][:, channels[:, 2:]] for table in (cos, sin)])
    np.testing.assert_array_equal(found, np.broadcast_to(_by_table(wanted)[..., None], found.shape))


def _by_table(cos_sin):
    """Return golden pairs as two tables: `(positions, pairs, 2) -> (2, positions, pairs)`."""
    return np.moveaxis(cos_sin, -1, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("columns", ["pairs", "channels"])
def test_each_dtype_is_rounded_once(on, to_backend, dtype, columns):
    if dtype in on.known_failures:
        pytest.skip("This framework lacks the dtype.")
    positions = [[0, 1, FAR], [2, 255, -FAR]]
    layer = on.backend.RotaryEmbedding(HALF)
    named = layer.cos_sin(to_backend(positions), dtype, columns)
    wanted = HALF.cos_sin(positions)
    if columns == "channels":
        wanted = [np.concatenate([table, table], axis=-1) for table in wanted]
    for table, exact in zip(named, wanted, strict=True):
        assert dtype_name(table) == dtype
        once = on.testing.cast(on.backend.from_numpy(exact), dtype)
        np.testing.assert_array_equal(on.backend.to_numpy(table), on.backend.to_numpy(once))
    by_object = layer.cos_sin(to_backend(positions), named[0].dtype, columns)
    np.testing.assert_array_equal(*(on.backend.to_numpy(each[1]) for each in (named, by_object)))


@pytest.mark.parametrize(
    "encoding",
    [
        HALF,
        Rotary(head_dim=8, layout="interleaved"),
        Rotary(head_dim=8, layout="interleaved_to_half", rotary_dim=4, placement="trail"),
        Rotary(head_dim=8, layout="half", rotary_dim=4, placement="spread"),
        Rotary(head_dim=8, layout="interleaved", rotary_dim=4, placement="spread", direction="inverse"),
        MultimodalRotary(head_dim=12, layout="half", sections=(2, 2, 2), arrangement="interleaved"),
        AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), arrangement="blocks"),
        AxialRotary(head_dim=8, layout="interleaved", axes_dims=(4, 4), arrangement="blocks"),
        LearnedRotary(head_dim=8, layout="half"),
        FoPE(head_dim=8, layout="half", num_terms=3, std=0.5),
    ],
    ids=repr,
)
def test_tokens_are_rotated_as_by_the_layer(on, to_backend, encoding):
    """By columns of pairs with `rotate`; by columns of channels with partners and signs, as models write it."""
    layer = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding))
    length, axes = 6, encoding.num_axes
    positions = np.arange(length) + 300
    if axes > 1:
        positions = grid(*(1,) * (axes - 2), 2, 3) + 5
    x = np.random.default_rng(1).normal(size=(1, 1, length, encoding.head_dim)).astype(np.float32)
    wanted = on.backend.to_numpy(layer(to_backend(x), positions=to_backend(positions)))
    cos, sin = layer.cos_sin(to_backend(positions))
    assert tuple(cos.shape) == tuple(sin.shape) == (length, encoding.pairs)
    blocks = encoding.pairing.blocks
    rotated = rotate(
        to_backend(x), cos, sin, layout=encoding.layout, placement=encoding.pairing.placement, blocks=blocks
    )
    np.testing.assert_array_equal(on.backend.to_numpy(rotated), wanted)
    wide = numbers(on.backend, layer.cos_sin(to_backend(positions), columns="channels"))
    np.testing.assert_allclose(_rotated_by_channels(x, *wide, encoding), wanted, rtol=0, atol=1e-6)


def _rotated_by_channels(x, cos, sin, encoding):
    width, pairing = cos.shape[-1], encoding.pairing
    begin = x.shape[-1] - width if pairing.placement == "trail" else 0
    part = x[..., begin : begin + width]
    part = part.reshape(*part.shape[:-1], pairing.blocks, -1)
    if pairing.split == "interleaved" and pairing.join == "half":
        part = np.concatenate([part[..., ::2], part[..., 1::2]], axis=-1)
    if pairing.join == "half":
        first, second = np.split(part, 2, axis=-1)
        partners = np.concatenate([-second, first], axis=-1)
    else:
        partners = np.stack([-part[..., 1::2], part[..., ::2]], axis=-1).reshape(part.shape)
    flat = (*x.shape[:-1], width)
    rotated = part.reshape(flat) * cos + partners.reshape(flat) * sin
    return np.concatenate([x[..., :begin], rotated, x[..., begin + width :]], axis=-1)


def test_rows_of_a_batch_on_axes(backend, to_backend):
    encoding = MultimodalRotary(head_dim=12, layout="half", sections=(2, 2, 2), arrangement="interleaved")
    positions = np.random.default_rng(2).integers(0, 2**20, (3, 2, 5))
    layer = backend.RotaryEmbedding(encoding)
    for given in (to_backend(positions), positions):
        for table, exact in zip(numbers(backend, layer.cos_sin(given)), encoding.cos_sin(positions), strict=True):
            np.testing.assert_array_equal(table, exact)


def test_keys_of_xpos_have_tables_of_their_own(backend, to_backend):
    encoding = XPos(head_dim=8, layout="half")
    found = numbers(backend, backend.RotaryEmbedding(encoding).cos_sin(to_backend([0, 3, 700])))
    np.testing.assert_array_equal(found, [*encoding.rows([0, 3, 700]).values()])


def test_real_positions(backend, to_backend):
    found = numbers(backend, backend.RotaryEmbedding(HALF).cos_sin(to_backend([0.5, 1000.25])))
    np.testing.assert_array_equal(found, HALF.cos_sin([0.5, 1000.25]))


def test_gradients_reach_real_positions(on, to_backend):
    """Against the derivatives of the encoding, of which the golden gradients are tests."""
    if "gradient" in on.known_failures:
        pytest.skip("This framework has no gradients.")
    layer, positions = on.backend.RotaryEmbedding(HALF), [0.5, 1000.25]
    weights = np.array([[1, 2, 1, 2], [3, 5, 3, 5]], np.float32)

    def both(x):
        cos, sin = layer.cos_sin(x, columns="channels")
        return cos + sin * 2

    derivatives = HALF.derivatives(positions)
    wanted = (np.tile(derivatives["cos"] + derivatives["sin"] * 2, 2) * weights).sum(axis=-1)
    found = on.testing.gradient(both, to_backend(positions), to_backend(weights))
    np.testing.assert_allclose(on.backend.to_numpy(found), wanted, rtol=1e-5, atol=0)


def test_traced_positions(on, to_backend, traced):
    """Those of the table as in golden numbers; NaN past it."""
    if "compiled" in on.known_failures or on.backend.__name__.endswith("mxnet"):
        pytest.skip("This framework compiles no functions.")
    case = next(case for case in GOLDEN if case["encoding"]["head_dim"] == 8 and case["encoding"]["kind"] == "Rotary")
    encoding = Encoding.from_dict(case["encoding"])
    far = on.backend.RotaryEmbedding(encoding, max_len=131072)
    near = on.backend.RotaryEmbedding(HALF, max_len=256)

    def tables(positions):
        return (*far.cos_sin(positions), *near.cos_sin(positions, "float16", "channels"))

    found = numbers(on.backend, traced(tables)(to_backend([case["positions"]])))
    inside = np.array(case["positions"]) < 131072
    assert inside.sum() == 5
    assert np.isnan(found[0][0, ~inside]).all()
    wanted = np.array(case["cos_sin"]).astype(np.float32)[inside]
    exact = np.stack([table[0][inside][:, case["columns"]] for table in found[:2]], axis=-1)
    np.testing.assert_array_equal(exact, wanted)
    for half, table in zip(found[2:], HALF.cos_sin(case["positions"]), strict=True):
        np.testing.assert_array_equal(half[0, :3], np.tile(table[:3], 2).astype(np.float16))
        assert np.isnan(half[0, 3:]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "half"}, "`columns` must be one of 'pairs', 'channels', got 'half'."),
        ({"dtype": "int32"}, "`dtype` must be one of 'float32', 'float16', 'bfloat16', 'float64', got 'int32'."),
        ({"dtype": "as float32"}, "got 'as float32'."),
        ({"dtype": float}, "got 'float'."),
        ({"positions": 3}, "`positions` must have shape (length,) or (batch, length), got 0 axes: ()."),
        ({"positions": np.zeros((1, 2, 3))}, "`positions` must have shape (length,) or (batch, length), got 3 axes"),
        ({"positions": [2**31]}, "2**31"),
        ({"positions": None}, "Positions and lengths must be numbers, lists or arrays, got None."),
        ({"positions": "12"}, "Positions and lengths must be numbers, lists or arrays, got '12'."),
    ],
    ids=repr,
)
def test_bad_arguments(backend, options, message):
    layer = backend.RotaryEmbedding(HALF)
    with pytest.raises((ValueError, TypeError)) as error:
        layer.cos_sin(**({"positions": [0, 1]} | options))
    assert message in str(error.value)


def test_positions_have_the_axes_of_the_encoding(backend, to_backend):
    layer = backend.RotaryEmbedding(AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)))
    for positions in (np.zeros((3, 4), int), np.zeros((0, 4), int)):
        with pytest.raises(ValueError, match=r"`positions` must have shape \(2, ..., length\), got \([03], 4\)"):
            layer.cos_sin(to_backend(positions))


def test_a_dtype_that_the_framework_lacks(on):
    if "bfloat16" not in on.known_failures:
        pytest.skip("This framework has bfloat16.")
    with pytest.raises(ValueError, match="`dtype` must be one that the framework has, got 'bfloat16'; use 'float32'"):
        on.backend.RotaryEmbedding(HALF).cos_sin([0], "bfloat16")


def test_float64_is_float64_or_refused(backend):
    try:
        table, _ = backend.RotaryEmbedding(HALF).cos_sin([0, 1], "float64")
    except ValueError as error:
        assert str(error) == "`dtype` must be one that the framework has, got 'float64'; use 'float32'."  # noqa: PT017
    else:
        np.testing.assert_array_equal(backend.to_numpy(table), HALF.cos_sin([0, 1], dtype=np.float64)[0])


@pytest.mark.parametrize(
    "encoding",
    [
        HALF,
        XPos(head_dim=8, layout="interleaved", scale_base=8),
        LearnedRotary(head_dim=8, layout="half"),
        FoPE(head_dim=8, layout="half", num_terms=3, num_heads=2, std=0.5),
        PoPE(head_dim=8, num_heads=2),
        AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_layers_rotate_by_rows_that_were_looked_up_once(on, to_backend, encoding, shape):
    layer = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding))
    x, axes = to_backend(np.linspace(-1, 1, 96).reshape(2, 2, 3, 8)), encoding.num_axes
    lead = (axes,) if axes > 1 else ()
    at = to_backend(np.arange(np.prod(lead + shape)).reshape(lead + shape) + 5)
    rows = layer.cos_sin(at)
    for got, wanted in zip(layer(x, x, cos_sin=rows), layer(x, x, positions=at), strict=True):
        np.testing.assert_array_equal(*(on.backend.to_numpy(each) for each in (got, wanted)))
    np.testing.assert_array_equal(
        *(on.backend.to_numpy(each) for each in (layer(x, cos_sin=rows), layer(x, positions=at)))
    )


@pytest.mark.parametrize("position", [HALF, XPos(head_dim=8, layout="half"), (HALF, Alibi(num_heads=2))], ids=repr)
def test_blocks_of_attention_rotate_by_the_same_rows(on, to_backend, position):
    layer, other = (
        on.testing.with_projections(
            on.testing.eval_mode(on.backend.MultiHeadAttention(16, 2, position=each)),
            dict.fromkeys(PROJECTIONS, np.eye(16, dtype=np.float32)),
        )
        for each in (position, Alibi(num_heads=2))
    )
    x, at = to_backend(np.linspace(-1, 1, 96).reshape(2, 3, 16)), to_backend([[3, 4, 5], [0, 1, 2]])
    options = {"positions": at, "key_positions": at, "causal": True}
    rows = layer.rotary.cos_sin(at)
    got, wanted = layer(x, x, x, **options, cos_sin=rows), layer(x, x, x, **options)
    np.testing.assert_array_equal(*(on.backend.to_numpy(each) for each in (got, wanted)))
    with pytest.raises(ValueError, match="`cos_sin` must be left out where queries are not as many as new keys, got 2"):
        layer(x[:, :2, :], x, x, cos_sin=rows)
    with pytest.raises(ValueError, match="`cos_sin` must be left out where `position` rotates no keys before attentio"):
        other(x, x, x, cos_sin=rows)


def test_rows_of_other_tokens_are_refused(on, to_backend):
    layer, x = on.backend.RotaryEmbedding(HALF), to_backend(np.ones((1, 1, 3, 8)))
    rows = layer.cos_sin(to_backend([0, 1, 2]))
    with pytest.raises(
        ValueError, match=r"`cos_sin` must have shape \(3, 2\) or \(1, 3, 2\) to fit the tokens, got \(4, 2"
    ):
        layer(x, cos_sin=layer.cos_sin(to_backend([0, 1, 2, 3])))
    with pytest.raises(ValueError, match=r"to fit the tokens, got \(3, 4"):
        layer(x, cos_sin=layer.cos_sin(to_backend([0, 1, 2]), columns="channels"))
    with pytest.raises(ValueError, match="`cos_sin` must be given without `positions` and `start`"):
        layer(x, start=1, cos_sin=rows)
    with pytest.raises(TypeError, match="`cos_sin` must be the 2 arrays that `cos_sin` returns"):
        layer(x, cos_sin=rows[:1])
    if "float16" not in on.known_failures:
        with pytest.raises(TypeError, match="`cos_sin` must be float32"):
            layer(x, cos_sin=layer.cos_sin(to_backend([0, 1, 2]), "float16"))
