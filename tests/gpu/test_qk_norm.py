"""Norm and rotation in one launch: the numbers of the formula in float64, rounded once; and their gradients."""

import pytest
import torch
from torch.func import vmap

from posenc_backends.torch import MultiHeadAttention, apply_qk_norm_rotary
from posenc_backends.torch.rotation import gpu, qk_norm, triton_qk_norm
from posenc_backends.torch.rotation.apply_rotary import check_call
from posenc_core import QKNorm, Rotary, normalize_and_rotate
from posenc_core._array_api.namespace import aligned
from posenc_core.normalization import Norm, normalize_and_rotate_reference
from posenc_core.rotation import pairing_of

from . import expected

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # PyTorch's own, of derivatives
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),  # Dynamo's own
]

ORDERS = ("norm_first", "rope_first")
ROUNDING = {"float32": 2**-24, "bfloat16": 2**-8, "float16": 2**-11, "float64": 2**-53}
SUMS = {dtype: 2**-50 if dtype == "float64" else 2**-21 for dtype in ROUNDING}  # of squares, in any order; and roots
COS, SIN = expected.tables()
POSITIONS = torch.tensor([[3, 1, 4, 1, 5], [8, 0, 2, 6, 5]])


def normalized(x, rows, weight, *, seq_axis=-2, **options):
    """Return the formula of float64, by NumPy, which no kernel for PyTorch reads."""
    cos, sin = (aligned(table, x, seq_axis=seq_axis).double().numpy() for table in rows)
    weight = None if weight is None else weight.double().numpy()
    return torch.from_numpy(normalize_and_rotate(x.double().numpy(), cos, sin, weight=weight, **options))


@pytest.mark.parametrize("form", expected.FORMS)
def test_results_are_the_formula_rounded_once(launches, form):
    """A third of the layouts, which meet all in three forms, in one of the strides, dtypes and orders.

    The weights have the dtype of the tokens or float32.
    """
    number = expected.FORMS.index(form)
    pairings = [*enumerate(expected.PAIRINGS)][number % 3 :: 3]
    for index, (layout, placement, blocks) in pairings:
        strides = expected.STRIDES[(index + number) % len(expected.STRIDES)]
        dtype = list(expected.DTYPES)[(index // 2 + number) % 4]
        used = form.replace("of each batch row", "").replace(" of each", "").strip() if strides == "THD" else form
        q, seq_axis = expected.tokens(strides, 3, expected.DTYPES[dtype])
        k, _ = expected.tokens(strides, 1, expected.DTYPES[dtype])
        tables, arguments, rows = expected.arguments_of(used, COS, SIN)
        weights = [torch.randn(15).to(q.dtype if index % 2 else torch.float32) for _ in "qk"]
        options = {"layout": layout, "placement": placement, "blocks": blocks, "seq_axis": seq_axis}
        options |= {"order": ORDERS[(index // 3 + number) % 2], "epsilon": 1e-5, "offset": float(index % 3 == 0)}
        got = apply_qk_norm_rotary(q, k, *tables, *weights, **options, **arguments)
        for x, weight, result in zip((q, k), weights, got, strict=True):
            assert result.dtype == x.dtype
            right, error = normalized(x, rows, weight, **options), ROUNDING[dtype] + SUMS[dtype]
            torch.testing.assert_close(result.double(), right, rtol=error, atol=8 * SUMS[dtype], equal_nan=True)
    assert launches == [2] * len(pairings)


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_and_those_of_gradients(launches, order):
    tensors = [torch.randn(*sizes, dtype=torch.float64, requires_grad=True) for sizes in ((1, 2, 1, 5), (5,))]

    def call(x, weight):
        options = {"layout": "interleaved_to_half", "order": order, "start": torch.tensor([4])}
        return apply_qk_norm_rotary(None, x, COS[:, :2], SIN[:, :2], None, weight, **options)[1]

    assert torch.autograd.gradcheck(call, tensors, fast_mode=True)
    assert launches
    assert torch.autograd.gradgradcheck(call, tensors, fast_mode=True)


@pytest.mark.parametrize("parts", [1, 3, 1024])
def test_sums_for_the_gradient_of_a_weight_are_of_all_heads(launches, monkeypatch, parts):
    """A program has several tiles; the gradient of a sum is expanded."""
    monkeypatch.setattr(triton_qk_norm, "PARTS", parts)
    x, weight = torch.randn(2, 5, 70, 8), torch.randn(8)
    cos, sin = expected.tables(4, rows=70)
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    result, _ = apply_qk_norm_rotary(leaves[0], None, cos, sin, leaves[1], layout="half")
    got = torch.autograd.grad(result.sum(), leaves)
    counted = launches.copy()
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    right = torch.autograd.grad(normalize_and_rotate(wide[0], cos, sin, layout="half", weight=wide[1]).sum(), wide)
    for one, other in zip(got, right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
    assert counted == [1, 2]


def test_weights_may_be_missing_or_differ(launches):
    q, k, weight = torch.randn(2, 3, 5, 12), torch.randn(2, 1, 5, 12), torch.randn(12)
    options = {"layout": "half"}
    for weights in ((None, None), (weight, None), (weight, weight.double())):
        got = apply_qk_norm_rotary(q, k, COS[:5], SIN[:5], *weights, **options)
        for x, one, result in zip((q, k), weights, got, strict=True):
            right = normalized(x, (COS[:5], SIN[:5]), one, **options)
            torch.testing.assert_close(result.double(), right, rtol=2e-6, atol=2e-6)
    assert launches == [2, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="a number for each of the 12 channels, got 11"):
        apply_qk_norm_rotary(q, k, COS[:5], SIN[:5], weight[:11], weight, **options)


def test_transformed_code_has_the_formula_and_compiled_code_an_operator(launches):
    q, weight = torch.randn(2, 3, 5, 12, requires_grad=True), torch.randn(12, requires_grad=True)

    def call(x, weight=weight):
        return apply_qk_norm_rotary(x, x, COS, SIN, weight, weight, layout="half", positions=POSITIONS[0])[1]

    rows = COS[POSITIONS[0]], SIN[POSITIONS[0]]
    right = normalized(q.detach(), rows, weight.detach(), layout="half")
    for result in (vmap(call)(q[None])[0], torch.func.jvp(call, (q,), (q,))[0]):
        torch.testing.assert_close(result.double(), right, rtol=2e-6, atol=2e-6)
    gradients = torch.autograd.grad(call(q), (q, weight), torch.ones_like(q))
    torch.compiler.reset()
    compiled, counted = torch.compile(call, backend="aot_eager", fullgraph=True), len(launches)
    for _ in "12":
        result = compiled(q, weight)
        torch.testing.assert_close(result.double(), right, rtol=2e-6, atol=2e-6)
        for one, other in zip(torch.autograd.grad(result, (q, weight), torch.ones_like(q)), gradients, strict=True):
            torch.testing.assert_close(one, other)
    assert launches[counted:]


def test_a_call_is_launched_again_by_its_plan(launches, monkeypatch):
    """With other numbers, another start and other weights; other dtypes of weights are checked."""
    counted = []
    monkeypatch.setattr(qk_norm, "check_call", lambda *given: counted.append(1) or check_call(*given))
    for start, dtype in ((0, torch.float32), (3, torch.float32), (1, torch.float64)):
        q, weight = torch.randn(1, 2, 4, 12), torch.randn(12, dtype=dtype)
        got, none = apply_qk_norm_rotary(q, None, COS, SIN, weight, layout="half", start=start)
        right = normalized(q, (COS[start : start + 4], SIN[start : start + 4]), weight, layout="half")
        torch.testing.assert_close(got.double(), right, rtol=2e-6, atol=2e-6)
        assert none is None
    assert len(counted) == 2
    assert launches == [1, 1, 1]


def test_the_operators_pass_the_checks_of_pytorch():
    tokens, weights = [torch.randn(1, 2, 3, 8) for _ in "qk"], [torch.randn(8) for _ in "qk"]
    how = "half", "half", "lead", 1, False, -2, 1e-6, 0.0, "norm_first", None
    given = *expected.tables(4, rows=3), "rows", None, None
    arguments = {"rotate": (tokens, *given, weights, *how), "rotate_back": (*tokens, *given, weights[:1], *how)}
    for name, those in arguments.items():
        operator = getattr(torch.ops.posenc, name).default
        assert {*torch.library.opcheck(operator, those).values()} == {"SUCCESS"}


@pytest.mark.parametrize(
    "norm", [*({"order": order} for order in ORDERS), {"num_heads": 3, "num_kv_heads": 1}], ids=str
)
def test_attention_normalizes_and_rotates_in_one_launch(launches, monkeypatch, norm):
    """The next call by its plan; with gradients of tokens and weights, a cache, and rows that a model looked up."""
    norm, rotary = QKNorm(head_dim=8, **norm), Rotary(head_dim=8, layout="interleaved", rotary_dim=6)
    layer = MultiHeadAttention(24, 3, num_kv_heads=1, position=rotary, qk_norm=norm).eval()
    torch.nn.init.normal_(layer.norm.q_weight)
    x, leaves = torch.randn(2, 5, 24, requires_grad=True), [layer.norm.q_weight, layer.norm.k_weight, layer.W_q.weight]
    cached = [torch.randn(2, 1, 3, 8) for _ in "kv"]

    def outcomes():
        rows = layer.rotary.cos_sin(torch.arange(5))
        result = layer(x, x, x)
        with torch.no_grad():
            others = layer(x, x, x, start=3, cache=cached).result, layer(x, x, x, cos_sin=rows), layer(x, x, x)
        return result, *torch.autograd.grad(result.sum(), leaves), *others

    fused, counted = outcomes(), launches.copy()
    monkeypatch.setattr(gpu, "IS_INTERPRETED", False)
    for one, other in zip(fused, outcomes(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert launches == counted == [2] * 6  # one of them the gradients of queries, one those of keys


@pytest.mark.parametrize("head_axis", [-3, -2])
def test_one_mean_is_of_all_heads_of_a_token(launches, head_axis):
    """Of three heads, with a weight for each of their channels, whose gradient is summed over tokens."""
    sizes = (2, 3, 5, 12) if head_axis == -3 else (2, 5, 3, 12)
    x, weight = torch.randn(sizes, requires_grad=True), torch.randn(36, requires_grad=True)
    tables = [table[:5] if head_axis == -3 else table[:5, None] for table in (COS, SIN)]
    options = {"layout": "half", "head_axis": head_axis, "order": "rope_first", "offset": 1.0}
    got = normalize_and_rotate(x, *tables, weight=weight, **options)
    gradients = torch.autograd.grad(got.sum(), (x, weight))
    assert launches == [1, 2]
    wide = [leaf.detach().double().requires_grad_() for leaf in (x, weight)]
    norm = Norm(1e-6, 1.0, "rope_first", head_axis)
    right = normalize_and_rotate_reference(
        wide[0], *map(torch.Tensor.double, tables), wide[1], pairing_of("half"), norm
    )
    torch.testing.assert_close(got.double(), right, rtol=2e-6, atol=2e-6)
    for one, other in zip(gradients, torch.autograd.grad(right.sum(), wide), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
