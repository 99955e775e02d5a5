"""`check` of right and wrong rotations in every framework."""

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_backends.check.frameworks import CheckedFunction, framework_of
from posenc_backends.check.gradients import gradient_mistakes
from posenc_backends.check.sample_calls import Caller
from posenc_backends.check.shrink import program_of
from posenc_backends.check.signatures import signature_of
from posenc_core import Alibi, DualChunk, Placed, PoPE, Rotary, Sinusoidal, causal
from posenc_core._array_api.namespace import namespace_of

from .mutants import MUTANTS, PLAIN, Detached, Rope, Scaled

NOT_ASKED = (
    "not asked: calls from two threads, as MXNet's NumPy semantics are those of one thread",
    "not asked: compiled code, as Gluon compiles blocks and no functions",
)
ROTARY = Rotary(head_dim=8, layout="half")


@pytest.fixture(autouse=True)
def few_random_calls(monkeypatch, request):
    """Make fewer random calls, one of each kind: a framework that compiles each shape takes long for them."""
    is_of_pairs = "products" in request.node.name or "bias" in request.node.name
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 2 if is_of_pairs else 6)


@pytest.fixture
def name(request):
    backend = request.config.getoption("--backend")
    if backend == "strict":
        pytest.skip("no functions are written for array-api-strict")
    return backend


@pytest.mark.parametrize("right", [Rope, Scaled])
def test_a_right_rotation_conforms(backend, name, right):
    result = check(right(backend), right.spec, framework=name)
    assert result.status == 0, result
    assert result.worst < 4
    assert {"float32"} <= {dtype for _, dtype, _ in result.answers}
    assert (set(NOT_ASKED) <= set(result.remarks)) == (name == "mxnet")


@pytest.mark.parametrize(
    ("mistake", "mutant"), [(mistake, mutant) for mistake, each in MUTANTS.items() for mutant in each]
)
def test_a_mistake_is_named(backend, name, mistake, mutant):
    result = check(mutant(backend), mutant.spec, framework=name)
    assert [found.name for found in result.mistakes] == [mistake], result
    assert result.status == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("positions", [np.array([19]), np.arange(3, 20), np.array([[1, 5], [0, 2]])], ids=str)
def test_the_printed_call_makes_arrays_of_the_framework(name, positions, dtype):
    framework, caller = framework_of(name), Caller(ROTARY, signature_of(len, ROTARY, "rotation"), {})
    if not framework.supports(dtype):
        pytest.skip(f"{name} has no {dtype}")
    call, made = caller.call("near", dtype, positions), []
    exec(program_of(call, "rope", name), {"rope": lambda *given: made.extend(given)})  # noqa: S102
    wanted = CheckedFunction(len, framework, caller).arguments(call)
    for array, right in zip(made, wanted, strict=True):
        assert (type(array), array.dtype) == (type(right), right.dtype)
        np.testing.assert_array_equal(framework.backend.to_numpy(array), framework.backend.to_numpy(right))


def test_a_wrong_gradient_is_named(backend, on, name):
    if not hasattr(on.testing, "gradient"):
        pytest.skip("the framework has no gradients")
    result = check(Detached(backend), PLAIN, framework=name)
    assert [found.name for found in result.mistakes] == ["wrong gradient"], result
    assert "it is not rotated" in str(result)
    assert check(Detached(backend), PLAIN, framework=name, gradient=False).status == 0


def test_a_failure_is_reported_in_a_sentence(backend, name):
    for function, message in (
        (lambda q, k, positions: (q, np.zeros(3).tolist()), "arrays"),
        (lambda q, k, positions: (q, k[..., :2]), "keys must have shape (2, 2, 17, 16), got (2, 2, 17, 2)"),
        (lambda q, k, positions: (q, positions[0].missing), "it raised AttributeError"),
    ):
        result = check(function, PLAIN, framework=name)
        assert (result.status, result.mistakes) == (2, ())
        assert message in result.failure
    if name != "numpy":
        result = check(lambda q, k, positions: (np.zeros(1), np.zeros(1)), PLAIN, framework=name)
        assert "got numpy.ndarray" in result.failure


def test_our_rotation_conforms(backend, name):
    rope = backend.RotaryEmbedding(Rotary(head_dim=64, layout="half"))
    assert check(lambda q, k, positions: rope(q, k, positions=positions), framework=name).status == 0


def test_gradients_of_magnitudes_at_angles(backend, name, on):
    if not hasattr(on.testing, "gradient"):
        pytest.skip("the framework has no gradients")
    phase = -np.abs(np.random.default_rng(0).normal(size=(2, 4))).astype(np.float32)
    encoding = PoPE(head_dim=4, num_heads=2)
    layer = on.testing.with_parameters(on.testing.eval_mode(backend.RotaryEmbedding(encoding)), {"phase": phase})
    stop_gradient = getattr(backend.backend, "BACKEND", backend.backend).stop_gradient

    def with_double_gradients(q, k, positions):
        return tuple(result + (result - stop_gradient(result)) for result in layer(q, k, positions=positions))

    caller = Caller(encoding, signature_of(layer, encoding, "rotation"), {"phase": np.float64(phase)})
    checked = CheckedFunction(with_double_gradients, framework_of(name), caller)
    doubled = gradient_mistakes(checked, ("float32",), {})
    assert [(found.outputs, found.description) for found in doubled] == [
        (("queries",), "it is multiplied by 2"),
        (("keys",), "it is multiplied by 2"),
    ]


def test_our_sums_conform(backend, name):
    table, spec = backend.PositionalEncoding(32), Sinusoidal(dim=32)
    assert check(lambda x, positions: table(x, positions=positions), spec, framework=name).status == 0
    assert check(lambda x, positions: table(x, positions=positions + 1), spec, framework=name).status == 1


def test_our_products_at_remapped_positions_conform(backend, on, name):
    encoding = DualChunk(rotary=Rotary(head_dim=8, layout="half"), chunk_size=24, local_size=4)
    stopped = backend.RotaryEmbedding(Rotary(head_dim=8, layout="half")).backend.stop_gradient

    def products(q, k, queries, keys):
        at = Placed(encoding, *(backend.to_numpy(positions) for positions in (queries, keys)))
        visible = namespace_of(q).astype(causal(queries, keys), q.dtype)
        return encoding.products_by_region(*at.rotate(q, k), queries, keys) * visible

    result = check(products, encoding, framework=name)
    assert result.status == 0, result
    detached = check(lambda q, k, *at: products(q, stopped(k), *at), encoding, framework=name, longest=200)
    assert detached.names == (("wrong gradient",) if hasattr(on.testing, "gradient") else ())
    assert all(one.outputs == ("keys",) for one in detached.mistakes)


def test_our_biases_conform(backend, name):
    bias = backend.AttentionBias(Alibi(num_heads=6))

    def of(queries, keys):
        zeros = backend.from_numpy(_zeros(6, queries.shape[0], keys.shape[0]))
        return bias(zeros, query_positions=queries, key_positions=keys)[0]

    assert check(of, Alibi(num_heads=6), framework=name).status == 0
    result = check(of, Alibi(num_heads=6, slopes="geometric"), framework=name)
    assert [found.name for found in result.mistakes] == ["slopes of another order"]


class Distances:
    """The bias of ALiBi as a product with distances; traced positions may be off by one."""

    def __init__(self, backend, spec, is_right=True):
        self.slopes = backend.from_numpy(spec.bias([1], [0]))
        self.is_traced, self.is_right = backend.AttentionBias(spec).backend.is_traced, is_right

    def __call__(self, queries, keys):
        xp = namespace_of(queries)
        wrong = 0 if self.is_right else int(self.is_traced(keys))
        return self.slopes * xp.astype(xp.abs(queries[:, None] - keys) + wrong, self.slopes.dtype)


def test_a_bias_is_asked_compiled(backend, name):
    spec = Alibi(num_heads=6)
    right = check(Distances(backend, spec), spec, framework=name)
    assert (right.status, right.remarks) == (0, NOT_ASKED if name == "mxnet" else ())
    wrong = check(Distances(backend, spec, is_right=False), spec, framework=name)
    is_alike = name in ("mxnet", "numpy", "paddle")  # Paddle's compiler runs eagerly what depends on tracing
    assert wrong.names == (() if is_alike else ("wrong when compiled",))


def _zeros(*shape):
    return np.zeros((1, *shape), np.float32)
