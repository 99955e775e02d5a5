"""Derivatives in PyTorch: backward, forward, first and second order, batched, and recomputed."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, hessian, jacfwd, jacrev, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from posenc_backends._kernels import library
from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.tooling import LayerCase
from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary, Sinusoidal, T5Bias, Timestep, XPos, rotate

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # forward mode warns

IN_FLOAT32 = (  # parameters stay float32
    "LearnedQueryScale", "LearnedSinusoidal", "LearnedRotary", "T5Bias", "SwinBias", "SwinV2Bias", "Kerple", "Fire",
    "DynamicPositionBias", "FoPE",
)  # fmt: skip
LONG = {"eps": 2.0**-6, "atol": 2e-3, "rtol": 1e-2}  # rounding errs by 2**-24 / eps, the third derivative by eps**2 / 6
GOLDEN_CASES = [golden_case for golden_case in golden("modes") if golden_case["dtype"] == "float32"]


def assert_differentiable(function, *inputs, **steps):
    """Check backward, forward, batched and second derivatives against finite differences."""
    with sdpa_kernel(SDPBackend.MATH):  # the only backend with second derivatives
        batched = not steps  # it compares with eight digits, more than float32 has
        assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=batched, fast_mode=True, **steps)
        if steps:
            assert_batched(function, inputs)
        assert gradgradcheck(function, inputs, fast_mode=True, **({"atol": 1e-6} | steps))


def assert_batched(function, inputs):
    """Check the derivatives of several vectors at once against those of each, with the digits of float32."""
    result = function(*inputs)
    inputs = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    vectors = torch.randn(2, *result.shape, dtype=result.dtype, generator=torch.Generator().manual_seed(0))
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    batched = torch.autograd.grad(result, inputs, vectors, is_grads_batched=True, **options)
    single = zip(*(torch.autograd.grad(result, inputs, vector, **options) for vector in vectors), strict=True)
    for together, alone in zip(batched, single, strict=True):
        torch.testing.assert_close(together, torch.stack(alone), rtol=1e-4, atol=1e-5)


def in_float64(array):
    """Return floats as finite float64 numbers with a gradient, and integers as they are."""
    return array.detach().double().clamp(min=-3).requires_grad_() if array.is_floating_point() else array


@pytest.mark.parametrize("golden_case", GOLDEN_CASES, ids=lambda golden_case: golden_case["name"])
def test_derivatives_of_tokens_and_parameters(on, golden_case):
    """Test every encoding in float64, where finite differences are accurate; phases of PoPE count as 0 above 0."""
    layer_case = LayerCase(on, golden_case)
    layer = layer_case.layer().double()
    learned = {name: in_float64(parameter - 2 * ("phase" in name)) for name, parameter in layer.named_parameters()}
    kinds = {golden_case[name]["kind"] for name in ("encoding", "query_scale") if golden_case.get(name)}

    def called(*inputs):
        ours, given = dict(zip(learned, inputs, strict=False)), inputs[len(learned) :]
        return functional_call(
            layer, ours, (), {**dict(zip(layer_case.names, given, strict=True)), **layer_case.options}
        )

    steps = LONG if kinds & set(IN_FLOAT32) else {}
    assert_differentiable(called, *learned.values(), *map(in_float64, layer_case.arrays(4)), **steps)


@pytest.mark.parametrize(
    "encoding", [Sinusoidal(dim=4), Timestep(dim=5, scale=0.5), Rotary(head_dim=4, layout="half")], ids=repr
)
def test_derivatives_of_real_positions(encoding):
    """Compute rows for traced float64 positions in float64: exact rows are rounded and have no useful differences."""
    rotary = isinstance(encoding, Rotary)
    layer = RotaryEmbedding(encoding) if rotary else PositionalEncoding(encoding.dim, encoding=encoding)
    x = torch.linspace(-1, 1, 12 if rotary else 3 * encoding.dim, dtype=torch.float64).reshape(1, 3, -1)
    traced = vmap(lambda positions: layer(x, positions=positions))
    assert_differentiable(traced, torch.tensor([[0.25, 1.5, 7.75]], dtype=torch.float64, requires_grad=True))


def test_positions_of_xpos_have_no_gradient():
    """As the page on additive encodings says: its rows are looked up."""
    positions = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
    x = torch.ones(1, 3, 8, requires_grad=True)
    RotaryEmbedding(XPos(head_dim=8, layout="half"))(x, positions=positions).sum().backward()
    assert positions.grad is None
    assert x.grad is not None


def rotation_matrix(encoding, position):
    """Return the matrix of a rotation in half layout: Su et al. 2021, equation 15; i and i + d / 2 are a pair."""
    pairs = encoding.head_dim // 2
    angles = position * 100.0 ** (-np.arange(pairs) / pairs)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.block([[cos, -sin], [sin, cos]])


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_the_jacobian_of_a_rotation_is_its_matrix(jacobian):
    encoding, x = Rotary(head_dim=6, layout="half", base=100.0), torch.randn(2, 1, 6)
    rope = RotaryEmbedding(encoding)
    for matrix in vmap(jacobian(lambda x: rope(x, start=1000)))(x)[:, 0, :, 0]:
        np.testing.assert_allclose(matrix, rotation_matrix(encoding, 1000), rtol=0, atol=2.0**-24)


def test_the_hessian_of_a_squared_length_is_constant():
    """Rotations keep lengths at every angle."""
    rope = RotaryEmbedding(Rotary(head_dim=6, layout="interleaved"))
    matrix = hessian(lambda x: (rope(x, start=77) ** 2).sum() / 2)(torch.randn(2, 6)).reshape(12, 12)
    torch.testing.assert_close(matrix, torch.eye(12), rtol=0, atol=2.0**-22)


def test_addition_does_not_change_tangents():
    layer, x, tangent = PositionalEncoding(4), torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    result, moved = jvp(layer, (x,), (tangent,))
    assert torch.equal(moved, tangent)
    assert torch.equal(result, x + torch.from_numpy(Sinusoidal(dim=4).table(range(3))))


class Recomputed(nn.Module):
    """A model that stores the inputs of its layers, and their results unless it recomputes them."""

    def __init__(self, keeps, **options):
        super().__init__()
        torch.manual_seed(0)
        self.keeps, self.options = keeps, options
        self.added = PositionalEncoding(8, dropout=0.25, max_len=2, encoding=Learned(dim=8, length=16))
        self.rotary_channels = MultiHeadAttention(8, 2, dropout=0.25, position=Rotary(head_dim=4, layout="half"))
        self.biased = MultiHeadAttention(8, 2, position=T5Bias(num_heads=2))

    def forward(self, x):
        for layer in (self.added, self._attended):
            x = layer(x) if self.keeps else checkpoint(layer, x, **self.options)
        return x

    def _attended(self, x):
        x = x + self.rotary_channels(x, x, x, causal=True)
        return self.biased(x, x, x)


@pytest.mark.parametrize(("reentrant", "limit"), [(False, 0.0), (True, 1e-6)])
def test_training_with_recomputation_agrees_with_training_without(reentrant, limit):
    """Bit for bit, unless the first call has no gradients: attention then uses another kernel."""
    trained = []
    for model in (Recomputed(True), Recomputed(False, use_reentrant=reentrant)):
        model.rotary_channels.rotary.set_tables(
            model.rotary_channels.rotary.encoding.constants(2)
        )  # it grows while the first call is kept
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for step in range(3):
            torch.manual_seed(step)
            optimizer.zero_grad()
            model(torch.randn(2, 5 + step, 8, requires_grad=True)).square().mean().backward()
            optimizer.step()
        trained.append(model)
    for kept, recomputed in zip(*(model.parameters() for model in trained), strict=True):
        torch.testing.assert_close(kept, recomputed, rtol=0, atol=limit)


@pytest.mark.parametrize(
    ("used", "frozen"),
    [("both", None), ("queries", None), ("keys", None), ("both", "q"), ("keys", "q"), ("both", "k"), ("queries", "k")],
)
@pytest.mark.parametrize("compiled", [True, False], ids=["kernel", "operators"])
def test_queries_and_keys_of_a_layer_have_the_gradients_of_two_rotations(monkeypatch, compiled, used, frozen):
    monkeypatch.setattr(library, "LIBRARY", library.LIBRARY if compiled else None)
    encoding = Rotary(head_dim=8, layout="half")
    layer, tables = RotaryEmbedding(encoding), [torch.tensor(table) for table in encoding.cos_sin(np.arange(5, 8))]
    q, k = (torch.randn(2, heads, 3, 8).requires_grad_(frozen != name) for name, heads in (("q", 4), ("k", 2)))
    together, apart = layer(q, k, start=5), [rotate(x, *tables, layout="half") for x in (q, k)]
    assert [x.requires_grad for x in together] == [x.requires_grad for x in apart]
    leaves, first = [x for x in (q, k) if x.requires_grad], []
    for both in (together, apart):
        sums = [x.pow(3).sum() for x, name in zip(both, ("queries", "keys"), strict=True) if used in ("both", name)]
        first.append(torch.autograd.grad(sum(sums), leaves, create_graph=True, allow_unused=True))
        used_leaves = [leaf for leaf, own in zip(leaves, first[-1], strict=True) if own is not None]
        total = sum(own.sum() for own in first[-1] if own is not None)
        first[-1] += torch.autograd.grad(total, used_leaves)
    for ours, wanted in zip(*first, strict=True):
        assert (ours is None) == (wanted is None)
        assert ours is None or torch.equal(ours, wanted)


@pytest.mark.parametrize("compiled", [True, False], ids=["kernel", "operators"])
def test_a_layer_records_one_function_for_queries_and_keys(monkeypatch, compiled):
    monkeypatch.setattr(library, "LIBRARY", library.LIBRARY if compiled else None)
    layer, q = RotaryEmbedding(Rotary(head_dim=8, layout="half")), torch.randn(2, 4, 3, 8, requires_grad=True)
    rotated = layer(q, torch.randn(2, 2, 3, 8, requires_grad=True))
    assert rotated[0].grad_fn is rotated[1].grad_fn
