"""Traced calls that run later at other lengths: what is compiled again, and what is rejected."""

import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, DynamicNTK, LongRoPE, Rotary, ShawBias, T5Bias

HEAD = Rotary(head_dim=8, layout="half")
LONGER = Rotary(head_dim=8, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=16))
SHORT_AND_LONG = Rotary(
    head_dim=8,
    layout="half",
    scaling=LongRoPE(short_factor=(1.0,) * 4, long_factor=(2.0,) * 4, original_max_position_embeddings=16, factor=4.0),
)
OTHER_TABLES = "(asks for other tables than a traced layer holds|lies past the 16 that these frequencies of)"
TOO_FAR = "`max_len` is {}, but position {} is asked for while the layer is traced; make it with `max_len={}` or more"


def compiled(function, dynamic=None):
    """Return a counter of graphs, and the function compiled without a fallback."""
    torch.compiler.reset()
    counter = CompileCounterWithBackend("eager")
    return counter, torch.compile(function, backend=counter, fullgraph=True, dynamic=dynamic)


def attention(position, **options):
    return MultiHeadAttention(16, 2, position=position, **options).eval()


def rotates(**options):
    rope, q, k = RotaryEmbedding(HEAD, max_len=16), torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8)
    return lambda start: rope(q, k, start=start, **options)


def adds():
    layer, x = PositionalEncoding(16, max_len=16).eval(), torch.randn(1, 1, 16)
    return lambda start: layer(x, start=start)


@pytest.mark.parametrize(
    "call", [rotates(), rotates(seq_axis=1), rotates(seq_axis=2), adds()], ids=["q, k", "axis 1", "axis 2", "added"]
)
@torch.no_grad
def test_decoding_is_compiled_twice(call):
    """Once for `start` 0, which compilers treat as a constant, and once for all others."""
    counter, step = compiled(call)
    for start in range(12):
        for got, wanted in zip(step(start), call(start), strict=True):
            assert torch.equal(got, wanted)
    assert counter.frame_count <= 2


@pytest.mark.parametrize(
    "position",
    [None, HEAD, Alibi(num_heads=2), T5Bias(num_heads=2), ShawBias(num_heads=2, head_dim=8, max_distance=3)],
    ids=repr,
)
@torch.no_grad
def test_decoding_with_a_cache_is_compiled_three_times(position):
    """Once without keys, once with one (sizes 0 and 1 are constants), and once with more."""
    layer, x = attention(position, num_kv_heads=1), torch.randn(1, 12, 16)
    counter, step = compiled(lambda x, start, cache: layer(x, x, x, start=start, causal=True, cache=cache))
    cache, steps = (), []
    for start in range(12):
        result, _, cache = step(x[:, start : start + 1], start, cache)
        steps.append(result)
    assert counter.frame_count <= 3
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, x, x, causal=True), rtol=0, atol=2.0**-20)


@pytest.mark.parametrize("position", [LONGER, SHORT_AND_LONG], ids=lambda position: type(position.scaling).__name__)
@pytest.mark.parametrize("dynamic", [True, None])
@torch.no_grad
def test_frequencies_that_depend_on_the_length_are_compiled_up_to_the_original_length(position, dynamic):
    layer, x = attention(position), torch.randn(1, 20, 16)
    counter, call = compiled(layer, dynamic)
    for length in (8, 9, 16, 5):
        torch.testing.assert_close(call(*[x[:, :length]] * 3), layer(*[x[:, :length]] * 3), rtol=0, atol=0)
    assert counter.frame_count <= 2
    with pytest.raises(Exception, match=OTHER_TABLES):
        call(x, x, x)


def arguments_of(layer, tokens):
    """Return the tokens by the names of the layer's arguments."""
    names = {MultiHeadAttention: ("queries", "keys", "values"), RotaryEmbedding: ("q",), PositionalEncoding: ("x",)}
    return dict.fromkeys(names[type(layer)], tokens)


def exported(layer, tokens, size=Dim.DYNAMIC, **options):
    """Export a program of dynamic length."""
    arrays = arguments_of(layer, tokens)
    sizes = {name: {tokens.ndim - 2: size} for name in arrays} | dict.fromkeys(options)
    return torch.export.export(layer, (), arrays | options, dynamic_shapes=sizes)


LIMITED = [
    (RotaryEmbedding(HEAD, max_len=16), torch.randn(1, 1, 20, 8), TOO_FAR.format(16, 19, 20)),
    (PositionalEncoding(8, max_len=16).eval(), torch.randn(1, 20, 8), TOO_FAR.format(16, 19, 20)),
    (attention(LONGER), torch.randn(1, 20, 16), OTHER_TABLES),
    (attention(SHORT_AND_LONG), torch.randn(1, 20, 16), OTHER_TABLES),
]


def named(parameter):
    return type(parameter).__name__ if isinstance(parameter, torch.nn.Module) else ""


@pytest.mark.parametrize(("layer", "tokens", "message"), LIMITED, ids=named)
def test_exported_programs_have_the_length_of_their_tables(layer, tokens, message):
    with pytest.raises(ValueError, match=message):
        exported(layer, tokens)
    program = exported(layer, tokens[..., :8, :])
    (bounds,) = program.range_constraints.values()
    assert bounds.upper == 16
    run = program.module()
    assert not run(**arguments_of(layer, tokens[..., :16, :])).isnan().any()
    with pytest.raises(AssertionError, match=r"size\(\)\[[12]\] <= 16"):
        run(**arguments_of(layer, tokens[..., :17, :]))


def test_a_dynamic_length_past_the_tables_is_rejected_with_the_bound():
    tokens = torch.randn(1, 1, 8, 8)
    with pytest.raises(Exception, match=r"n = Dim\('n', max=16\)"):
        exported(RotaryEmbedding(HEAD, max_len=16), tokens, Dim("n", max=64))
    exported(RotaryEmbedding(HEAD, max_len=16), tokens, Dim("n", max=16))


def test_what_needs_an_eager_call_is_not_exported():
    """Here: frequencies for another `seq_len` than that of the layer's tables."""
    with pytest.raises(ValueError, match="`seq_len` asks for other tables than a traced layer holds"):
        exported(RotaryEmbedding(LONGER), torch.randn(1, 1, 8, 8), seq_len=20)


def traced(layer, *tokens):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return torch.jit.trace(layer, tokens)


@pytest.mark.parametrize(("layer", "tokens", "message"), LIMITED, ids=named)
def test_a_trace_past_the_tables_is_rejected(layer, tokens, message):
    with pytest.raises(ValueError, match=message):
        traced(layer, *arguments_of(layer, tokens).values())


def test_a_trace_does_not_check_the_length_and_gives_nan_past_the_table():
    """The documentation of the backend promises it."""
    layer, tokens = RotaryEmbedding(HEAD, max_len=16), torch.randn(1, 1, 20, 8)
    got = traced(layer, tokens[:, :, :8])(tokens)
    assert torch.equal(got[:, :, :16], layer(tokens)[:, :, :16])
    assert got[:, :, 16:].isnan().all()


def test_layers_of_two_bases_are_compiled_apart():
    """The compiler is not reset between them: an encoding is a constant of the graph."""
    x, other = torch.randn(1, 1, 5, 8), Rotary(head_dim=8, layout="half", base=500.0)
    layers = [RotaryEmbedding(encoding) for encoding in (HEAD, other)]
    calls = [torch.compile(layer, backend="eager", fullgraph=True) for layer in layers]
    torch.compiler.reset()
    for _ in range(2):
        results = [call(x) for call in calls]
        assert not torch.equal(*results)
        for layer, result in zip(layers, results, strict=True):
            assert torch.equal(result, layer(x))
