"""What Paddle users do with a layer."""

import numpy as np
import paddle
import pytest

from posenc_backends.paddle import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary, Sinusoidal, T5Bias

TABLE = Sinusoidal(dim=8).table(range(1000))


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.to(dtype="bfloat16"),
        lambda layer: layer.half(),
        lambda layer: layer.astype("float64"),
        lambda layer: layer.to("cpu", dtype="float16").float(),
        lambda layer: paddle.nn.Sequential(layer).to(dtype="bfloat16")[0],  # `bfloat16()` asks the processor first
    ],
    ids=["to", "half", "astype", "to and back", "in a model"],
)
def test_casts_do_not_reach_the_table(change):
    table = change(PositionalEncoding(8)).P[0]
    assert table.dtype == paddle.float32
    np.testing.assert_array_equal(table.numpy(), TABLE)


def test_tables_are_neither_saved_nor_trained():
    assert not PositionalEncoding(8).state_dict()
    assert not RotaryEmbedding(Rotary(head_dim=8, layout="half")).parameters()
    assert list(PositionalEncoding(8, encoding=Learned(dim=8, length=5)).state_dict()) == ["table"]


def test_a_saved_program_runs_at_another_length(tmp_path):
    layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=20)
    spec = paddle.static.InputSpec([None, 2, None, 8])
    paddle.jit.save(layer, str(tmp_path / "rope"), input_spec=[spec])
    program = paddle.jit.load(str(tmp_path / "rope"))
    for length in (5, 20):
        x = paddle.randn([1, 2, length, 8])
        np.testing.assert_array_equal(program(x).numpy(), layer(x).numpy())
    beyond = program(paddle.randn([1, 2, 21, 8])).numpy()
    assert np.isnan(beyond[:, :, 20]).all()
    assert not np.isnan(beyond[:, :, :20]).any()


def test_attention_has_dropout_only_in_training():
    layer, x = MultiHeadAttention(8, 2, 0.5), paddle.randn([2, 6, 8])
    assert not paddle.equal_all(layer(x, x, x), layer(x, x, x))
    layer.eval()
    assert paddle.equal_all(layer(x, x, x), layer(x, x, x))


def test_parameters_take_attributes():
    half, one = (paddle.nn.initializer.Constant(number) for number in (0.5, 1.0))
    attention = MultiHeadAttention(8, 2, bias=True, position=T5Bias(num_heads=2), weight_attr=half, bias_attr=one)
    numbers = {name: parameter.numpy() for name, parameter in attention.named_parameters()}
    assert all((each == (1.0 if name.endswith("bias") else 0.5)).all() for name, each in numbers.items())
    slow = paddle.ParamAttr(initializer=half, learning_rate=0.1, name="mine")
    table = PositionalEncoding(8, encoding=Learned(dim=8, length=5), weight_attr=slow).table
    assert (table.numpy() == 0.5).all()
    assert table.optimize_attr == {"learning_rate": 0.1}
    assert "Learned(dim=8, length=5)" in table.name  # a state of another encoding is refused by it
