"""The kernel as a folder of its own launches as ours does."""

import importlib
import runpy
from pathlib import Path

import pytest
import torch

from posenc_backends.torch import apply_rotary

from . import expected

GENERATE = Path(__file__).parents[2] / "hub_kernel" / "generate.py"


@pytest.mark.parametrize("seq_axis", [-2, -3])
def test_the_folder_has_the_bits_of_the_reference(tmp_path, monkeypatch, seq_axis):
    runpy.run_path(str(GENERATE))["generate"](tmp_path / "kernel")
    monkeypatch.syspath_prepend(tmp_path / "kernel" / "torch-ext")
    kernel = importlib.import_module("posenc_rotary")
    q = torch.randn(2, *((3, 5) if seq_axis == -2 else (5, 3)), 12).bfloat16().requires_grad_()
    (cos, sin), positions = expected.tables(4), torch.tensor([[3, 1, 9, 1, 5], [8, 0, 2, 6, 5]])
    options = {"layout": "half", "positions": positions, "seq_axis": seq_axis}
    got, right = kernel.apply_rotary(q, None, cos, sin, **options)[0], apply_rotary(q, None, cos, sin, **options)[0]
    assert type(got.grad_fn).__name__ == "_RotateBackward"
    expected.same(got, right)
    gradients = (torch.autograd.grad(x, q, torch.ones_like(x))[0] for x in (got, right))
    expected.same(*gradients)
