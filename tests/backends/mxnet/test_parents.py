"""A hybridized parent can call a layer with all the arguments of an eager call."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Rotary
from posenc_core.encodings import AxialRotary, Cope, MixedRotary, ShawBias, SwinBias, T5Bias, TransformerXLBias, XPos
from posenc_core.scaling import DynamicNTK

SCORING = {
    "alibi": Alibi(num_heads=2),
    "t5": T5Bias(num_heads=2, num_buckets=6, max_distance=4),
    "shaw": ShawBias(num_heads=2, head_dim=4, max_distance=2),
    "transformer_xl": TransformerXLBias(num_heads=2, head_dim=4, max_distance=3),
    "cope": Cope(num_heads=2, head_dim=4, max_position=3),
}
POSITIONS = {
    "none": None,
    "rotary": Rotary(head_dim=4, layout="interleaved", rotary_dim=2),
    "xpos": XPos(head_dim=4, layout="half", scale_base=9),
    **SCORING,
}
HALF = Rotary(head_dim=8, layout="half")


class Parent(gluon.HybridBlock):
    """A block that calls a layer with its inputs by these names, and with constant options."""

    def __init__(self, layer, names, **options):
        super().__init__()
        self.layer, self.names, self.options = layer, names, options

    def hybrid_forward(self, F, *inputs):  # noqa: N803
        return self.layer(**dict(zip(self.names, inputs, strict=True)), **self.options)


def tokens(*shape, seed=0):
    return mx.np.array(np.random.default_rng(seed).normal(size=shape), dtype="float32")


def integers(*numbers):
    return mx.np.array(np.array(numbers), dtype="int32")


def flatten(result):
    """Return the arrays of a result, which may be nested tuples."""
    return [x for part in result for x in flatten(part)] if isinstance(result, (tuple, list)) else [result.asnumpy()]


def check_alike(layer, names, *calls, **options):
    """Check that one graph agrees with the eager layer at each call."""
    layer.initialize(mx.init.Normal(0.5), force_reinit=True)
    wanted = [flatten(layer(**dict(zip(names, arrays, strict=True)), **options)) for arrays in calls]
    parent = Parent(layer, names, **options)
    parent.hybridize()
    for arrays, results in zip(calls, wanted, strict=True):
        for got, result in zip(flatten(parent(*arrays)), results, strict=True):
            np.testing.assert_allclose(got, result, rtol=0, atol=2e-6)


def attention_calls(*makers):
    """Return the inputs of two calls: seven queries and nine keys, then two and four, with `others` of both numbers."""
    return [
        [
            tokens(2, n, 8),
            tokens(2, n + 2, 8, seed=1),
            tokens(2, n + 2, 8, seed=2),
            *(make(n, n + 2) for make in makers),
        ]
        for n in (7, 2)
    ]


SAID = {
    "nothing": ({}, {}),
    "causal": ({"causal": True}, {}),
    "start": ({"start": 2, "causal": True}, {}),
    "starts": ({}, {"start": lambda q, k: integers(2, 0)}),
    "lengths": ({"causal": True}, {"valid_lens": lambda q, k: integers(k, 1)}),
    "lengths of queries": ({}, {"valid_lens": lambda q, k: mx.np.array(np.arange(2 * q).reshape(2, q) % (k + 1))}),
    "positions": (
        {"causal": True},
        {
            "positions": lambda q, k: integers(*range(3, 3 + q)),
            "key_positions": lambda q, k: integers(*range(1, 1 + k)),
        },
    ),
    "positions of rows": (
        {},
        {
            "positions": lambda q, k: integers(range(q), range(2, 2 + q)),
            "key_positions": lambda q, k: integers(range(k), range(1, 1 + k)),
        },
    ),
    "mask": ({}, {"mask": lambda q, k: mx.np.array(np.arange(q * k).reshape(q, k) % 3 > 0, dtype="bool")}),
    "weights": ({"weights": True, "causal": True}, {}),
    "empty cache": ({"cache": (), "causal": True}, {}),
}


@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize(("options", "inputs"), SAID.values(), ids=SAID)
def test_attention_takes_all_arguments(position, options, inputs):
    layer = MultiHeadAttention(8, 2, bias=True, position=position, num_kv_heads=1)
    names = ["queries", "keys", "values", *inputs]
    check_alike(layer, names, *attention_calls(*inputs.values()), **options)


@pytest.mark.parametrize("position", [None, POSITIONS["rotary"], SCORING["t5"]], ids=["none", "rotary", "t5"])
def test_a_cache_is_an_input(position):
    class Step(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.attention = MultiHeadAttention(8, 2, position=position)

        def hybrid_forward(self, F, x, keys, values, positions, key_positions):  # noqa: N803
            arguments = {"cache": (keys, values), "start": 3, "causal": True}
            at_positions = self.attention(x, x, x, **arguments, positions=positions, key_positions=key_positions)
            return self.attention(x, x, x, **arguments).result, at_positions.result

    step, x = Step(), tokens(2, 5, 8)
    step.initialize(mx.init.Normal(0.5))
    cache = step.attention(x[:, :3], x[:, :3], x[:, :3], cache=()).cache
    wanted = step.attention(x, x, x, causal=True).asnumpy()[:, 3:]
    step.hybridize()
    for got in step(x[:, 3:], *cache, integers(3, 4), integers(*range(5))):
        np.testing.assert_allclose(got.asnumpy(), wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize("encoding", SCORING.values(), ids=SCORING)
@pytest.mark.parametrize("lead", [(3, 2), (2,)], ids=["batch", "no batch"])
def test_bias_takes_queries_keys_and_their_positions(encoding, lead):
    has_content = hasattr(encoding, "head_dim")
    names = ["scores", "query_positions", "key_positions", *(["q", "k"] if has_content else [])]
    calls = [
        [tokens(*lead, n, 4), integers(*range(1, 1 + n)), integers(0, 2, 3, 7)]
        + ([tokens(*lead, n, 4, seed=1), tokens(*lead, 4, 4, seed=2)] if has_content else [])
        for n in (5, 1)
    ]
    check_alike(AttentionBias(encoding), names, *calls)


def test_position_vectors_of_values_are_in_the_graph():
    class Values(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.bias = AttentionBias(SCORING["shaw"])

        def hybrid_forward(self, F, weights, start):  # noqa: N803
            return self.bias.values(weights, start)

    values, weights = Values(), mx.npx.softmax(tokens(3, 2, 5, 4))
    values.initialize(mx.init.Normal(0.5))
    wanted = values(weights, integers(0, 1, 2)).asnumpy()
    values.hybridize()
    np.testing.assert_allclose(values(weights, integers(0, 1, 2)).asnumpy(), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("axis", [-2, -3, 1, 0])
@pytest.mark.parametrize(
    "inputs", [{}, {"start": integers(3, 0, 2)}, {"positions": integers(range(4), range(2, 6), range(4))}], ids=str
)
def test_rotation_along_any_axis(axis, inputs):
    moved = np.moveaxis(tokens(3, 2, 4, 8).asnumpy(), 2, axis)
    x = mx.np.array(moved, dtype="float32")
    check_alike(RotaryEmbedding(HALF), ["q", "k", *inputs], [x, 2 * x, *inputs.values()], seq_axis=axis)


def test_keys_may_have_fewer_heads():
    queries_keys = [(tokens(2, 4, n, 8), tokens(2, 1, n, 8)) for n in (5, 3)]
    check_alike(RotaryEmbedding(HALF), ["q", "k"], *queries_keys)


@pytest.mark.parametrize("shape", [(5, 8), (3, 5, 8), (3, 2, 5, 8), (3, 2, 2, 5, 8)], ids=len)
@pytest.mark.parametrize("combine", ["add", "concat"])
def test_tokens_have_any_number_of_axes(shape, combine):
    check_alike(PositionalEncoding(8, combine=combine), ["x", "start"], [tokens(*shape), mx.np.array(4, dtype="int32")])


@pytest.mark.parametrize(
    "encoding",
    [
        AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)),
        MixedRotary(head_dim=8, layout="half", num_heads=2),
        MixedRotary(head_dim=8, layout="half", num_heads=1),
    ],
    ids=repr,
)
def test_axes_of_an_image(encoding):
    layer, grid = RotaryEmbedding(encoding), integers([0, 0, 1], [0, 1, 0])
    layer.initialize()
    rows = mx.np.stack([grid, grid + 1], axis=1)  # (axes, batch, length)
    for positions in (grid, rows):
        check_alike(layer, ["q", "positions"], [tokens(2, 2, 3, 8), positions])


def test_rows_of_learned_directions_of_symbols():
    parent = Tables(MixedRotary(head_dim=8, layout="half", num_heads=3))
    parent.initialize()
    for positions in (integers([0, 0, 1], [0, 1, 0]), integers([[0, 0], [1, 2]], [[3, 1], [0, 2]])):
        wanted = [table.asnumpy() for table in parent(positions)]
        parent.hybridize()
        for table, eager in zip(parent(positions), wanted, strict=True):
            np.testing.assert_allclose(table.asnumpy(), eager, rtol=0, atol=1e-6)
        parent.hybridize(False)


def test_lists_are_constants_of_the_graph():
    check_alike(RotaryEmbedding(HALF), ["q"], [tokens(2, 2, 3, 8)], positions=[4, 0, 2])
    check_alike(AttentionBias(SwinBias(num_heads=2, window=(2, 2))), ["scores"], [tokens(3, 2, 4, 4)], start=[0])
    with pytest.raises(TypeError, match="Positions in a hybridized block must be integers, got float64"):
        check_alike(RotaryEmbedding(HALF), ["q"], [tokens(2, 2, 3, 8)], positions=[0.5, 1.0, 2.0])


def test_positions_outside_the_table_are_nan():
    parent = Parent(RotaryEmbedding(HALF, max_len=6), ["q", "positions"])
    parent.hybridize()
    rows = parent(tokens(1, 1, 4, 8), integers(5, 6, -1, 0)).asnumpy()[0, 0]
    assert np.isnan(rows).any(axis=-1).tolist() == [False, True, True, False]


def test_a_graph_uses_the_length_of_a_grown_table():
    layer = RotaryEmbedding(HALF, max_len=4)
    parent, x = Parent(layer, ["q"]), tokens(1, 1, 6, 8)
    parent.hybridize()
    assert np.isnan(parent(x).asnumpy()).any()
    np.testing.assert_array_equal(parent(x).asnumpy()[:, :, :4], layer(x).asnumpy()[:, :, :4])  # the layer grows here
    layer(tokens(1, 1, 9, 8))
    np.testing.assert_array_equal(parent(x).asnumpy(), layer(x).asnumpy())


def test_a_graph_has_one_total_sequence_length():
    scaled = Rotary(head_dim=8, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=4))
    parent = Parent(RotaryEmbedding(scaled), ["q"], seq_len=9)
    parent.hybridize()
    with pytest.raises(
        ValueError, match="`seq_len` asks for other tables than a traced layer holds; make the layer with"
    ):
        parent(tokens(1, 1, 3, 8))


class Step(gluon.HybridBlock):
    """A block that looks rows up once, and lets attention and its layer look them up as well."""

    def __init__(self, encoding):
        super().__init__()
        self.attention = MultiHeadAttention(8, 2, position=encoding)

    def hybrid_forward(self, F, x, q, positions):  # noqa: N803
        rope, at = self.attention.rotary, {"positions": positions, "key_positions": positions, "causal": True}
        rows = rope.cos_sin(positions)
        rotated = *rope(q, q, cos_sin=rows), rope(q, cos_sin=rows), *rope(q, q, positions=positions)
        return self.attention(x, x, x, cos_sin=rows, **at), self.attention(x, x, x, **at), *rotated


@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", ["rotary", "xpos"])
def test_rows_that_a_parent_looks_up_once(name, shape):
    parent = Step(POSITIONS[name])
    parent.initialize(mx.init.Normal(0.5))
    parent.hybridize()
    positions = integers(*np.arange(np.prod(shape)).reshape(shape))
    attended, wanted, q, k, alone, wanted_q, wanted_k = parent(tokens(2, 3, 8), tokens(2, 2, 3, 4), positions)
    for got, each in ((attended, wanted), (q, wanted_q), (alone, wanted_q), (k, wanted_k)):
        np.testing.assert_array_equal(got.asnumpy(), each.asnumpy())


class Tables(gluon.HybridBlock):
    """A block that returns cosine and sine of positions."""

    def __init__(self, encoding, **options):
        super().__init__()
        self.layer, self.options = RotaryEmbedding(encoding, max_len=16), options

    def hybrid_forward(self, F, positions):  # noqa: N803
        return self.layer.cos_sin(positions, **self.options)


@pytest.mark.parametrize(
    ("encoding", "shape"),
    [
        (POSITIONS["rotary"], (3,)),
        (Rotary(head_dim=8, layout="half", rotary_dim=4, placement="spread"), (2, 3)),
        (AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)), (2, 2, 3)),
        (AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)), (2, 3)),
        (POSITIONS["xpos"], (3,)),
    ],
    ids=repr,
)
def test_cosine_and_sine_of_symbols(encoding, shape):
    positions, past = np.random.default_rng(0).integers(0, 16, shape), np.full(shape, 16)
    for options in ({}, {"columns": "channels", "dtype": "float16"}):
        parent = Tables(encoding, **options)
        parent.initialize()
        wanted = [table.asnumpy() for table in parent(integers(*positions))]
        parent.hybridize()
        for table, eager in zip(parent(integers(*positions)), wanted, strict=True):
            assert table.dtype == eager.dtype
            np.testing.assert_array_equal(table.asnumpy(), eager)
        assert all(np.isnan(table.asnumpy()[..., 0]).all() for table in parent(integers(*past)))
