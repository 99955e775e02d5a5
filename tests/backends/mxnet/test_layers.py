"""What Gluon users do with a block."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, FoPE, Learned, Rotary, Sinusoidal, T5Bias

ROTARY = Rotary(head_dim=8, layout="interleaved", rotary_dim=4)


def tokens(*shape):
    return mx.np.array(np.random.default_rng(0).normal(size=shape), dtype="float32")


def test_the_numpy_interface_is_required():
    mx.npx.reset_np()
    try:
        with pytest.raises(RuntimeError, match=r"Call `mxnet.npx.set_np\(\)` before making a layer"):
            PositionalEncoding(8)
    finally:
        mx.npx.set_np()


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize(
    "make", [lambda: PositionalEncoding(8), lambda: RotaryEmbedding(ROTARY)], ids=["add", "rotate"]
)
def test_hybridized_agrees_with_eager(make, static):
    block, hybrid, x = make(), make(), tokens(2, 3, 5, 8)
    hybrid.hybridize(static_alloc=static)
    for length in (5, 2, 4):
        part = x[:, :, :length]
        np.testing.assert_array_equal(hybrid(part).asnumpy(), block(part).asnumpy())


class Rotations(gluon.HybridBlock):
    """Tokens rotated by matrices of two heads, and their tables at positions."""

    def __init__(self, **options):
        super().__init__()
        with self.name_scope():
            self.rotary = RotaryEmbedding(FoPE(head_dim=8, layout="half", num_terms=3, num_heads=2, std=0.5))
        self.options = options

    def hybrid_forward(self, F, x, positions):  # noqa: N803
        return [self.rotary(x, **self.options), *self.rotary.cos_sin(positions)]


@pytest.mark.parametrize(
    ("sizes", "options"),
    [((2, 2, 5), {}), ((2, 4, 5), {}), ((2, 5, 4), {"seq_axis": -3}), ((4, 5), {}), ((3, 2, 2, 5), {"start": 3})],
    ids=["two heads", "four heads", "four heads after the length", "no batch", "two batches"],
)
@pytest.mark.parametrize("several", [(), (2,)], ids=["positions", "positions of rows"])
def test_heads_with_rows_of_their_own_in_a_graph(sizes, options, several):
    model, x, positions = Rotations(**options), tokens(*sizes, 8), mx.np.ones((*several, 5), dtype="int32")
    model.initialize()
    eager = model(x, positions)
    model.hybridize()
    for found, wanted in zip(model(x, positions), eager, strict=True):
        np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())


def test_a_graph_refuses_a_number_of_heads_that_is_no_multiple():
    model, positions = Rotations(), mx.np.ones(5, dtype="int32")
    model.initialize()
    model.hybridize()
    with pytest.raises(mx.base.MXNetError, match="Cannot reshape"):
        model(tokens(2, 3, 5, 8), positions)[0].wait_to_read()


def test_an_exported_graph_gives_nan_past_its_table(tmp_path):
    block = RotaryEmbedding(ROTARY, max_len=20)
    block.hybridize()
    block(tokens(1, 2, 5, 8))
    block.export(str(tmp_path / "rope"))
    graph = gluon.SymbolBlock.imports(str(tmp_path / "rope-symbol.json"), ["data"], str(tmp_path / "rope-0000.params"))
    for length in (5, 20):
        x = tokens(1, 2, length, 8)
        np.testing.assert_array_equal(graph(x).asnumpy(), block(x).asnumpy())
    beyond = graph(tokens(1, 2, 21, 8)).asnumpy()
    assert np.isnan(beyond[:, :, 20, :4]).all()
    assert not np.isnan(beyond[:, :, :20]).any()


def test_casts_do_not_reach_the_table():
    block = PositionalEncoding(8)
    parent = gluon.nn.HybridSequential()
    parent.add(block)
    parent.initialize()
    parent.cast("float16")
    np.testing.assert_array_equal(block.P[0].asnumpy(), Sinusoidal(dim=8).table(range(1000)))
    assert parent(tokens(1, 3, 8).astype("float16")).dtype == np.float16


def test_a_hybridized_parent_learns():
    class Model(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.positions = PositionalEncoding(8, encoding=Learned(dim=8, length=9))
                self.attention = MultiHeadAttention(8, 2, position=Alibi(num_heads=2))

        def hybrid_forward(self, F, x):  # noqa: N803
            x = self.positions(x)
            return self.attention(x, x, x)

    model, x, loss = Model(), tokens(4, 6, 8), gluon.loss.L2Loss()
    model.initialize(mx.init.Normal(0.3))
    model.hybridize()
    trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.01})
    losses = []
    for _ in range(20):
        with autograd.record():
            error = loss(model(x), x)
        error.backward()
        trainer.step(4)
        losses.append(float(error.mean()))
    assert losses[-1] < 0.9 * losses[0]


def test_parameters_are_named_by_their_part_and_take_initializers():
    options = {"weight_initializer": mx.init.Constant(0.5), "bias_initializer": "ones"}
    layer = MultiHeadAttention(8, 2, bias=True, position=T5Bias(num_heads=2), prefix="own_", **options)
    layer.initialize()
    numbers = {name: parameter.data().asnumpy() for name, parameter in layer.collect_params().items()}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        assert (numbers[f"own_{name}_weight"] == 0.5).all()
        assert (numbers[f"own_{name}_bias"] == 1).all()
    assert "own_scoring_table" in numbers
