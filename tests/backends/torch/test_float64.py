"""Gradients in float64, as `torch.autograd.gradcheck` asks for them, and modules that were moved by `.double()`."""

import numpy as np
import pytest
import torch

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Rotary, rotate

ROTARY = Rotary(head_dim=4, layout="half")


def test_gradcheck_of_both_layers():
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    for layer in (RotaryEmbedding(ROTARY), PositionalEncoding(4)):
        assert torch.autograd.gradcheck(layer, (x,), atol=1e-9, rtol=1e-9)
        assert torch.autograd.gradgradcheck(layer, (x,))


def test_gradcheck_of_positions():
    x = torch.randn(3, 4, dtype=torch.float64)
    positions = torch.tensor([0.25, 1.5, 3.0], dtype=torch.float64, requires_grad=True)
    layer = PositionalEncoding(4)
    row = layer(x, positions=positions)
    (gradient,) = torch.autograd.grad(row.sum(), positions)
    expected = layer.encoding.derivatives(positions.detach().numpy())["table"].sum(axis=-1)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6)


def test_modules_in_float64_agree_with_the_formula():
    attention = MultiHeadAttention(8, 2, position=ROTARY).double().eval()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    q, k, v = (part(x).view(1, 5, 2, 4).transpose(1, 2) for part in (attention.W_q, attention.W_k, attention.W_v))
    cos, sin = (torch.from_numpy(table) for table in ROTARY.cos_sin(range(5), dtype=np.float64))
    q, k = (rotate(part, cos, sin, layout="half") for part in (q, k))
    expected = attention.W_o((torch.softmax(q @ k.mT / 2, -1) @ v).transpose(1, 2).reshape(1, 5, 8))
    torch.testing.assert_close(attention(x, x, x), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("grad", [False, True])
def test_results_do_not_share_memory_with_the_tables(grad):
    zeros = torch.zeros(2, 4, dtype=torch.float64, requires_grad=grad)
    layer = PositionalEncoding(4)
    with torch.no_grad():
        layer(zeros).fill_(7)
        rows = layer.lookup(zeros)[0]
        rows.fill_(7)
        assert layer(zeros)[0].tolist() == [0, 1, 0, 1]


def test_compiled_code_keeps_tables_of_float32():
    layer = RotaryEmbedding(ROTARY)
    x = torch.randn(3, 4, dtype=torch.float64)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)(x)
    cos, sin = (torch.from_numpy(table) for table in ROTARY.cos_sin(range(3)))
    torch.testing.assert_close(compiled, rotate(x, cos, sin, layout="half"), rtol=0, atol=1e-15)
