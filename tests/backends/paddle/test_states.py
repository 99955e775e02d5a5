"""States of models: what Paddle asks the layers of a model, and what they reject."""

import copy

import numpy as np
import paddle
import pytest
from paddle import nn

from posenc_backends.paddle import AttentionBias, MultiHeadAttention, PositionalEncoding
from posenc_core import Learned, ShawBias, T5Bias

T5 = T5Bias(num_heads=2)


def biased(encoding):
    return nn.Sequential(nn.Linear(4, 4), AttentionBias(encoding))


def positional_encoding(encoding):
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(PositionalEncoding(4, encoding=encoding)))


def attending(encoding):
    return nn.Sequential(nn.Linear(4, 4), MultiHeadAttention(8, 2, position=encoding))


def loaded(model, folder):
    """Save the state of a model, read it and return it."""
    paddle.save(model.state_dict(), str(folder / "state.pdparams"))
    return paddle.load(str(folder / "state.pdparams"))


@pytest.mark.parametrize(
    ("make", "saved_encoding", "loaded_encoding"),
    [
        (biased, T5, T5Bias(num_heads=2, max_distance=99)),
        (positional_encoding, Learned(dim=4, length=9), Learned(dim=4, length=7)),
        (attending, T5, T5Bias(num_heads=2, sides="past")),
    ],
    ids=["the same shape", "another shape", "inside attention"],
)
@pytest.mark.parametrize("load", ["set_state_dict", "set_dict", "load_dict"])
def test_a_model_rejects_a_state_of_another_encoding(tmp_path, make, saved_encoding, loaded_encoding, load):
    state, model = loaded(make(saved_encoding), tmp_path), make(loaded_encoding)
    before = {name: array.numpy() for name, array in model.state_dict().items() if "table" in name}
    with pytest.raises(ValueError, match="`state_dict` must be of the layer's encoding") as raised:
        getattr(model, load)(state)
    assert f"encoding {loaded_encoding!r}, got `1." in str(raised.value)
    assert repr(saved_encoding) in str(raised.value)
    assert before
    for name, array in before.items():
        np.testing.assert_array_equal(model.state_dict()[name].numpy(), array)


@pytest.mark.parametrize("structured", [True, False])
def test_a_model_loads_a_state_of_the_same_encoding(tmp_path, structured):
    model = biased(ShawBias(num_heads=2, head_dim=4, max_distance=3))
    wanted = {name: array.numpy() for name, array in model.state_dict().items()}
    state = loaded(model, tmp_path)
    if not structured:
        state = {parameter.name: state[key] for key, parameter in model.state_dict().items()}
    for array in model.state_dict().values():
        array.set_value(paddle.zeros_like(array))
    assert tuple(model.set_state_dict(state, use_structured_name=structured)) == ([], [])
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array.numpy(), wanted[name])


def test_arrays_without_names_of_encodings_are_loaded_if_they_fit():
    model = positional_encoding(Learned(dim=4, length=7))
    table = np.arange(28, dtype=np.float32).reshape(7, 4)
    state = {name: array.numpy() for name, array in model.state_dict().items()} | {"1.0.table": table}
    assert tuple(model.set_state_dict(state)) == ([], [])
    np.testing.assert_array_equal(model[1][0].table.numpy(), table)
    with pytest.raises(ValueError, match=r"`1.0.table` must have shape \[7, 4\], got \[9, 4\]"):
        model.set_state_dict(state | {"1.0.table": np.zeros((9, 4), np.float32)})


def test_missing_keys_are_reported_by_paddle():
    model = biased(T5)
    with pytest.warns(UserWarning, match="Skip loading for 1.table. 1.table is not found"):
        missing, _ = model.set_state_dict({name: x for name, x in model.state_dict().items() if name != "1.table"})
    assert missing == ["1.table"]


def test_a_parameter_proxy_behaves_like_the_parameter():
    model = biased(T5)
    (proxy,) = (x for name, x in model.state_dict(use_hook=False).items() if name == "1.table")
    np.testing.assert_array_equal(proxy.numpy(), model[1].table.numpy())
    assert proxy.name == model[1].table.name
    assert len(proxy) == len(model[1].table)


def test_a_copy_of_a_model_takes_the_state_of_the_original():
    model = biased(T5)
    copied = copy.deepcopy(model)
    copied[1].table.set_value(paddle.zeros_like(copied[1].table))
    copied.set_state_dict(model.state_dict())
    np.testing.assert_array_equal(copied[1].table.numpy(), model[1].table.numpy())


def test_normalized_parameters_are_trained_in_layers_and_in_attention():
    layer, attention = PositionalEncoding(8, encoding=Learned(dim=8, length=7)), MultiHeadAttention(8, 2, position=T5)
    x = paddle.randn([2, 4, 8])
    wanted = layer(x), attention(x, x, x)
    for owner in (layer, attention.scoring):
        nn.utils.weight_norm(owner, "table")
    for _ in range(2):  # an attribute that is not computed again has no graph the second time
        got = layer(x), attention(x, x, x)
        (got[0].sum() + got[1].sum()).backward()
    for first, second in zip(got, wanted, strict=True):
        np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=0, atol=1e-6)
    assert attention.scoring.table_v.grad is not None
