"""Blocks of one model that are given one layer."""

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, RotaryEmbedding
from posenc_core import LearnedRotary, Rotary, T5Bias

ROTARY = Rotary(head_dim=4, layout="half")


class Model(nn.HybridBlock):
    """Three blocks, one after another."""

    def __init__(self, layer):
        super().__init__()
        self.first, self.second, self.third = (MultiHeadAttention(8, 2, position=layer) for _ in range(3))
        self.initialize(mx.init.Normal(0.5))

    def hybrid_forward(self, F, x):  # noqa: N803
        for block in (self.first, self.second, self.third):
            x = block(x, x, x)
        return x


def tokens(length):
    return mx.np.array(np.linspace(-1, 1, 8 * length).reshape(1, length, 8), dtype="float32")


def test_graphs_take_the_table_that_another_block_has_grown():
    layer = RotaryEmbedding(ROTARY, max_len=8)
    first, second = (MultiHeadAttention(8, 2, position=layer) for _ in range(2))
    for block in (first, second):
        block.initialize(mx.init.Normal(0.5))
    wanted = {length: second(*[tokens(length)] * 3).asnumpy() for length in (5, 8)}
    for block in (first, second):
        block.hybridize()
        np.testing.assert_array_equal(second(*[tokens(5)] * 3).asnumpy(), wanted[5])
    first(*[tokens(12)] * 3)
    assert layer.arrays["cos"].shape[0] == 16
    for length in (5, 8):
        np.testing.assert_array_equal(second(*[tokens(length)] * 3).asnumpy(), wanted[length])
    assert np.isfinite(second(*[tokens(12)] * 3).asnumpy()).all()


@pytest.mark.parametrize(
    "make",
    [lambda: RotaryEmbedding(LearnedRotary(head_dim=4, layout="half")), lambda: AttentionBias(T5Bias(num_heads=2))],
)
def test_what_learns_is_one_parameter(tmp_path, make):
    first, second = Model(make()), Model(make())
    learned = {id(given) for given in first.collect_params().values() if given.grad_req != "null"}
    assert len(learned) == 3 * 4 + 1
    first.save_parameters(str(tmp_path / "model.params"))
    second.load_parameters(str(tmp_path / "model.params"))
    x = tokens(5)
    np.testing.assert_array_equal(second(x).asnumpy(), first(x).asnumpy())
