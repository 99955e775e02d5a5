"""Blocks of one model that hold one table: they are given one layer."""

import copy

import pytest
import torch
from torch import nn

from posenc_backends.torch import AttentionBias, MultiHeadAttention, RotaryEmbedding
from posenc_core import LearnedRotary, Rotary, T5Bias


@pytest.fixture
def model():
    """Three blocks that share what turns queries and keys."""
    return model_of(RotaryEmbedding(Rotary(head_dim=4, layout="half")))


def model_of(layer):
    return nn.ModuleList([MultiHeadAttention(8, 2, position=layer) for _ in range(3)]).eval()


def tables(model):
    return {block.rotary.arrays["cos"].data_ptr() for block in model}


def test_copies_casts_and_moves_keep_one_table(model):
    for moved in (
        model,
        copy.deepcopy(model),
        model.bfloat16(),
        model.float(),
        model.to("meta").to_empty(device="cpu"),
    ):
        assert len(tables(moved)) == 1


def test_it_grows_once_for_all_and_the_numbers_are_those_of_blocks_of_their_own(model):
    x = torch.randn(1, len(model[0].rotary.arrays["cos"]) + 1, 8)
    own = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half")).eval()
    for block in model:
        own.load_state_dict(block.state_dict())
        torch.testing.assert_close(block(x, x, x, causal=True), own(x, x, x, causal=True), rtol=0, atol=0)
    assert len(tables(model)) == 1


@pytest.mark.parametrize(
    "make",
    [lambda: RotaryEmbedding(LearnedRotary(head_dim=4, layout="half")), lambda: AttentionBias(T5Bias(num_heads=2))],
)
def test_what_learns_is_one_parameter(make):
    first, second, x = model_of(make()), model_of(make()), torch.randn(1, 5, 8)
    assert len(list(first.parameters())) == 3 * 4 + 1
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert len(list(second.parameters())) == 3 * 4 + 1
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(other(x, x, x), one(x, x, x), rtol=0, atol=0)
