"""The rotation part by part, where the compiled kernel is missing: the bits of the reference, for all calls."""

from itertools import product

import pytest
import torch
from torch.func import hessian, jvp, vmap

from posenc_backends._kernels import library
from posenc_backends.torch import RotaryEmbedding, apply_rotary
from posenc_backends.torch.rotation import without_kernel
from posenc_core import Rotary, rotate, unrotate
from posenc_core.rotation import pairing_of, rotate_checked, rotate_reference

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # forward mode warns

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
LAYOUTS = ("half", "interleaved")
PAIRINGS = [
    *product(LAYOUTS, ("lead", "trail"), (1,)),
    ("half", "spread", 1),
    ("interleaved_to_half", "lead", 1),
    ("half", "trail", 2),
]
SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 0.0, 1e-42, 6e-8, 65520.0, 3e38])
TABLES = {"for all": (33,), "for each row": (2, 1, 33), "for each head": (2, 3, 33), "for one": (1,)}
STRIDES = {
    "as it lies": lambda x: x,
    "heads last": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "every other channel": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "an odd place": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    "odd rows": lambda x: torch.nn.functional.pad(x, (0, 1))[..., :-1],
    "one for all heads": lambda x: x[:, :1].expand(x.shape),
}


@pytest.fixture(autouse=True)
def rotated(monkeypatch):
    """A list that grows with each tensor that is rotated part by part, of 512 numbers for each thread."""
    found, rotate_by_parts = [], without_kernel.rotate
    monkeypatch.setattr(library, "LIBRARY", None)
    monkeypatch.setattr(without_kernel, "PART", 1 << 9)
    monkeypatch.setattr(without_kernel, "rotate", lambda x, *rest: found.append(x) or rotate_by_parts(x, *rest))
    return found


@pytest.fixture(params=[1, 2], ids="threads {}".format)
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def tokens(*shape, special=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))
    if special:
        numbers.view(-1)[::7] = SPECIAL.repeat(numbers.numel())[: len(numbers.view(-1)[::7])]
    return numbers


def formula(x, cos, sin, layout):
    return rotate_reference(x, cos, sin, pairing_of(layout))


def assert_bits(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.is_contiguous()
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.signbit() & ~found.isnan(), wanted.signbit() & ~wanted.isnan())


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
@pytest.mark.parametrize(("width", "pairs"), [(128, 64), (80, 40), (88, 32), (2, 0)])
def test_bits_agree_with_the_reference(rotated, threads, layout, placement, blocks, width, pairs):
    pairing = pairing_of(layout, placement, blocks)
    x, (cos, sin) = tokens(2, 9, 33, width, special=True), tokens(2, 33, pairs)
    for dtype in DTYPES:
        found = rotate(x.to(dtype), cos, sin, layout=layout, placement=placement, blocks=blocks)
        assert_bits(found, rotate_reference(x.to(dtype), cos, sin, pairing))
    assert len(rotated) == (4 if x.numel() > without_kernel.PART else 0)


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_may_have_any_strides(rotated, strided, rows, layout):
    x, (cos, sin) = strided(tokens(2, 3, 33, 64)), tokens(2, *rows, 32)
    for dtype in DTYPES:
        given = strided(x.to(dtype))
        assert_bits(rotate(given, cos, sin, layout=layout), formula(given, cos, sin, layout))
    assert len(rotated) == len(DTYPES)


def test_few_tokens_and_single_rows_and_empty_ones_take_the_formula(rotated):
    for layout in LAYOUTS:
        assert rotate(torch.ones(2, 0, 8), torch.ones(0, 4), torch.ones(0, 4), layout=layout).shape == (2, 0, 8)
        for x in (tokens(2, 3, 8), tokens(1024)):
            cos, sin = tokens(2, x.shape[-1] // 2)
            assert_bits(rotate(x, cos, sin, layout=layout), formula(x, cos, sin, layout))
    assert not rotated


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_written_to_out(rotated, layout):
    x, (cos, sin) = tokens(2, 3, 33, 64), tokens(2, 33, 32)
    wanted, out = formula(x, cos, sin, layout), torch.empty(2, 3, 64, 33).mT
    version = out._version
    assert rotate(x, cos, sin, layout=layout, out=out) is out
    assert torch.equal(out, wanted)
    assert out._version > version
    memory = torch.cat([tokens(64), x.flatten()])
    before, shifted = memory[:-64].view(x.shape), memory[64:].view(x.shape)
    wanted = formula(before.clone(), cos, sin, layout)
    assert torch.equal(rotate(before, cos, sin, layout=layout, out=shifted), wanted)
    assert rotate(x, cos, sin, layout=layout, out=x) is x
    assert torch.equal(x, formula(tokens(2, 3, 33, 64), cos, sin, layout))
    assert len(rotated) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_have_the_bits_of_the_formulas(rotated, layout, dtype):
    x, weights, (cos, sin) = tokens(2, 3, 33, 40).to(dtype), tokens(2, 3, 33, 40).to(dtype), tokens(2, 33, 16)
    x.requires_grad_()
    pairing = pairing_of(layout)
    (found,) = torch.autograd.grad(rotate(x, cos, sin, layout=layout), x, weights)
    assert_bits(found, unrotate(weights, cos, sin, layout=layout))
    assert_bits(found, rotate_reference(weights, cos, -sin, pairing.inverse))
    assert len(rotated) == 3  # forward and backward, and `unrotate`


@pytest.mark.parametrize("layout", LAYOUTS)
def test_derivatives_of_all_orders(rotated, monkeypatch, layout):
    monkeypatch.setattr(without_kernel, "PART", 16)
    x, (cos, sin) = tokens(2, 3, 32).double().requires_grad_(), tokens(2, 3, 16).double()
    assert torch.autograd.gradcheck(lambda x: rotate(x, cos, sin, layout=layout), (x,))
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, cos, sin, layout=layout) ** 2, (x,))
    assert rotated


@pytest.mark.parametrize("layout", LAYOUTS)
def test_learned_tables_have_gradients(rotated, layout):
    x, tables = tokens(2, 9, 3, 32), [table.double().requires_grad_() for table in tokens(2, 3, 16).unbind()]
    torch.autograd.gradcheck(lambda cos, sin: rotate(x.double(), cos, sin, layout=layout), tables)
    assert not rotated


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transformed_traced_and_other_tensors_take_the_formula(rotated, layout):
    x, (cos, sin) = tokens(2, 9, 4, 32), tokens(2, 4, 16)
    plain = rotate(x, cos, sin, layout=layout)
    assert rotated.pop() is x

    def turn(x):
        return rotate(x, cos, sin, layout=layout)

    torch.testing.assert_close(vmap(turn)(x), plain, rtol=0, atol=0)
    torch.testing.assert_close(jvp(turn, (x,), (x,))[1], plain, rtol=0, atol=0)
    assert not hessian(lambda x: turn(x).sum())(x[0, 0]).any()
    torch.testing.assert_close(torch.compile(turn, backend="eager", fullgraph=True)(x), plain, rtol=0, atol=0)
    assert rotate(x.to("meta"), cos.to("meta"), sin.to("meta"), layout=layout).is_meta
    assert not rotated


@pytest.mark.parametrize("length", [1, 33], ids=["formula", "parts"])
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layers_rotate_by_the_rows_of_their_tables(rotated, layout, dtype, length):
    layer = RotaryEmbedding(Rotary(head_dim=32, layout=layout, rotary_dim=24), max_len=64)
    q = tokens(2, 4, length, 32, special=True).to(dtype)
    k = tokens(2, 2, length, 32).transpose(-1, -2).contiguous().transpose(-1, -2).to(dtype)
    for start in (0, 5, 5000):
        cos, sin = (torch.from_numpy(table) for table in layer.encoding.cos_sin(range(start, start + length)))
        by_layer, by_function = layer(q, k, start=start), apply_rotary(q, k, cos, sin, layout=layout)
        for x, *found in zip((q, k), by_layer, by_function, strict=True):
            for one in found:
                assert_bits(one, formula(x, cos, sin, layout))
    assert len(rotated) == (0 if length == 1 else 3 * 4)
    with pytest.raises(ValueError, match="`k` must be 32 wide"):
        layer(q, k[..., :16])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_layers_rotate_back(rotated, layout):
    layer = RotaryEmbedding(Rotary(head_dim=64, layout=layout))
    leaves = [tokens(2, heads, 5, 64).requires_grad_() for heads in (4, 2)]
    weights = [tokens(2, heads, 5, 64) for heads in (4, 2)]
    cos, sin = (torch.from_numpy(table) for table in layer.encoding.cos_sin(range(5)))
    results = layer(*leaves)
    for found, given in zip(results, leaves, strict=True):
        assert_bits(found.detach(), formula(given.detach(), cos, sin, layout))
    for found, weight in zip(torch.autograd.grad(results, leaves, weights), weights, strict=True):
        assert_bits(found, formula(weight, cos, -sin, layout))
    assert len(rotated) == 4


@pytest.mark.parametrize("length", [1, 33], ids=["formula", "parts"])
def test_results_share_no_memory_and_tables_are_read_at_each_call(length):
    layer, x = RotaryEmbedding(Rotary(head_dim=32, layout="half")), tokens(1, 4, length, 32)
    with torch.inference_mode():
        inferred = layer(x, x, start=7)
    for number in (0, 1):
        for table in layer.tables:
            table.data.numpy()[7 : 7 + length] += number  # which no version counts
        rows = [table[7 : 7 + length] for table in layer.tables]
        first, second = layer(x, x, start=7)
        version = second._version
        first.zero_()
        assert second._version == version
        assert_bits(second, formula(x, *rows, "half"))
        assert_bits(rotate_checked(x, *rows, pairing_of("half")), second)
    assert not torch.equal(inferred[0], second)
