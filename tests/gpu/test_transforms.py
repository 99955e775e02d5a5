"""Gradients and transformations of the kernel: right, or left to operators."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jvp, vmap

from posenc_backends.torch import apply_rotary

from . import expected

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # PyTorch's own, of derivatives
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),  # of checks of shapes
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),  # Dynamo's own
]

COS, SIN = expected.tables(4)
POSITIONS = torch.tensor([[3, 1, 4, 1, 5], [8, 0, 2, 6, 5]])
ROWS = tuple(expected.taken(table, POSITIONS.numpy()) for table in (COS, SIN))
Q, TANGENT, WEIGHTS = (torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
K = torch.randn(2, 1, 5, 8)


def rotated(q):
    return apply_rotary(q, K, COS, SIN, layout="interleaved_to_half", positions=POSITIONS)[0]


def wanted(q):
    return expected.rotated(q, ROWS, "interleaved_to_half")


def loss(q):
    return (rotated(q) * WEIGHTS).sum()


def gradient():
    leaf = Q.clone().requires_grad_()
    return torch.autograd.grad(wanted(leaf), leaf, WEIGHTS)[0]


TRANSFORMS = {
    "plain": (rotated, lambda: wanted(Q)),
    "jvp": (lambda q: jvp(rotated, (q,), (TANGENT,))[1], lambda: wanted(TANGENT)),
    "grad": (grad(loss), gradient),
    "vmap": (lambda q: vmap(rotated)(torch.stack([q, TANGENT])), lambda: torch.stack([wanted(Q), wanted(TANGENT)])),
    "vmap of grad": (lambda q: vmap(grad(loss))(q[None]), lambda: gradient()[None]),
    "jacfwd": (lambda q: jacfwd(lambda first: rotated(q + first))(torch.zeros(())), lambda: wanted(torch.ones_like(Q))),
    "hessian": (lambda q: hessian(lambda s: loss(q * s * s))(torch.ones(())), lambda: 2 * (wanted(Q) * WEIGHTS).sum()),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformations_are_right(launches, name, compiled):
    transformed, right = TRANSFORMS[name]
    torch.compiler.reset()
    call = torch.compile(transformed, backend="aot_eager", fullgraph=True) if compiled else transformed
    torch.testing.assert_close(call(Q), right(), rtol=1e-5, atol=1e-4)
    assert launches == [2] * (name == "plain")


def test_inductor_keeps_the_operator_with_its_gradient(launches):
    torch.compiler.reset()
    leaf = Q.clone().requires_grad_()
    result = torch.compile(rotated, fullgraph=True)(leaf)
    expected.same(result.detach(), wanted(Q))
    expected.same(torch.autograd.grad(result, leaf, WEIGHTS)[0], gradient())
    assert launches == [2, 2]


def test_lengths_may_be_dynamic(launches):
    torch.compiler.reset()

    def call(x, positions):
        return apply_rotary(x, None, COS, SIN, layout="half", positions=positions)[0]

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (5, 7, 6):
        x, positions = torch.randn(2, 3, length, 8), torch.randint(0, 9, (length,))
        expected.same(compiled(x, positions), expected.rotated(x, (COS[positions], SIN[positions]), "half"))
    assert launches == [1] * 3


def test_results_are_written_to_out_in_compiled_code(launches):
    torch.compiler.reset()
    x, right = Q.clone(), wanted(Q)

    def call(x):
        apply_rotary(x, None, COS, SIN, layout="interleaved_to_half", positions=POSITIONS, out=(x, None))

    torch.compile(call, backend="aot_eager", fullgraph=True)(x)
    expected.same(x, right)
    assert launches == [1]


def test_forward_mode_keeps_tangents():
    with forward_ad.dual_level():
        dual = rotated(forward_ad.make_dual(Q, TANGENT))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, wanted(TANGENT))


def test_gradients_of_both_and_of_gradients(launches):
    cos, sin = COS.double(), SIN.double()
    q, k = (torch.randn(1, heads, 2, 8, dtype=torch.float64, requires_grad=True) for heads in (2, 1))

    def call(q, k):
        return apply_rotary(q, k, cos, sin, layout="half", placement="trail", start=torch.tensor([4]))

    assert torch.autograd.gradcheck(call, (q, k), fast_mode=True)  # along a random direction: few launches
    assert torch.autograd.gradgradcheck(call, (q, k), fast_mode=True)
    assert set(launches) == {1, 2}  # the gradient of one of them alone as well


def test_a_gradient_of_tables_comes_from_operators(launches):
    cos, sin = COS.clone().requires_grad_(), SIN.clone().requires_grad_()
    q, _ = apply_rotary(Q, None, cos, sin, layout="interleaved_to_half", positions=POSITIONS)
    expected.same(q.detach(), wanted(Q))
    got = torch.autograd.grad(q, (cos, sin), WEIGHTS)
    reference = expected.rotated(Q, (cos[POSITIONS], sin[POSITIONS]), "interleaved_to_half")
    for one, other in zip(got, torch.autograd.grad(reference, (cos, sin), WEIGHTS), strict=True):
        torch.testing.assert_close(one, other)
    assert launches == []


def test_programs_carry_no_operator_of_ours(launches):
    class Model(torch.nn.Module):
        def forward(self, q):
            return rotated(q)

    program = torch.export.export(Model(), (Q,))
    assert not [node for node in program.graph.nodes if "posenc" in str(node.target)]
    expected.same(program.module()(Q), wanted(Q))
    expected.same(torch.jit.trace(rotated, (TANGENT,), check_trace=False)(Q), wanted(Q))
    assert launches == []


def test_the_operator_passes_the_checks_of_pytorch():
    arguments = ([Q, K], COS, SIN, "positions", POSITIONS[None], None)
    how = [], "half", "half", "lead", 1, False, -2, 0.0, 0.0, "", None
    checked = torch.library.opcheck(torch.ops.posenc.rotate.default, (*arguments, *how))
    assert set(checked.values()) == {"SUCCESS"}
