"""Blocks of one model that are given one layer."""

import numpy as np
import paddle
import pytest
from paddle import nn

from posenc_backends.paddle import AttentionBias, MultiHeadAttention, RotaryEmbedding
from posenc_core import LearnedRotary, Rotary, T5Bias


def model_of(layer):
    model = nn.LayerList([MultiHeadAttention(8, 2, position=layer) for _ in range(3)])
    model.eval()
    return model


def result(model, length=5):
    x = paddle.linspace(-1, 1, 8 * length).reshape([1, length, 8])
    for block in model:
        x = block(x, x, x, causal=True)
    return x.numpy()


def test_casts_keep_one_table_which_grows_for_all():
    model = model_of(RotaryEmbedding(Rotary(head_dim=4, layout="half"), max_len=8))
    for moved in (model, model.astype("bfloat16"), model.astype("float32")):
        assert len({block.rotary.arrays["cos"].data_ptr() for block in moved}) == 1
    assert np.isfinite(result(model, 12)).all()
    assert {block.rotary.arrays["cos"].shape[0] for block in model} == {16}


@pytest.mark.parametrize(
    "make",
    [lambda: RotaryEmbedding(LearnedRotary(head_dim=4, layout="half")), lambda: AttentionBias(T5Bias(num_heads=2))],
)
def test_what_learns_is_one_parameter(tmp_path, make):
    first, second = model_of(make()), model_of(make())
    assert len(first.parameters()) == 3 * 4 + 1
    paddle.save(first.state_dict(), str(tmp_path / "state.pdparams"))
    second.set_state_dict(paddle.load(str(tmp_path / "state.pdparams")))
    np.testing.assert_array_equal(result(second), result(first))
    assert len(second.parameters()) == 3 * 4 + 1
