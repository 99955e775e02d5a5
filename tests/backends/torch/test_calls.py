"""All arguments of layers, compiled, exported and written as ONNX."""

import warnings

import numpy as np
import pytest
import torch
from torch.export import Dim

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_backends.torch.onnx import rotary_operator
from posenc_core import Learned, LearnedRotary, Rotary, T5Bias

onnxruntime = pytest.importorskip("onnxruntime")

ROTARY = Rotary(head_dim=8, layout="half")
ROPE = RotaryEmbedding(ROTARY, max_len=32).eval()
ATTENTION = MultiHeadAttention(16, 4, position=Rotary(head_dim=4, layout="half"), num_kv_heads=2).eval()
BIASED = MultiHeadAttention(16, 4, position=T5Bias(num_heads=4), num_kv_heads=1).eval()
OF_QUERY, OF_TOKEN = {2: Dim.DYNAMIC}, {1: Dim.DYNAMIC}


def tokens(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def attended(length, **more):
    x = tokens(2, length, 16)
    return {"queries": x, "keys": x + 1, "values": x - 1, **more}


CALLS = {
    "q and k": (ROPE, lambda n: {"q": tokens(2, 4, n, 8), "k": tokens(2, 1, n, 8)}, {"q": OF_QUERY, "k": OF_QUERY}),
    "start": (ROPE, lambda n: {"q": tokens(2, 4, n, 8), "start": 5}, {"q": OF_QUERY, "start": None}),
    "fewer heads of keys": (ATTENTION, attended, {}),
    "lengths": (ATTENTION, lambda n: attended(n, valid_lens=torch.tensor([n, 3])), {"valid_lens": None}),
    "biased": (
        BIASED,
        lambda n: attended(n, valid_lens=torch.tensor([2, n]), causal=True),
        {"valid_lens": None, "causal": None},
    ),
    "cache": (
        ATTENTION,
        lambda n: attended(n, start=5, cache=(tokens(2, 2, 5, 4), tokens(2, 2, 5, 4)), causal=True),
        {"start": None, "cache": (None, None), "causal": None},
    ),
}


def flatten(result):
    """Return all arrays of a nested result."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [array for part in result for array in flatten(part)]


def assert_same(got, wanted):
    for got_array, wanted_array in zip(flatten(got), flatten(wanted), strict=True):
        torch.testing.assert_close(got_array, wanted_array, rtol=0, atol=2.0**-20)


@pytest.fixture(params=CALLS.values(), ids=CALLS)
def call(request):
    """Return a layer, a function from a length to its arguments, and the dynamic sizes."""
    layer, arguments, sizes = request.param
    open_sizes = sizes if layer is ROPE else dict.fromkeys(("queries", "keys", "values"), OF_TOKEN) | sizes
    with torch.no_grad():
        yield layer, arguments, open_sizes


def test_compiled(call):
    layer, arguments, _ = call
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for length in (9, 4, 6):
        assert_same(compiled(**arguments(length)), layer(**arguments(length)))


def test_exported(call):
    layer, arguments, sizes = call
    program = torch.export.export(layer, (), arguments(9), dynamic_shapes=sizes).module()
    for length in (9, 4, 6):
        assert_same(program(**arguments(length)), layer(**arguments(length)))


def test_gradients_of_machine_code():
    """Compile forward and backward pass for any length."""
    torch.compiler.reset()
    compiled = torch.compile(ROPE, fullgraph=True, dynamic=True)
    for length in (9, 6):
        q, weights = tokens(2, 4, length, 8).requires_grad_(), tokens(2, 4, length, 8) + 1
        (got_array,), (wanted_array,) = (torch.autograd.grad((call(q) * weights).sum(), q) for call in (compiled, ROPE))
        torch.testing.assert_close(got_array, wanted_array, rtol=0, atol=2.0**-20)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("layer", "arguments_of"),
    [
        (lambda: MultiHeadAttention(16, 4, position=Rotary(head_dim=4, layout="half")), attended),
        (lambda: MultiHeadAttention(16, 4, position=T5Bias(num_heads=4)), attended),
        (lambda: PositionalEncoding(16, encoding=Learned(dim=16, length=9)), lambda n: {"x": tokens(2, n, 16)}),
        (lambda: RotaryEmbedding(LearnedRotary(head_dim=8, layout="half")), lambda n: {"q": tokens(2, 4, n, 8)}),
    ],
    ids=["Rotary", "T5Bias", "Learned", "LearnedRotary"],
)
def test_parameters_in_half_precision_are_used_without_rounding(layer, arguments_of, dtype):
    """Compare with a float32 layer of the same parameters: each step of attention rounds once more, positions never."""
    half = layer().eval().to(dtype)
    assert {parameter.dtype for parameter in half.parameters()} == {dtype}
    in_float32 = layer().eval()
    in_float32.load_state_dict({name: parameter.float() for name, parameter in half.state_dict().items()})
    arguments = {name: array.to(dtype) for name, array in arguments_of(9).items()}
    got = half(**arguments)
    wanted = in_float32(**{name: array.float() for name, array in arguments.items()})
    assert got.dtype == dtype
    steps = 4 if isinstance(half, MultiHeadAttention) else 1
    largest = float(wanted.detach().abs().max())
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=steps * largest * torch.finfo(dtype).eps)


def test_autocast_in_float16():
    """Projections are rounded to float16; rotations compute in float32, and tables are never rounded."""
    x, q = tokens(2, 9, 16), tokens(2, 4, 9, 8)
    with torch.no_grad():
        wanted = [layer(x, x, x) for layer in (ATTENTION, BIASED)]
        with torch.autocast("cpu", torch.float16):
            got = [layer(x, x, x) for layer in (ATTENTION, BIASED)]
            assert torch.equal(ROPE(q, start=20), ROPE(q, start=20).float())
    for got_array, wanted_array in zip(got, wanted, strict=True):
        assert got_array.dtype == torch.float16
        torch.testing.assert_close(
            got_array.float(), wanted_array, rtol=0, atol=8 * float(wanted_array.abs().max()) * 2.0**-11
        )


def written(layer, x, *, opset=23, **options):
    """Export a model to ONNX for any length and return it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(layer, (x,), dynamo=True, opset_version=opset, verbose=False, **options)


def run(model, folder, x):
    model.save(folder / "layer.onnx")
    session = onnxruntime.InferenceSession(folder / "layer.onnx")
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


def operators(model):
    return {node.op_type for node in model.model.graph}


@pytest.mark.parametrize(("layout", "seq_axis", "rotary_dim"), [("half", -2, 8), ("interleaved", 1, 8), ("half", 1, 6)])
def test_onnx_has_its_operator_on_request(layout, seq_axis, rotary_dim, tmp_path):
    encoding = Rotary(head_dim=8, layout=layout, rotary_dim=rotary_dim)
    rope, x = RotaryEmbedding(encoding, max_len=32, seq_axis=seq_axis), tokens(2, 4, 9, 8)
    with rotary_operator():
        model = written(rope, x)
    assert "RotaryEmbedding" in operators(model)
    np.testing.assert_allclose(run(model, tmp_path, x), rope(x), rtol=0, atol=2.0**-21)


@pytest.mark.parametrize("opset", [18, 23])
def test_onnx_has_plain_operators_otherwise(opset, tmp_path):
    x = tokens(2, 4, 9, 8)
    model = written(ROPE, x, opset=opset)
    assert "RotaryEmbedding" not in operators(model)
    assert model.model.opset_imports[""] == opset
    np.testing.assert_allclose(run(model, tmp_path, x), ROPE(x), rtol=0, atol=2.0**-21)


class Plain(torch.nn.Module):
    """A module with PyTorch's own call of the operator."""

    def forward(self, x):
        return torch.onnx.ops.rotary_embedding(x, torch.ones(2, 9, 4), torch.zeros(2, 9, 4))


@pytest.mark.parametrize("layer", [Plain(), ROPE], ids=["PyTorch's own", "ours"])
def test_older_opsets_are_written_with_the_operator_and_do_not_run(layer, tmp_path):
    """No layer knows the opset, and PyTorch writes its own operator into any; the documentation warns of it."""
    x = tokens(2, 4, 9, 8)
    with rotary_operator():
        model = written(layer, x, opset=18)
    assert "RotaryEmbedding" in operators(model)
    with pytest.raises(Exception, match="RotaryEmbedding"):
        run(model, tmp_path, x)


def test_onnx_does_not_check_the_length_and_gives_nan_past_the_table(tmp_path):
    rope, x = RotaryEmbedding(ROTARY, max_len=16), tokens(2, 4, 20, 8)
    with pytest.raises(torch.onnx.errors.OnnxExporterError) as caught:
        written(rope, x, dynamic_shapes={"q": {2: Dim.DYNAMIC}})
    assert "`max_len` is 16, but position 19 is asked for" in str(caught.value.__cause__)
    model = written(rope, x[:, :, :8], dynamic_shapes={"q": {2: Dim.DYNAMIC}})
    got = run(model, tmp_path, x)
    np.testing.assert_allclose(got[:, :, :16], rope(x[:, :, :16]), rtol=0, atol=2.0**-21)
    assert np.isnan(got[:, :, 16:]).all()
