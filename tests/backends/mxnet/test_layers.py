"""What Gluon users do with a block."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, Rotary, Sinusoidal

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
