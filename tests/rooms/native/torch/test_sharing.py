"""Blocks of one model that hold one table: the layer of the first is given to the others."""

import copy

import pytest
import torch
from torch import nn

from posenc_backends.torch import MultiHeadAttention
from posenc_core import Rotary


@pytest.fixture
def model():
    """Three blocks that share what turns queries and keys."""
    blocks = [MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half")).eval() for _ in range(3)]
    for block in blocks[1:]:
        block.rotary = blocks[0].rotary
    return nn.ModuleList(blocks)


def tables(model):
    return {block.rotary.held["cos"].data_ptr() for block in model}


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
    x = torch.randn(1, len(model[0].rotary.held["cos"]) + 1, 8)
    own = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half")).eval()
    for block in model:
        own.load_state_dict(block.state_dict())
        torch.testing.assert_close(block(x, x, x, causal=True), own(x, x, x, causal=True), rtol=0, atol=0)
    assert len(tables(model)) == 1
