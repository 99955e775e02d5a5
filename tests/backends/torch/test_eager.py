"""The rotation by few operators, where the compiled kernel is missing: the bits of the reference, for all calls."""

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
def parts(monkeypatch):
    """A list that grows with each part that is rotated by few operators."""
    found = []
    monkeypatch.setattr(library, "LIBRARY", None)
    for name in ("_rotate_halves", "_rotate_neighbours"):
        rotated = getattr(without_kernel, name)
        monkeypatch.setattr(
            without_kernel, name, lambda x, *rest, rotated=rotated: found.append(x) or rotated(x, *rest)
        )
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


def assert_bits(found, wanted):
    assert found.dtype == wanted.dtype
    assert found.is_contiguous()
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.signbit() & ~found.isnan(), wanted.signbit() & ~wanted.isnan())


def set_part(monkeypatch, size):
    """Set the largest part; rotations that are kept were made for another."""
    monkeypatch.setattr(without_kernel, "PART", size)
    without_kernel._rotation.cache_clear()


@pytest.mark.parametrize(("layout", "placement"), [*product(LAYOUTS, ("lead", "trail"))])
@pytest.mark.parametrize(("width", "pairs"), [(128, 64), (64, 32), (80, 40), (88, 44), (88, 32), (2, 1)])
def test_bits_agree_with_the_reference(parts, threads, layout, placement, width, pairs):
    pairing = pairing_of(layout, placement)
    x, (cos, sin) = tokens(2, 3, 33, width, special=True), tokens(2, 33, pairs)
    for dtype in DTYPES:
        found = rotate(x.to(dtype), cos, sin, layout=layout, placement=placement)
        assert_bits(found, rotate_reference(x.to(dtype), cos, sin, pairing))
    assert parts


@pytest.mark.parametrize("strided", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1 << 9, 1 << 19])
def test_tokens_may_have_any_strides_in_one_part_or_many(parts, monkeypatch, threads, strided, rows, layout, size):
    set_part(monkeypatch, size)
    x, (cos, sin) = strided(tokens(2, 3, 33, 64)), tokens(2, *rows, 32)
    for dtype in DTYPES:
        given = strided(x.to(dtype))
        assert_bits(rotate(given, cos, sin, layout=layout), rotate_reference(given, cos, sin, pairing_of(layout)))
    assert parts if size > x.numel() else len(parts) > 9


@pytest.mark.parametrize("shape", [(3, 20000, 32), (5, 4099, 64), (2, 9000, 80), (40_000, 32)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_ones_are_shared_among_threads_with_the_same_bits(parts, threads, shape, layout):
    x, (cos, sin) = tokens(*shape), tokens(2, shape[-2], shape[-1] // 2)
    for dtype in (torch.float32, torch.float16):
        found = rotate(x.to(dtype), cos, sin, layout=layout)
        assert_bits(found, rotate_reference(x.to(dtype), cos, sin, pairing_of(layout)))
    assert len(parts) > 2


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "interleaved_to_half"},
        {"layout": "half", "blocks": 2},
        {"layout": "half", "placement": "spread"},
    ],
    ids=str,
)
def test_other_pairings_are_left_to_the_formula(parts, options):
    x, (cos, sin) = tokens(2, 5, 32), tokens(2, 5, 8)
    assert_bits(rotate(x, cos, sin, **options), rotate_reference(x, cos, sin, pairing_of(**options)))
    assert not parts


def test_products_of_leftover_channels_are_not_trusted(parts):
    """Rows of no multiple of 16 pairs have leftovers, which some machines multiply and add without rounding between."""
    for pairs in (1, 8, 24, 40):
        assert not without_kernel._rounds_products(tokens(2, 2 * pairs), pairs, torch.float32)


def test_empty_tokens_and_tables():
    for layout in LAYOUTS:
        assert rotate(torch.ones(2, 0, 8), torch.ones(0, 4), torch.ones(0, 4), layout=layout).shape == (2, 0, 8)
        x = torch.ones(2, 3, 8)
        assert torch.equal(rotate(x, torch.ones(3, 0), torch.ones(3, 0), layout=layout), x)
        one = tokens(32)
        assert_bits(rotate(one, one[:16], one[16:], layout=layout), formula(one, one[:16], one[16:], layout))


def formula(x, cos, sin, layout):
    return rotate_reference(x, cos, sin, pairing_of(layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_written_to_out(parts, monkeypatch, layout):
    set_part(monkeypatch, 1 << 9)
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
    assert parts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_have_the_bits_of_the_formulas(parts, layout, dtype):
    x, weights, (cos, sin) = tokens(2, 3, 33, 40).to(dtype), tokens(2, 3, 33, 40).to(dtype), tokens(2, 33, 16)
    x.requires_grad_()
    pairing = pairing_of(layout)
    (found,) = torch.autograd.grad(rotate(x, cos, sin, layout=layout), x, weights)
    assert_bits(found, unrotate(weights, cos, sin, layout=layout))
    assert_bits(found, rotate_reference(weights, cos, -sin, pairing.inverse))
    assert parts or dtype == torch.float64


@pytest.mark.parametrize("layout", LAYOUTS)
def test_derivatives_of_all_orders(layout):
    x, (cos, sin) = tokens(2, 3, 32).double().requires_grad_(), tokens(2, 3, 16).double()
    assert torch.autograd.gradcheck(lambda x: rotate(x, cos, sin, layout=layout), (x,))
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, cos, sin, layout=layout) ** 2, (x,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_learned_tables_have_gradients(parts, layout):
    x, tables = tokens(2, 3, 32), [table.requires_grad_() for table in tokens(2, 3, 16).unbind()]
    torch.autograd.gradcheck(
        lambda cos, sin: rotate(x.double(), cos, sin, layout=layout), [table.double() for table in tables]
    )
    assert not parts


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transformed_traced_and_other_tensors_take_the_formula(parts, layout):
    x, (cos, sin) = tokens(2, 3, 4, 32), tokens(2, 4, 16)
    plain = rotate(x, cos, sin, layout=layout)
    parts.clear()

    def rotated(x):
        return rotate(x, cos, sin, layout=layout)

    torch.testing.assert_close(vmap(rotated)(x), plain, rtol=0, atol=0)
    torch.testing.assert_close(jvp(rotated, (x,), (x,))[1], plain, rtol=0, atol=0)
    assert not hessian(lambda x: rotated(x).sum())(x[0, 0]).any()
    torch.testing.assert_close(torch.compile(rotated, backend="eager", fullgraph=True)(x), plain, rtol=0, atol=0)
    assert rotate(x.to("meta"), cos.to("meta"), sin.to("meta"), layout=layout).is_meta
    assert not parts


def test_layers_take_it_with_tables_of_one_call(parts):
    for layout in LAYOUTS:
        layer = RotaryEmbedding(Rotary(head_dim=64, layout=layout))
        q, k = tokens(2, 4, 1, 64), tokens(2, 2, 1, 64)
        for start in (0, 5, 5000):
            cos, sin = (torch.from_numpy(table) for table in layer.encoding.cos_sin([start]))
            for found, given in zip(layer(q, k, start=start), (q, k), strict=True):
                assert_bits(found, formula(given, cos, sin, layout))
        compiled = torch.compile(layer, backend="eager", fullgraph=True)
        made = len(parts)
        torch.testing.assert_close(compiled(q, start=5), layer(q, start=5), rtol=0, atol=0)
        assert len(parts) == made + 1
    assert len(parts) == 2 * 7


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_layers_rotate_back(parts, layout):
    layer = RotaryEmbedding(Rotary(head_dim=64, layout=layout))
    leaves = [tokens(2, heads, 5, 64).requires_grad_() for heads in (4, 2)]
    weights = [tokens(2, heads, 5, 64) for heads in (4, 2)]
    cos, sin = (torch.from_numpy(table) for table in layer.encoding.cos_sin(range(5)))
    for _ in range(2):
        rotated = layer(*leaves)
        for found, given in zip(rotated, leaves, strict=True):
            assert_bits(found.detach(), formula(given.detach(), cos, sin, layout))
        for found, weight in zip(torch.autograd.grad(rotated, leaves, weights), weights, strict=True):
            assert_bits(found, formula(weight, cos, -sin, layout))
    assert len(parts) == 8


def test_tables_that_users_change_are_read_anew():
    x, memory = tokens(1, 64), tokens(2, 1, 32).numpy()
    cos, sin = map(torch.from_numpy, memory)
    for _ in range(2):
        assert_bits(rotate_checked(x, cos, sin, pairing_of("half")), formula(x, cos, sin, "half"))
        memory += 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 1, 32), (1, 4, 1, 32), (1, 1, 4, 3, 32), (2, 4, 1, 32)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
def test_few_queries_and_keys_are_rotated_together(parts, layout, shape, dtype):
    layer = RotaryEmbedding(Rotary(head_dim=32, layout=layout, rotary_dim=24))
    q = tokens(*shape, special=True).to(dtype)
    k = tokens(*shape[:-3], 2, *shape[-2:]).transpose(-1, -2).contiguous().transpose(-1, -2).to(dtype)
    found = layer(q, k, start=1000)
    assert len(parts) == (1 if shape[0] != 2 else 2)
    for x, got in zip((q, k), found, strict=True):
        cos, sin = (table[1000 : 1000 + shape[-2]] for table in layer.tables)
        assert_bits(got, rotate_reference(x, cos, sin, pairing_of(layout)))
    kept = found[1].clone()
    found[0].zero_()
    assert torch.equal(found[1], kept)
    assert found[1]._version == 0


def test_one_call_rotates_queries_and_keys_together(parts):
    q, k, (cos, sin) = tokens(1, 4, 1, 32), tokens(1, 2, 1, 32), tokens(2, 9, 16)
    for layout in LAYOUTS:
        found = apply_rotary(q, k, cos, sin, layout=layout, start=7)
        for x, got in zip((q, k), found, strict=True):
            assert_bits(got, formula(x, cos[7:8], sin[7:8], layout))
    assert len(parts) == len(LAYOUTS)


def test_one_tensor_as_queries_and_keys_gives_two_results(parts):
    layer, x = RotaryEmbedding(Rotary(head_dim=32, layout="half")), tokens(2, 4, 1, 32)
    a, b = layer(x, x, start=5)
    kept = b.clone()
    a.zero_()
    assert torch.equal(b, kept)


def test_queries_and_keys_that_differ_in_more_than_heads_are_rotated_apart(parts):
    layer = RotaryEmbedding(Rotary(head_dim=32, layout="half"))
    for q, k in (((1, 4, 1, 32), (4, 1, 32)), ((2, 4, 1, 32), (1, 4, 1, 32))):
        a, b = layer(tokens(*q), tokens(*k), start=5)
        assert_bits(a, layer(tokens(*q), start=5))
        assert_bits(b, layer(tokens(*k), start=5))
    with pytest.raises(ValueError, match="`k` must be 32 wide"):
        layer(tokens(1, 4, 1, 32), tokens(1, 4, 1, 16))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_factors_of_few_rows_follow_the_numbers_of_the_tables(layout):
    layer = RotaryEmbedding(Rotary(head_dim=32, layout=layout))
    q, k = tokens(1, 4, 1, 32), tokens(1, 2, 1, 32)
    with torch.inference_mode():
        inferred = layer(q, k, start=7)
    for number in (0, 1):
        for table in layer.tables:
            table.data.numpy()[7] += number  # which no version counts
        rows = [table[7:8] for table in layer.tables]
        for x, got in zip((q, k), layer(q, k, start=7), strict=True):
            assert_bits(got, formula(x, *rows, layout))
    assert not torch.equal(inferred[0], layer(q, k, start=7)[0])
    leaf = q.clone().requires_grad_()
    layer(leaf, k, start=7)[0].sum().backward()
    assert_bits(leaf.grad, formula(torch.ones_like(q), rows[0], -rows[1], layout))
