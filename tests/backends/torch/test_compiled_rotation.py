"""Compiled rotations of half precision and of large tensors: the bits of eager ones, also where code is transformed."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from posenc_backends.torch import RotaryEmbedding
from posenc_backends.torch.rotation import compiled, custom_op, words
from posenc_core import LearnedRotary, Rotary, rotate
from posenc_core.rotation import pairing_of, rotate_pairs

pytestmark = [  # warnings of PyTorch about itself
    pytest.mark.filterwarnings("ignore:`torch.jit.script"),
    pytest.mark.filterwarnings("ignore:`torch._prims_common.check"),
]
HALF = (torch.bfloat16, torch.float16)


def pairs(first, second):
    """Return each pair of values as parameters, every other one slow: others have its first value and its second."""
    return [
        pytest.param(one, two, marks=[pytest.mark.slow] if (row + column) % 2 else [])
        for row, one in enumerate(first)
        for column, two in enumerate(second)
    ]


def compile_whole(function, **options):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, **options)


def bits(x):
    """Return the numbers as integers, with one NaN for all."""
    integer = {2: torch.int16, 4: torch.int32}[x.element_size()]
    return torch.where(x.isnan(), torch.nan, x).view(integer)


def numbers(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", HALF)
def test_every_number_of_half_precision_is_read_exactly(dtype):
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).reshape(-1, 64)
    first, second = words.SplitWords.apply(x)
    assert torch.equal(bits(first), bits(x[:, ::2].float()))
    assert torch.equal(bits(second), bits(x[:, 1::2].float()))
    assert torch.equal(bits(words.JoinWords.apply(first, second, dtype)), bits(x))


@pytest.mark.parametrize("dtype", HALF)
def test_numbers_are_rounded_once_to_nearest_even(dtype):
    generator = torch.Generator().manual_seed(1)
    some = torch.randint(-(2**31), 2**31, (2, 1 << 18), generator=generator).to(torch.int32)
    exact = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).float().view(torch.int32)
    step = 2**15 if dtype == torch.bfloat16 else 2**12
    midpoints = torch.stack([exact + step, exact + step - 1])
    for pairs in (some, midpoints):
        first, second = pairs.view(torch.float32)
        expected = torch.stack([first.to(dtype), second.to(dtype)], dim=-1).flatten(-2)
        assert torch.equal(bits(words.JoinWords.apply(first, second, dtype)), bits(expected))


@pytest.mark.parametrize(
    ("layout", "placement", "blocks", "dtype"),
    [
        ("interleaved", "lead", 1, torch.bfloat16),
        ("interleaved", "trail", 2, torch.float16),
        ("interleaved_to_half", "lead", 1, torch.float16),
    ],
)
def test_bits_are_those_of_eager_code(dtype, layout, placement, blocks, monkeypatch):
    monkeypatch.setattr(compiled, "HAS_AVX512", False)  # which reads words
    pairing = pairing_of(layout, placement, blocks)
    x, weights, (cos, sin) = numbers(2, 3, 9, 30, dtype=dtype), numbers(2, 3, 9, 30, dtype=dtype), numbers(2, 9, 12)
    for used in (pairing, pairing.inverse):
        results = []
        for function in (rotate_pairs, compile_whole(rotate_pairs)):
            leaf = x.clone().requires_grad_()
            rotated = function(leaf, cos, sin, pairing=used)
            results.append((rotated.detach(), *torch.autograd.grad(rotated, leaf, weights)))
        for expected, found in zip(*results, strict=True):
            assert torch.equal(bits(found), bits(expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)])
def test_bits_are_those_of_eager_code_where_words_are_slower(dtype, monkeypatch):
    monkeypatch.setattr(compiled, "HAS_AVX512", True)
    monkeypatch.setattr(compiled, "FEW_OF_HALF_PRECISION", 1 << 24)
    x, weights, (cos, sin) = numbers(2, 3, 9, 32, dtype=dtype), numbers(2, 3, 9, 32, dtype=dtype), numbers(2, 9, 16)

    def call(x):
        return rotate(x, cos, sin, layout="interleaved")

    for function in (call, compile_whole(call, dynamic=False)):
        leaf = x.clone().requires_grad_()
        rotated = function(leaf)
        (gradient,) = torch.autograd.grad(rotated, leaf, weights)
        assert torch.equal(bits(rotated.detach()), bits(call(x)))
        assert torch.equal(bits(gradient), bits(rotate(weights, cos, -sin, layout="interleaved")))


@pytest.mark.parametrize("dtype", [pytest.param(torch.bfloat16, marks=pytest.mark.slow), torch.float16])
def test_tensors_may_begin_at_odd_places_and_have_any_strides(dtype):
    cos, sin = numbers(2, 9, 16)

    def call(x):
        return rotate(x, cos, sin, layout="interleaved")

    function = compile_whole(call, dynamic=False)
    memory = numbers(2 * 3 * 9 * 32 + 1, dtype=dtype)
    function(memory[:-1].view(2, 3, 9, 32))
    for x in (
        memory[1:].view(2, 3, 9, 32),
        memory[1:].view(2, 9, 3, 32).transpose(1, 2),
        numbers(2, 3, 9, 33, dtype=dtype)[..., 1:],
        numbers(2, 3, 9, 64, dtype=dtype)[..., ::2],
    ):
        assert torch.equal(function(x), call(x))


def test_lengths_may_be_dynamic():
    layer = RotaryEmbedding(Rotary(head_dim=32, layout="interleaved"), max_len=64)
    function = compile_whole(layer, dynamic=True)
    for length in (5, 9, 33):
        x = numbers(2, 3, length, 32, dtype=torch.bfloat16, seed=length)
        assert torch.equal(function(x), layer(x))


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(custom_op, "LARGE", 0)


TRANSFORMS = {
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (x + 1,))[1],
    "grad": lambda f: torch.func.grad(lambda x: (f(x).float() ** 2).sum()),
    "vmap": torch.func.vmap,
    "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(lambda x: (f(x).float() ** 2).sum())),
    "jacfwd": lambda f: torch.func.jacfwd(lambda x: f(x).float().sum((0, 1))),
    "hessian": lambda f: torch.func.hessian(lambda x: (f(x).float() ** 3).sum()),
}


@pytest.mark.parametrize(("name", "dtype"), pairs(TRANSFORMS, [torch.bfloat16, torch.float32]))
@pytest.mark.usefixtures("everything_is_large")
def test_transformed_code_is_right(name, dtype):
    transform = TRANSFORMS[name]
    cos, sin = numbers(2, 3, 4)
    x = numbers(1, 3, 8, dtype=dtype)

    def call(x):
        return rotate(x, cos, sin, layout="interleaved")

    expected, found = (function(call)(x).float() for function in (transform, lambda f: compile_whole(transform(f))))
    assert expected.abs().max() > 0
    tolerance = (2.0**-6 if dtype == torch.bfloat16 else 2.0**-20) * float(expected.abs().max())
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("layout", "dtype"), pairs(["half", "interleaved", "interleaved_to_half"], [torch.bfloat16, torch.float32])
)
@pytest.mark.usefixtures("everything_is_large")
def test_large_results_are_written_by_the_kernel(layout, dtype):
    x, weights, (cos, sin) = numbers(2, 3, 9, 30, dtype=dtype), numbers(2, 3, 9, 30, dtype=dtype), numbers(2, 9, 12)

    def call(x):
        return rotate(x, cos, sin, layout=layout)

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    results = []
    for function in (call, compile_whole(call)):
        leaf = x.clone().requires_grad_()
        rotated = function(leaf)
        results.append((rotated.detach(), *torch.autograd.grad(rotated, leaf, weights)))
    for expected, found in zip(*results, strict=True):
        assert torch.equal(bits(found), bits(expected))
    compile_whole(call, backend=backend)(x)
    assert "posenc.rotate_large" in graphs[0]


@pytest.mark.usefixtures("everything_is_large")
def test_exported_programs_have_operators_of_pytorch_alone():
    cos, sin = numbers(2, 9, 16)

    class Rotates(torch.nn.Module):
        def forward(self, x):
            return rotate(x, cos, sin, layout="interleaved")

    x = numbers(2, 3, 9, 32, dtype=torch.bfloat16)
    program = torch.export.export(Rotates(), (x,))
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert names
    assert not [name for name in names if "posenc" in name or "view.dtype" in name]
    assert torch.equal(program.module()(x), Rotates()(x))


@pytest.mark.usefixtures("everything_is_large")
def test_learned_frequencies_have_gradients():
    layer = RotaryEmbedding(LearnedRotary(head_dim=8, layout="interleaved"))
    for dtype in (torch.float32, torch.bfloat16):
        x = numbers(2, 3, 9, 8, dtype=dtype)
        found = []
        for function in (layer, compile_whole(layer)):
            layer.zero_grad()
            (function(x).float() ** 3).sum().backward()
            found.append([each.grad.clone() for each in layer.parameters()])
        for expected, gradient in zip(*found, strict=True):
            assert expected.abs().max() > 0
            torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.usefixtures("everything_is_large")
def test_dual_tensors_keep_their_tangents_in_eager_code():
    cos, sin = numbers(2, 3, 4)
    x, tangent = numbers(2, 3, 8), numbers(2, 3, 8, seed=1)
    with forward_ad.dual_level():
        rotated = rotate(forward_ad.make_dual(x, tangent), cos, sin, layout="interleaved")
        found = forward_ad.unpack_dual(rotated).tangent
    assert torch.equal(found, rotate(tangent, cos, sin, layout="interleaved"))


@pytest.fixture
def guards():
    """Return a function of compiled code that returns how many guards a call checks."""

    def counted(function, *arguments):
        torch.compiler.reset()
        found = []
        options = {"guard_filter_fn": lambda entries: found.append(len(entries)) or [True] * len(entries)}
        torch.compile(function, fullgraph=True, backend="eager", options=options)(*arguments)
        return sum(found)

    return counted


@pytest.mark.skipif(not hasattr(torch.compiler, "substitute_in_graph"), reason="since PyTorch 2.6")
def test_few_tokens_have_few_guards(guards):
    layer, (cos, sin) = RotaryEmbedding(Rotary(head_dim=16, layout="half")), numbers(2, 1, 8)
    usual = guards(lambda x: x * 2, numbers(1, 4, 1, 16))
    assert guards(lambda x: rotate(x, cos, sin, layout="half"), numbers(1, 4, 1, 16)) < usual + 40
    many = numbers(compiled.FEW // 16 + 1, 1, 16)
    assert guards(lambda x: rotate(x, cos, sin, layout="half"), many) > usual + 60
    assert guards(lambda x: layer(x, start=7), many) > guards(lambda x: layer(x, start=7), many[:3]) + 20


@pytest.mark.parametrize(("layout", "dtype"), pairs(["half", "interleaved"], [*HALF, torch.float32]))
def test_bits_of_few_tokens_are_those_of_eager_code(layout, dtype):
    layer, given = RotaryEmbedding(Rotary(head_dim=32, layout=layout), max_len=64), numbers(2, 9, 16)
    x, weights = numbers(2, 3, 9, 32, dtype=dtype), numbers(2, 3, 9, 32, dtype=dtype)
    strided = numbers(2, 9, 3, 33, dtype=dtype)[..., 1:].transpose(1, 2)
    for call, tokens in ((lambda x: rotate(x, *given, layout=layout), x), (lambda x: layer(x, start=5), strided)):
        results = []
        for function in (call, compile_whole(call)):
            leaf = tokens.detach().requires_grad_()
            rotated = function(leaf)
            results.append((rotated.detach(), *torch.autograd.grad(rotated, leaf, weights)))
        for expected, found in zip(*results, strict=True):
            assert torch.equal(bits(found), bits(expected))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_tables_of_few_tokens_may_be_learned(layout):
    x, gradients = numbers(2, 3, 9, 32), []
    for function in (rotate, compile_whole(rotate)):
        cos, sin = (table.clone().requires_grad_() for table in numbers(2, 9, 16, seed=1))
        tokens = x.clone().requires_grad_()
        function(tokens, cos, sin, layout=layout).square().sum().backward()
        gradients.append([each.grad for each in (tokens, cos, sin)])
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", [(2, 3, 9, 16), (1, 16), (9, 5), (2, 1, 1, 16)])
def test_tables_of_few_tokens_may_have_other_shapes(shape):
    x, (cos, sin) = numbers(2, 3, 9, 32), numbers(2, *shape)
    function = compile_whole(rotate, backend="aot_eager")
    assert torch.equal(function(x, cos, sin, layout="half"), rotate(x, cos, sin, layout="half"))
