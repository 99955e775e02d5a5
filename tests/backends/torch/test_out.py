"""`out` in memory of NumPy: tensors of one array have separate storages that overlap."""

import numpy as np
import pytest
import torch

from posenc_core import rotate

LENGTH, WIDTH = 64, 64


def rows(memory, width, start=0):
    """Return a tensor of all rows from this index on."""
    return torch.from_numpy(memory[start : start + LENGTH * width].reshape(LENGTH, width))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("under", ["tokens", "table"])
def test_results_may_overlap_their_inputs(layout, under):
    x, cos, sin = np.random.default_rng(7).normal(size=(3, (LENGTH + 1) * WIDTH)).astype(np.float32)
    operands = rows(x, WIDTH), rows(cos, WIDTH // 2), rows(sin, WIDTH // 2)
    wanted = rotate(*(tensor.clone() for tensor in operands), layout=layout)
    out = rows(x if under == "tokens" else cos, WIDTH, start=WIDTH)
    assert rotate(*operands, layout=layout, out=out) is out
    torch.testing.assert_close(out, wanted, rtol=0, atol=0)
