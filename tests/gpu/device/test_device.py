"""The kernel on a GPU: the bits of the reference on the host, and no waiting."""

import pytest
import torch

from posenc_backends.torch import RotaryEmbedding, apply_qk_norm_rotary, apply_rotary
from posenc_backends.torch.rotation import gpu
from posenc_core import Rotary, normalize_and_rotate

from .. import expected

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: only the interpreter has run the kernel"),
    pytest.mark.skipif(gpu.IS_INTERPRETED, reason="TRITON_INTERPRET=1 replaces the GPU"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning"),  # is a prototype, it says
]


@pytest.fixture(autouse=True)
def unhurried():
    """Raise an error where the host would wait for the device."""
    torch.cuda.set_sync_debug_mode("default")
    yield
    torch.cuda.set_sync_debug_mode("default")


def on_device(given):
    return given.cuda() if isinstance(given, torch.Tensor) else given


@pytest.mark.parametrize("strides", expected.STRIDES)
@pytest.mark.parametrize("form", expected.FORMS)
@pytest.mark.parametrize("dtype", expected.DTYPES)
def test_the_device_has_the_bits_of_the_host(form, strides, dtype):
    form = "positions" if strides == "THD" and "each" in form else form
    q, seq_axis = expected.tokens(strides, 4, expected.DTYPES[dtype])
    k, _ = expected.tokens(strides, 2, expected.DTYPES[dtype])
    rows, arguments, found = expected.arguments_of(form, *expected.tables())
    there = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda").copy_(x) if 0 not in x.stride()
             else x[:1].cuda().expand(x.shape) for x in (q, k)]  # fmt: skip
    tables, arguments = [table.cuda() for table in rows], {name: on_device(one) for name, one in arguments.items()}
    for layout, placement, blocks in expected.PAIRINGS:
        options = {"layout": layout, "placement": placement, "blocks": blocks, "seq_axis": seq_axis}
        results = apply_rotary(*there, *tables, **options, **arguments)
        torch.cuda.set_sync_debug_mode("error")
        apply_rotary(*there, *tables, **options, **arguments)
        torch.cuda.set_sync_debug_mode("default")
        for x, result in zip((q, k), results, strict=True):
            expected.same(result.cpu(), expected.rotated(x, found, **options))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
def test_the_norm_and_its_gradient_are_those_of_the_formula(order, layout):
    """Of 300 tokens, more than programs at once; the same bits each time."""
    given = [torch.randn(2, heads, 300, 72) for heads in (5, 2)] + [torch.randn(72) for _ in "qk"]
    (cos, sin), options = expected.tables(36, rows=300), {"layout": layout, "order": order, "offset": 1.0}
    cotangents = [torch.randn_like(x) for x in given[:2]]
    leaves, right = [x.cuda().requires_grad_() for x in given], [x.double().requires_grad_() for x in given]
    here = [normalize_and_rotate(x, cos, sin, weight=w, **options) for x, w in zip(right[:2], right[2:], strict=True)]
    wanted = [*here, *torch.autograd.grad(here, right, [x.double() for x in cotangents])]
    results = []
    for _ in "12":
        there = apply_qk_norm_rotary(*leaves[:2], cos.cuda(), sin.cuda(), *leaves[2:], **options)
        results.append([*there, *torch.autograd.grad(there, leaves, [x.cuda() for x in cotangents])])
    for one, again, other in zip(*results, wanted, strict=True):
        assert torch.equal(one, again)
        torch.testing.assert_close(one.cpu().double(), other, rtol=1e-5, atol=1e-5 * float(other.detach().abs().max()))


def test_the_layer_does_not_wait():
    layer, positions = RotaryEmbedding(Rotary(head_dim=64, layout="half")).cuda(), torch.arange(7, device="cuda")
    q, k = torch.randn(2, 8, 7, 64, device="cuda"), torch.randn(2, 2, 7, 64, device="cuda")
    layer(q, k, positions=positions)
    torch.cuda.set_sync_debug_mode("error")
    got = layer(q, k, positions=positions)
    started = layer(q, k, start=positions[:2])
    torch.cuda.set_sync_debug_mode("default")
    for result, wanted in zip(got, layer(q, k), strict=True):
        expected.same(result.cpu(), wanted.cpu())
    assert not started[0].isnan().any()


def test_tables_are_the_same_bytes_as_on_the_host():
    layer = RotaryEmbedding(Rotary(head_dim=64, layout="half"), max_len=4096)
    host = [table.clone() for table in layer.tables]
    for table, there in zip(host, layer.cuda().tables, strict=True):
        expected.same(there.cpu(), table)


def test_offsets_past_32_bits_are_read_and_written():
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("9 GiB of the device are needed")
    x = torch.empty(2**31 + 64, dtype=torch.float16, device="cuda").as_strided((2, 2, 3, 8), (2**31, 24, 8, 1))
    numbers, (cos, sin) = torch.randn(2, 2, 3, 8).half(), expected.tables(3)
    x.copy_(numbers)
    apply_rotary(x, None, cos.cuda(), sin.cuda(), layout="half", out=(x, None))
    expected.same(x.cpu(), expected.rotated(numbers, (cos[:3], sin[:3]), "half"))
