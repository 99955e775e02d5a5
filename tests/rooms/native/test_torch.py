"""What a PyTorch user does to a layer."""

import copy
import pickle

import numpy as np
import pytest
import torch

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary, Sinusoidal

TABLE = Sinusoidal(dim=8).table(range(1000))


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.half(),
        lambda layer: layer.bfloat16(),
        lambda layer: layer.double(),
        lambda layer: layer.to(torch.float16).float(),
        lambda layer: torch.nn.Sequential(layer).bfloat16()[0],
        lambda layer: layer.to("meta").to_empty(device="cpu"),
        lambda layer: layer.share_memory(),
        copy.deepcopy,
        lambda layer: pickle.loads(pickle.dumps(layer)),
    ],
    ids=["half", "bfloat16", "double", "to and back", "in a model", "meta", "share", "deepcopy", "pickle"],
)
def test_no_cast_or_move_reaches_the_table(change):
    table = change(PositionalEncoding(8)).P[0]
    assert table.dtype == torch.float32
    np.testing.assert_array_equal(table.numpy(), TABLE)


def test_a_layer_made_on_the_meta_device_is_filled_later():
    with torch.device("meta"):
        layer = PositionalEncoding(8)
    layer.to_empty(device="cpu")
    np.testing.assert_array_equal(layer.P[0].numpy(), TABLE)


def test_layers_follow_the_default_device():
    with torch.device("meta"):
        layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
        assert layer(torch.ones(1, 1, 4, 8)).is_meta


@pytest.mark.parametrize("call", [{"start": -3}, {"positions": [0.5, 1.0, 2.0]}, {"start": [7]}], ids=str)
def test_compiled_code_leaves_exact_tables_alone(call):
    torch.compiler.reset()
    layer, x = RotaryEmbedding(Rotary(head_dim=8, layout="half")), torch.randn(1, 2, 3, 8)
    assert torch.equal(torch.compile(layer)(x, **call), layer(x, **call))


def test_tables_are_neither_saved_nor_trained():
    assert not PositionalEncoding(8).state_dict()
    assert not list(RotaryEmbedding(Rotary(head_dim=8, layout="half")).parameters())
    learned = PositionalEncoding(8, encoding=Learned(dim=8, length=5))
    assert list(learned.state_dict()) == ["table"]
    PositionalEncoding(8, max_len=3).load_state_dict(PositionalEncoding(8, max_len=7).state_dict())


def test_autocast_and_inference_mode_leave_no_trace():
    layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=4)
    x = torch.randn(1, 1, 9, 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        first = layer(x)
    again = layer(x.requires_grad_())
    again.sum().backward()
    assert torch.equal(first, again)


def test_vmap_and_functional_gradients():
    layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
    x = torch.randn(3, 2, 5, 8)
    assert torch.equal(torch.vmap(layer)(x), layer(x))
    gradient = torch.func.grad(lambda x: (layer(x) ** 2).sum())(x)
    torch.testing.assert_close(gradient, 2 * x)


def test_gradients_agree_with_finite_differences():
    layer = RotaryEmbedding(Rotary(head_dim=4, layout="interleaved"))
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, start=1000), x)


def test_attention_drops_in_training_alone():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2, 0.5), torch.randn(2, 6, 8)
    assert not torch.equal(layer(x, x, x), layer(x, x, x))
    layer.eval()
    assert torch.equal(layer(x, x, x), layer(x, x, x))
