"""`out` in memory of NumPy: tensors of one array have separate storages that overlap."""

import numpy as np
import pytest
import torch

from posenc_backends._kernels import library
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


@pytest.mark.parametrize("library_here", [True, False], ids=["as installed", "without the kernel"])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.ones(1, 8).expand(4, 8), "more than one element"),
        (lambda: torch.ones(4, 8, requires_grad=True), "a leaf Variable"),
    ],
    ids=["expanded", "leaf"],
)
def test_results_that_pytorch_does_not_write_to_are_refused(monkeypatch, library_here, make, why):
    if not library_here:
        monkeypatch.setattr(library, "LIBRARY", None)
    with pytest.raises(TypeError, match=f"`out` must be an array that can be written to, got Tensor: .*{why}"):
        rotate(torch.ones(4, 8), torch.ones(4, 4), torch.zeros(4, 4), layout="half", out=make())
