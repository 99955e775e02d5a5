"""Blocks of a paged cache that move by their own distances: one launch of the kernel, with the bits of `rerotate`."""

import numpy as np
import pytest
import torch

from posenc_backends.torch import apply_rotary
from posenc_core import Rotary, rerotate

ROTARY = Rotary(head_dim=16, layout="half", base=500000.0)
SHIFTS = np.array([512, -8, 0, 40])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_paged_blocks_move_in_one_launch(launches, dtype):
    paged = torch.randn(4, 8, 2, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    old = np.array([0, 8, 16, 24])[:, None] + np.arange(8)
    wanted = rerotate(paged, old, old + SHIFTS[:, None], rotary=ROTARY, seq_axis=1)
    before = len(launches)
    cos, sin = (torch.from_numpy(table)[:, None].expand(-1, 8, -1) for table in ROTARY.cos_sin(SHIFTS))
    moved, _ = apply_rotary(paged, None, cos, sin, layout="half", seq_axis=-3)
    assert torch.equal(moved, wanted)
    assert launches[before:] == [1]
