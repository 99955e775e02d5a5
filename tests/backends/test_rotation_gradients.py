"""Gradients of rotations are the transposed matrices of the definition, for every layout, placement and dtype."""

from itertools import product

import numpy as np
import pytest

from posenc_backends._kernels import library
from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.tooling import LayerCase
from posenc_core import AttentionFactor, AxialRotary, Rotary, rotate, unrotate

pytestmark = pytest.mark.whole
RNG = np.random.default_rng(43)
PAIRINGS = [
    *product(("half", "interleaved", "interleaved_to_half"), ("lead", "trail"), (1, 2)),
    *(("half", "spread", 1), ("interleaved", "spread", 1)),
]
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
WIDTH, PAIRS, LENGTH = 20, 6, 5
STARTS = [131, 7040]  # of two rows of a batch
POSITIONS = np.array(STARTS)[:, None] + np.arange(LENGTH)
MULTIPLIED = AttentionFactor(attention_factor=0.75)
ENCODINGS = [
    Rotary(head_dim=WIDTH, rotary_dim=2 * PAIRS, layout=layout, placement=placement, scaling=scaling)
    for layout, placement, scaling in [
        ("half", "lead", None),
        ("interleaved", "lead", MULTIPLIED),
        ("interleaved_to_half", "lead", MULTIPLIED),
        ("half", "trail", MULTIPLIED),
        ("interleaved", "trail", None),
        ("interleaved_to_half", "trail", None),
        ("half", "spread", None),
        ("interleaved", "spread", None),
    ]
]
FORMS = {
    "positions": {"positions": POSITIONS.tolist()},
    "starts": {"start": STARTS},
    "one start": {"start": STARTS[0]},
    "length before heads": {"start": STARTS, "seq_axis": -3},
}


@pytest.fixture(autouse=True)
def _has_gradients(on):
    if "gradient" in on.known_failures:
        pytest.skip("This framework has no gradients.")


def matrices(cos, sin, *, layout, placement, blocks=1, width=WIDTH):
    """Return the matrix that rotates the channels of each token, `(…, width, width)`, by tables `(…, pairs)`."""
    pairs = cos.shape[-1]
    split, _, join = layout.partition("_to_")
    in_block = pairs // blocks
    apart = width // 2 if placement == "spread" else in_block
    result = np.zeros((*cos.shape[:-1], width, width)) + np.eye(width)
    for column in range(pairs):
        block, pair = divmod(column, in_block)
        begin = 2 * block * in_block + (width - 2 * pairs if placement == "trail" else 0)
        channels = {
            "half": (begin + pair, begin + pair + apart),
            "interleaved": (begin + 2 * pair, begin + 2 * pair + 1),
        }
        (a, b), (to_a, to_b) = channels[split], channels[join or split]
        result[..., [to_a, to_b], :] = 0
        result[..., to_a, a], result[..., to_a, b] = cos[..., column], -sin[..., column]
        result[..., to_b, a], result[..., to_b, b] = sin[..., column], cos[..., column]
    return result


def rotations(encoding, positions, width=WIDTH):
    """Return the matrices of a `Rotary` at positions, `(…, width, width)`: Su et al. 2021, equation 15."""
    angles = np.asarray(positions)[..., None] * 10000.0 ** (-np.arange(encoding.pairs) / encoding.pairs)
    cos, sin = encoding.attention_factor * np.cos(angles), encoding.attention_factor * np.sin(angles)
    return matrices(cos, sin, layout=encoding.layout, placement=encoding.placement, width=width)


def transposed(matrix, weights):
    return np.einsum("...ji,...j->...i", matrix, weights)


def drawn(on, dtype, *shape):
    """Return an array of this dtype, and its numbers: none near 0, so that each matters."""
    array = RNG.uniform(0.5, 1.5, shape) * RNG.choice([-1, 1], shape)
    cast = on.testing.cast(on.backend.from_numpy(array.astype(np.float32)), dtype)
    return cast, np.asarray(on.backend.to_numpy(cast), np.float64)


def dtypes(on):
    return [name for name in EPSILON if name not in on.known_failures]


def wider(dtype):
    return "float64" if dtype == "float64" else "float32"


def assert_near(on, found, wanted, dtype):
    """Up to the rounding of two products, their sum, and the result; angles here have errors of 2**-40."""
    assert dtype in str(found.dtype)
    np.testing.assert_allclose(on.backend.to_numpy(found), wanted, rtol=0, atol=max(8 * EPSILON[dtype], 2.0**-36))


@pytest.mark.parametrize(
    ("compiled", "layout", "placement", "blocks"),
    [*((True, *pairing) for pairing in PAIRINGS), *((False, *pairing) for pairing in PAIRINGS if pairing[2] == 1)],
)
def test_the_gradient_is_the_transposed_rotation(on, monkeypatch, compiled, layout, placement, blocks):
    """Of every dtype by the kernel; by operators, which are the same for all, of one in turn, without blocks."""
    monkeypatch.setattr(library, "LIBRARY", library.LIBRARY if compiled else None)
    words, names = {"layout": layout, "placement": placement, "blocks": blocks}, dtypes(on)
    number = PAIRINGS.index((layout, placement, blocks))
    for dtype in names if compiled else [names[number % len(names)]]:
        (cos, its_cos), (sin, its_sin) = (drawn(on, wider(dtype), 2, 1, LENGTH, PAIRS) for _ in range(2))
        (x, _), (weights, w) = (drawn(on, dtype, 2, 3, LENGTH, WIDTH) for _ in range(2))
        matrix = matrices(its_cos, its_sin, **words)
        forth = on.testing.gradient(lambda x, rows=(cos, sin): rotate(x, *rows, **words), x, weights)
        assert_near(on, forth, transposed(matrix, w), dtype)
        if dtype == names[number % len(names)]:
            back = on.testing.gradient(lambda x, rows=(cos, sin): unrotate(x, *rows, **words), x, weights)
            assert_near(on, back, np.einsum("...ij,...j->...i", matrix, w), dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_the_gradient_of_tables_is_that_of_the_definition(on, layout):
    words = {"layout": layout, "placement": "trail"}
    (cos, _), (sin, _) = (drawn(on, "float32", LENGTH, PAIRS) for _ in range(2))
    (x, its_x), (weights, w) = (drawn(on, "float32", 2, LENGTH, WIDTH) for _ in range(2))
    zero, one = np.zeros(PAIRS), np.eye(PAIRS)
    unrotated = matrices(zero, zero, **words)
    for call, table, rows in (
        (lambda table: rotate(x, table, sin, **words), cos, [(one[column], zero) for column in range(PAIRS)]),
        (lambda table: rotate(x, cos, table, **words), sin, [(zero, one[column]) for column in range(PAIRS)]),
    ):
        wanted = [np.einsum("nti,ij,ntj->t", w, matrices(*row, **words) - unrotated, its_x) for row in rows]
        found = on.backend.to_numpy(on.testing.gradient(call, table, weights))
        np.testing.assert_allclose(found, np.transpose(wanted), rtol=0, atol=2.0**-20)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: f"{one.layout} {one.placement}")
def test_the_gradients_of_queries_and_keys_of_a_layer(on, encoding, form):
    """Each encoding meets each dtype in one of the forms; queries and keys are rotated in one call."""
    options, names = FORMS[form], dtypes(on)
    dtype = names[(ENCODINGS.index(encoding) + [*FORMS].index(form)) % len(names)]
    layer, wide = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding), dtype), wider(dtype)
    axis, positions = 2 if "seq_axis" in options else 1, POSITIONS[:1] if form == "one start" else POSITIONS
    matrix = np.expand_dims(rotations(encoding, positions), axis)
    (x, _), (weights, w) = (drawn(on, dtype, *np.insert([2, LENGTH, WIDTH], axis, heads)) for heads in (6, 2))

    def heads(x, first, last):
        return x[:, :, first:last] if axis == 2 else x[:, first:last]

    def both(x):
        q, k = layer(heads(x, 0, 4), heads(x, 4, 6), **options)
        q, k = on.testing.cast(q, wide), on.testing.cast(k, wide)  # Paddle adds no float16 on a CPU
        return heads(q, 0, 2) + heads(q, 2, 4) + 2 * k

    each = transposed(matrix, w)
    wanted = np.concatenate([each, each, 2 * each], axis=axis)
    assert_near(on, on.testing.gradient(both, x, on.testing.cast(weights, wide)), wanted, dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_gradients_of_blocks_of_axes(on, layout):
    encoding = AxialRotary(head_dim=WIDTH, axes_dims=(6, 6), layout=layout, arrangement="blocks")
    positions = RNG.integers(100, 1000, (2, LENGTH))
    angles = np.repeat(positions, 3, axis=0).T * 10000.0 ** (-np.tile(np.arange(3), 2) / 3)
    matrix = matrices(np.cos(angles), np.sin(angles), layout=layout, placement="lead", blocks=2)
    for dtype in dtypes(on):
        layer = on.testing.eval_mode(on.backend.RotaryEmbedding(encoding), dtype)
        (x, _), (weights, w) = (drawn(on, dtype, 2, 3, LENGTH, WIDTH) for _ in range(2))
        found = on.testing.gradient(lambda x, layer=layer: layer(x, positions=positions), x, weights)
        assert_near(on, found, transposed(matrix, w), dtype)


def test_the_compiled_gradient_of_interleaved_to_half(on, tmp_path):
    compilers = [name for name in ("tf.function", "hybridized", "compiled") if name in on.testing.GRADIENT_MODES]
    if not compilers:
        pytest.skip("This framework has no compiler of gradients.")
    encodings = (golden_case["encoding"] or {} for golden_case in golden("modes"))
    number = [encoding.get("layout") for encoding in encodings].index("interleaved_to_half")
    case = LayerCase(on, golden("modes")[number])
    run = on.testing.GRADIENT_MODES[compilers[0]](case, tmp_path)
    found, weights = (on.backend.to_numpy(array) for array in (run(case.weights(), *case.arrays()), case.weights()))
    *_, length, width = weights.shape
    matrix = rotations(case.encoding, case.options.get("start", 0) + np.arange(length), width)
    np.testing.assert_allclose(found, transposed(matrix, weights), rtol=0, atol=2.0**-20)
