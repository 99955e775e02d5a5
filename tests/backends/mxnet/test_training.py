"""Training: trainers, half precision, workers, and their effect on parameters and tables."""

import copy
import warnings

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, Rotary, Sinusoidal
from posenc_core.encodings import LearnedSinusoidal


def tokens(*shape):
    return mx.np.array(np.random.default_rng(0).normal(size=shape), dtype="float32")


class Model(gluon.HybridBlock):
    """Sinusoidal and learned positions, and attention with RoPE."""

    def __init__(self, width=8):
        super().__init__()
        with self.name_scope():
            self.sinusoids = PositionalEncoding(width)
            self.learned = PositionalEncoding(width, encoding=LearnedSinusoidal(dim=width))
            self.attention = MultiHeadAttention(width, 2, position=Rotary(head_dim=width // 2, layout="half"))
            self.out = gluon.nn.Dense(width, flatten=False)  # the number of inputs is inferred at the first call

    def hybrid_forward(self, F, x):  # noqa: N803
        x = self.learned(self.sinusoids(x))
        return self.out(self.attention(x, x, x, causal=True))


@pytest.fixture
def model():
    made = Model()
    made.initialize(mx.init.Normal(0.3))
    made.hybridize()
    return made


def trained(model, trainer, x, steps):
    loss, losses = gluon.loss.L2Loss(), []
    for _ in range(steps):
        with autograd.record():
            error = loss(model(x).astype("float32"), x.astype("float32"))
        error.backward()
        trainer.step(len(x))
        losses.append(float(error.mean()))
    return losses


def test_only_parameters_are_trained(model):
    x = tokens(4, 6, 8)
    model(x)
    parameters = model.collect_params()
    learning = {name for name, parameter in parameters.items() if parameter.grad_req != "null"}
    assert {name.rsplit("_", 1)[1] for name in learning} == {"alpha", "weight", "bias"}
    before = {name: parameter.data().asnumpy() for name, parameter in parameters.items()}
    losses = trained(model, gluon.Trainer(parameters, "adam", {"learning_rate": 0.01, "wd": 0.1}), x, 20)
    assert losses[-1] < 0.9 * losses[0]
    for name, parameter in parameters.items():
        assert np.array_equal(parameter.data().asnumpy(), before[name]) == (name not in learning), name


def test_grad_req_add_accumulates(model):
    x = tokens(2, 5, 8)
    model(x)
    model.collect_params().setattr("grad_req", "add")
    alpha, gradients = model.learned.alpha, []
    for _ in range(2):
        with autograd.record():
            total = model(x).sum()
        total.backward()
        gradients.append(alpha.grad().asnumpy().copy())
    np.testing.assert_allclose(gradients[1], 2 * gradients[0], rtol=1e-6)
    np.testing.assert_array_equal(model.sinusoids.P[0].asnumpy(), Sinusoidal(dim=8).table(range(1000)))


class Rotated(gluon.HybridBlock):
    """The layers that have half precision on a CPU; Gluon's own `Dense` has not."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.sinusoids = PositionalEncoding(8)
            self.learned = PositionalEncoding(8, encoding=Learned(dim=8, length=9))
            self.attention = MultiHeadAttention(8, 2, bias=True)
            self.rope = RotaryEmbedding(Rotary(head_dim=8, layout="half"))

    def hybrid_forward(self, F, x):  # noqa: N803
        x = self.learned(self.sinusoids(x))
        return self.rope(x + self.attention(x, x, x, causal=True))


@pytest.mark.parametrize("position", [None, Rotary(head_dim=4, layout="half"), Alibi(num_heads=2)], ids=str)
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_attention_in_half_precision(position, hybrid):
    """q, k, scores, v, mean and result are each rounded to 11 bits, an error of half an ulp each; the errors add up."""
    mx.random.seed(0)
    layer, x = MultiHeadAttention(8, 2, bias=True, position=position), tokens(2, 6, 8).astype("float16")
    layer.initialize(mx.init.Normal(0.3))
    layer.cast("float16")
    single = copy.deepcopy(layer)
    single.cast("float32")
    in_float32 = x.astype("float32")
    wanted = single(in_float32, in_float32, in_float32, causal=True).asnumpy()
    layer.hybridize(hybrid)
    with autograd.record():
        got = layer(x, x, x, causal=True)
    got.backward()
    assert got.dtype == layer.W_q.weight.grad().dtype == np.float16
    np.testing.assert_allclose(got.asnumpy(), wanted, rtol=0, atol=6 * 2.0**-11 * np.abs(wanted).max())
    assert np.abs(layer.W_v.weight.grad().asnumpy()).max() > 0


def test_half_precision_with_weights_of_single_precision():
    model, x = Rotated(), tokens(4, 6, 8).astype("float16")
    model.initialize()
    model.cast("float16")
    model.hybridize()
    options = {"learning_rate": 0.03, "multi_precision": True}
    trainer = gluon.Trainer(model.collect_params(), "adam", options)
    losses = trained(model, trainer, x, 20)
    assert model(x).dtype == np.float16
    assert losses[-1] < 0.9 * losses[0]
    assert model.learned.table.data().dtype == np.float16
    trained_as = {weights.dtype for weights, _ in trainer._updaters[0].states.values()}
    assert trained_as == {np.float32}
    assert model.rope.cos.data().dtype == np.float32
    np.testing.assert_array_equal(model.sinusoids.P[0].asnumpy(), Sinusoidal(dim=8).table(range(1000)))


def test_sizes_are_inferred_in_a_graph(model):
    assert model.out.weight.shape == (8, -1)
    model.infer_shape(tokens(2, 5, 8))
    assert model.out.weight.shape == (8, 8)
    assert model.learned.alpha.shape == (4,)


def test_summary_counts_parameters(capsys):
    model = Model()
    model.initialize()
    model(tokens(2, 5, 8))
    model.summary(tokens(2, 5, 8))
    printed = capsys.readouterr().out
    assert "PositionalEncoding" in printed
    assert f"Trainable params: {4 + 4 * 64 + 64 + 8}" in printed


def test_two_bases_in_one_block():
    class Two(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.near = RotaryEmbedding(Rotary(head_dim=4, layout="half", base=100.0))
                self.far = RotaryEmbedding(Rotary(head_dim=4, layout="half", base=5e5))

        def hybrid_forward(self, F, x):  # noqa: N803
            return F.np.concatenate([self.near(x), self.far(x)], axis=-1)

    block = Two()
    block.hybridize()
    x = np.zeros((1, 1, 9, 4), np.float32)
    x[..., :2] = 1
    got = block(mx.np.array(x)).asnumpy()[0, 0]
    for columns, base in ((got[:, 1], 100.0), (got[:, 5], 5e5)):
        np.testing.assert_allclose(columns, np.cos(np.arange(9) / base**0.5), rtol=0, atol=2.0**-24)


class Numbered(gluon.data.Dataset):
    """Tokens of zeros with positions added by a layer in the worker."""

    def __init__(self):
        self.layer = PositionalEncoding(8, max_len=2)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        with mx.cpu():
            return self.layer(mx.np.zeros((index + 3, 8)))[index + 2].asnumpy()


@pytest.mark.parametrize("how", [{"num_workers": 2}, {"num_workers": 2, "thread_pool": True}], ids=["fork", "threads"])
def test_workers_share_a_layer(how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking
        rows = np.concatenate([batch.asnumpy() for batch in gluon.data.DataLoader(Numbered(), 3, **how)])
    np.testing.assert_array_equal(rows, Sinusoidal(dim=8).table(range(2, 8)))


def test_a_sequential_of_hybrid_blocks(model):
    stack = gluon.nn.HybridSequential()
    stack.add(PositionalEncoding(8, 0.5, encoding=Learned(dim=8, length=9)), gluon.nn.LayerNorm(in_channels=8))
    stack.initialize()
    stack.hybridize(static_alloc=True, static_shape=True)
    x = tokens(2, 5, 8)
    assert not np.isnan(stack(x).asnumpy()).any()
    with autograd.record():
        dropped = stack[0](x)
    assert (dropped.asnumpy() == 0).any()
    with pytest.raises(ValueError, match="`dropout` must be from 0 up to"):
        MultiHeadAttention(8, 2, 1.0, position=Alibi(num_heads=2))
