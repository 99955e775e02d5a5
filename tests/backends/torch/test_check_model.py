"""`check_model` on modules of PyTorch that are no models of transformers."""

import doctest

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from posenc_backends.check.model import check_model, run
from posenc_backends.torch import MultiHeadAttention
from posenc_core import Rotary

RIGHT, SWAPPED = Rotary(head_dim=8, layout="half"), Rotary(head_dim=8, layout="interleaved")


class Ours(nn.Module):
    """Layers of ours, which count positions themselves."""

    def __init__(self, encoding):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layers = nn.ModuleList(MultiHeadAttention(16, 2, position=encoding) for _ in range(2))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x, x, x)
        return x


class Complex(nn.Module):
    """Attention with a table of complex numbers that is no buffer."""

    def __init__(self, past):
        super().__init__()
        self.embedding, self.project = nn.Embedding(20, 16), nn.Linear(16, 48)
        angles = torch.arange(4096)[:, None] * 1e4 ** -(torch.arange(4) / 4)
        self.table, self.past = torch.polar(torch.ones_like(angles), angles), past

    def forward(self, tokens, positions):
        if self.past:
            positions = positions.clamp(max=4095)
        turn = self.table[positions][:, :, None]
        q, k, v = self.project(self.embedding(tokens)).unflatten(-1, (3, 2, 8)).unbind(2)
        q, k = (torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * turn).flatten(-2) for x in (q, k))
        return scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))


def test_layers_of_ours_in_a_module():
    result = check_model(Ours(RIGHT).eval(), spec=RIGHT)
    assert (result.status, len(result.layers)) == (0, 2), result
    assert "not run: positions past 66" in str(result)
    assert check_model(Ours(Rotary(head_dim=8, layout="half", base=500.0)).eval(), spec=repr(RIGHT)).names == (
        "wrong base",
    )


def test_a_table_that_is_no_buffer():
    result = check_model(Complex(past=False), spec=SWAPPED)
    assert result.status == 0, result
    assert "not run: positions past 116: index 4096 is out of bounds" in str(result)
    assert check_model(Complex(past=True), spec=SWAPPED).names == ("positions clamped",)
    assert check_model(Complex(past=False), spec=RIGHT).names == ("layout swapped",)


def test_what_cannot_be_checked():
    assert check_model(nn.Bilinear(2, 2, 2), spec=RIGHT).status == 2
    with pytest.raises(ValueError, match="must have a layer that can be judged"):
        check_model(nn.Embedding(20, 2), spec=RIGHT)
    with pytest.raises(ValueError, match="`config` is missing"):
        check_model(nn.Embedding(20, 2))
    with pytest.raises(ValueError, match="both name the encoding"):
        check_model(nn.Embedding(20, 2), {}, spec=RIGHT)
    with pytest.raises(TypeError, match="must be rotary, additive or a bias"):
        check_model(nn.Embedding(20, 2), spec="QueryScale(length=8, scale=0.1)")
    with pytest.raises(TypeError, match="must be a torch"):
        check_model(print, spec=RIGHT)


def test_the_example_of_the_docstring():
    failed, tried = doctest.testmod(run)
    assert tried > failed == 0
