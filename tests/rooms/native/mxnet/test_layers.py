"""What a Gluon user does to a block."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, Rotary, Sinusoidal
from posenc_core.encodings import ShawBias, T5Bias
from posenc_core.positions import from_mask

ROTARY = Rotary(head_dim=8, layout="interleaved", rotary_dim=4)


def tokens(*shape):
    return mx.np.array(np.random.default_rng(0).normal(size=shape), dtype="float32")


def test_the_array_interface_is_asked_for():
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
def test_hybridized_is_the_same(make, static):
    block, hybrid, x = make(), make(), tokens(2, 3, 5, 8)
    hybrid.hybridize(static_alloc=static)
    for length in (5, 2, 4):
        part = x[:, :, :length]
        np.testing.assert_array_equal(hybrid(part).asnumpy(), block(part).asnumpy())


def test_an_exported_graph_runs_at_another_length_and_ends_in_nan(tmp_path):
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


def test_no_cast_reaches_the_table():
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


def test_masks_are_counted_in_a_graph_of_any_size():
    class Counter(gluon.HybridBlock):
        def hybrid_forward(self, F, mask):  # noqa: N803
            return from_mask(mask)

    block = Counter()
    block.hybridize()
    for rows in ([[0, 0, 1, 1], [1, 0, 1, 0]], [[0, 1]], [1, 1, 0, 1]):
        mask = mx.np.array(rows, dtype="int32")
        np.testing.assert_array_equal(block(mask).asnumpy(), from_mask(rows))


class Parent(gluon.HybridBlock):
    """A block that calls attention with the options given."""

    def __init__(self, position, **options):
        super().__init__()
        self.options = options
        with self.name_scope():
            self.attention = MultiHeadAttention(8, 2, position=position, num_kv_heads=1)

    def hybrid_forward(self, F, x, lengths=None):  # noqa: N803
        return self.attention(x, x, x, lengths, **self.options)


@pytest.mark.parametrize("position", [None, Rotary(head_dim=4, layout="half"), T5Bias(num_heads=2)], ids=str)
@pytest.mark.parametrize("lengths", [None, [5, 3], [[1, 2, 3, 4, 5], [0, 5, 5, 1, 1]]], ids=["all", "rows", "queries"])
def test_a_hybridized_parent_is_causal(position, lengths):
    parent, x = Parent(position, causal=True), tokens(2, 5, 8)
    parent.initialize(mx.init.Normal(0.5))
    given = [x] if lengths is None else [x, mx.np.array(lengths, dtype="int32")]
    wanted = parent(*given).asnumpy()
    parent.hybridize()
    np.testing.assert_allclose(parent(*given).asnumpy(), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("position", "options"),
    [
        (None, {"start": 3}),
        (None, {"weights": True}),
        (None, {"cache": ()}),
        (None, {"positions": [0, 1], "key_positions": [0, 1]}),
        (ShawBias(num_heads=2, head_dim=4, max_distance=2), {}),
    ],
)
def test_a_hybridized_parent_has_no_other_attention(position, options):
    parent = Parent(position, **options)
    parent.initialize()
    parent.hybridize()
    with pytest.raises(
        ValueError, match="takes `valid_lens` and `causal` alone, and no encoding that looks at queries"
    ):
        parent(tokens(1, 2, 8))


def test_a_graph_tells_no_sizes_to_an_encoding_that_needs_them():
    class Biased(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.bias = AttentionBias(ShawBias(num_heads=2, head_dim=4, max_distance=2))

        def hybrid_forward(self, F, scores, q, k):  # noqa: N803
            return self.bias(scores, q=q, k=k)

    block = Biased()
    block.initialize()
    given = tokens(1, 2, 3, 3), tokens(1, 2, 3, 4), tokens(1, 2, 3, 4)
    assert block(*given).shape == (1, 2, 3, 3)
    block.hybridize()
    with pytest.raises(
        ValueError, match="which a hybridized block does not tell; call the layer from a block that is not"
    ):
        block(*given)
