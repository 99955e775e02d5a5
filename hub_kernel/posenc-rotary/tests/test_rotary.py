"""The kernel against PyTorch's operators in float64."""

import posenc_rotary
import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDING = {torch.float32: 2**-21, torch.bfloat16: 2**-8, torch.float16: 2**-10}


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_results_are_those_of_complex_numbers(layout, dtype):
    q, k = (torch.randn(2, heads, 5, 12, device=DEVICE).to(dtype) for heads in (3, 1))
    angles = torch.rand(9, 4, dtype=torch.float64, device=DEVICE)
    positions = torch.tensor([[3, 1, 4, 1, 5], [8, 0, 2, 6, 5]], device=DEVICE)
    tables = angles.cos().float(), angles.sin().float()
    results = posenc_rotary.apply_rotary(q, k, *tables, layout=layout, positions=positions)
    back = posenc_rotary.apply_rotary(*results, *tables, layout=layout, positions=positions, inverse=True)
    for x, result, again in zip((q, k), results, back, strict=True):
        pairs = x[..., :8].double().unflatten(-1, (2, 4) if layout == "half" else (4, 2))
        pairs = pairs.movedim(-2, -1) if layout == "half" else pairs
        turned = torch.view_as_complex(pairs.contiguous()) * torch.exp(1j * angles[positions])[:, None]
        right = torch.view_as_real(turned)
        right = (right.movedim(-1, -2) if layout == "half" else right).flatten(-2)
        error = {"rtol": ROUNDING[dtype], "atol": 4 * ROUNDING[dtype]}
        torch.testing.assert_close(result[..., :8].double(), right, **error)
        torch.testing.assert_close(again, x, **error)
        assert torch.equal(result[..., 8:], x[..., 8:])


def test_the_layer_has_a_gradient():
    q, k = (torch.randn(1, heads, 3, 8, device=DEVICE, requires_grad=True) for heads in (2, 1))
    angles = torch.rand(1, 3, 4, device=DEVICE).repeat(1, 1, 2)
    layer = posenc_rotary.layers.apply_rotary_transformers()
    results = layer(q, k, angles.cos(), angles.sin())
    gradients = torch.autograd.grad(results, (q, k), [x.detach() for x in results])
    for x, gradient in zip((q, k), gradients, strict=True):  # a rotation keeps the scalar product
        torch.testing.assert_close(gradient, x.detach())


def test_packed_sequences_begin_at_the_first_row():
    x, tables = torch.ones(6, 2, 8, device=DEVICE), [torch.rand(4, 4, device=DEVICE) for _ in "cs"]
    cu_seqlens = torch.tensor([0, 4, 6], device=DEVICE)
    result, none = posenc_rotary.apply_rotary(x, None, *tables, cu_seqlens=cu_seqlens, seq_axis=-3)
    assert torch.equal(result[:2], result[4:])
    assert none is None
