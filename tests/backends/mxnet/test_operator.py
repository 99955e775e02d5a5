"""The kernel in graphs: the bits of the formula, gradients, shapes, threads; what is exported has the formula."""

import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends._kernels import level
from posenc_backends.mxnet import MultiHeadAttention, RotaryEmbedding, operator
from posenc_core import Rotary
from posenc_core.encodings import LearnedRotary
from posenc_core.rotation import pairing_of, rotate_reference

HALF = Rotary(head_dim=8, layout="half")

ELSEWHERE = """
import sys
import mxnet as mx
from mxnet import gluon

mx.npx.set_np()
folder = sys.argv[1]
model = gluon.SymbolBlock.imports(f"{folder}/model-symbol.json", ["data"], f"{folder}/model-0000.params")
model(mx.np.ones((1, 2, 3, 8))).wait_to_read()
"""


class Model(gluon.HybridBlock):
    """A rotation with what comes before and after it."""

    def __init__(self, layer=None, before=lambda x: x, after=lambda rotated, x: rotated, **options):
        super().__init__()
        with self.name_scope():
            self.layer = RotaryEmbedding(HALF) if layer is None else layer
        self.before, self.after, self.options = before, after, options

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.after(self.layer(self.before(x), **self.options), x)


def tokens(*shape, dtype="float32", seed=0):
    return mx.np.array(np.random.default_rng(seed).normal(size=shape), dtype=dtype)


def made(model, x, dtype="float32", **flags):
    """Return the model hybridized, with the operator in its graph."""
    model.initialize(mx.init.Normal(0.5))
    model.cast(dtype)
    model.hybridize(**flags)
    with operator.kernel_in_graphs():
        model(x)
    assert has_operator(model)
    return model


def has_operator(model):
    """Return whether the operator is in the graph that is exported and run."""
    nodes = json.loads(model._cached_graph[1].tojson())["nodes"]
    return any(node.get("attrs", {}).get("op_type") == operator.NAME for node in nodes)


def gradient(model, x, grad_req="write"):
    """Return the result and the gradient that is asked for so, where there was 2 before."""
    x = x.copy()
    x.attach_grad(grad_req)
    x.grad[:] = 2
    with autograd.record():
        result = model(x)
    result.backward(mx.np.ones_like(result) * 0.7)
    return result.asnumpy(), x.grad.asnumpy()


def check_alike(got, wanted):
    for one, right in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, right)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("layout", "rotary_dim", "placement"), [
    *itertools.product(["half", "interleaved", "interleaved_to_half"], [None, 4], ["lead"]),
    ("half", 4, "trail"),
    ("half", 4, "spread"),
])  # fmt: skip
def test_bits_of_the_reference_forward_and_back(dtype, layout, rotary_dim, placement):
    rotary = Rotary(head_dim=8, layout=layout, rotary_dim=rotary_dim, placement=placement)
    x = tokens(2, 3, 5, 8, dtype=dtype)
    model = made(Model(RotaryEmbedding(rotary)), x, dtype)
    cos, sin = (mx.np.array(table) for table in rotary.cos_sin(np.arange(5)))
    pairing = pairing_of(layout, placement)
    to_x = mx.np.ones_like(x) * 0.7
    wanted = rotate_reference(x, cos, sin, pairing), rotate_reference(to_x, cos, -sin, pairing.inverse)
    check_alike(gradient(model, x), [each.asnumpy() for each in wanted])


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize(
    "after", [lambda rotated, x: rotated, lambda rotated, x: rotated * x], ids=["alone", "added to another"]
)
def test_gradients_as_they_are_asked_for(grad_req, after):
    x = tokens(2, 2, 5, 8)
    plain = Model(after=after)
    plain.hybridize()
    check_alike(gradient(made(Model(after=after), x), x, grad_req), gradient(plain, x, grad_req))


def test_nothing_is_written_where_nothing_is_asked_for():
    x, (cos, sin) = tokens(3, 8), (mx.np.array(table) for table in HALF.cos_sin(np.arange(3)))
    left = mx.np.zeros((3, 8))
    operator._rotate_into(left, "null", (x, cos, sin), pairing_of("half"))
    np.testing.assert_array_equal(left.asnumpy(), np.zeros((3, 8)))


def test_learned_frequencies_have_their_gradient():
    """They have no operator, even where it is asked for."""
    x, found = tokens(2, 2, 5, 8), []
    for wanted in (False, True):
        model = Model(RotaryEmbedding(LearnedRotary(head_dim=8, layout="half")), after=lambda rotated, x: rotated * x)
        model.initialize()
        model.hybridize()
        token = operator._is_in_graphs.set(wanted)
        with autograd.record():
            result = model(x)
        operator._is_in_graphs.reset(token)
        result.backward()
        found.append([each.grad().asnumpy() for each in model.collect_params().values() if each.grad_req != "null"])
    check_alike(*found)
    assert np.abs(found[0]).max() > 1e-3


@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["", "static"])
def test_sizes_that_change(flags):
    layer = RotaryEmbedding(HALF)
    model = made(Model(layer), tokens(2, 2, 5, 8), **flags)
    for shape in ((2, 2, 5, 8), (1, 3, 9, 8), (4, 1, 1, 8), (3, 6, 8), (5, 8), (2, 2, 5, 8)):
        x = tokens(*shape)
        check_alike(gradient(model, x), gradient(layer, x))


@pytest.mark.parametrize("options", [{"start": 3}, {"positions": [4, 0, 2]}, {"seq_axis": 1}], ids=str)
def test_calls_with_arguments(options):
    x, layer = tokens(2, 3, 3, 8), RotaryEmbedding(HALF)
    check_alike(gradient(made(Model(layer, **options), x), x), gradient(lambda x: layer(x, **options), x))


def test_sizes_that_come_to_be_known_with_the_first_call():
    x, model = tokens(2, 2, 5, 6), gluon.nn.HybridSequential()
    model.add(gluon.nn.Dense(8, flatten=False), RotaryEmbedding(HALF), gluon.nn.Dense(3, flatten=False))
    model = made(model, x)
    got = gradient(model, x)
    model.hybridize(False)
    for one, right in zip(got, gradient(model, x), strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=1e-6)


def test_attention_trains_and_predicts():
    x = tokens(2, 5, 8)
    model = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="interleaved"))
    block = Attention(model)
    block = made(block, x)
    got = gradient(block, x), block(x).asnumpy()
    block.hybridize(False)
    wanted = gradient(block, x), block(x).asnumpy()
    np.testing.assert_allclose(got[1], wanted[1], rtol=0, atol=1e-6)
    for one, right in zip(got[0], wanted[0], strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=1e-6)


class Attention(gluon.HybridBlock):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def hybrid_forward(self, F, x):  # noqa: N803
        return self.attention(x, x, x, causal=True)


def test_threads_share_a_graph():
    model = made(Model(), tokens(2, 2, 5, 8))
    inputs = [tokens(2, 2, 5, 8, seed=seed) for seed in range(8)]
    wanted = [model(x).asnumpy() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lambda x: model(x).asnumpy(), x) for x in inputs * 4]
        check_alike([each.result() for each in found], wanted * 4)


def test_a_graph_has_the_formula_unless_the_operator_is_asked_for(tmp_path):
    model, x = Model(), tokens(1, 2, 3, 8)
    model.hybridize()
    model(x)
    assert not has_operator(model)
    model = made(model, x)
    model.hybridize()
    model(x)
    assert not has_operator(model)
    model.export(str(tmp_path / "model"))
    assert _run_elsewhere(tmp_path).returncode == 0


def test_an_exported_operator_is_an_error_elsewhere(tmp_path):
    made(Model(), tokens(1, 2, 3, 8)).export(str(tmp_path / "model"))
    ended = _run_elsewhere(tmp_path)
    assert ended.returncode
    assert operator.NAME in ended.stderr


def _run_elsewhere(folder):
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, str(folder)]
    return subprocess.run(command, check=False, timeout=120, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.skipif(level() == "off", reason="the compiled library is not here")
def test_a_hybridized_layer_runs_the_kernel_and_exports_the_formula(dtype, tmp_path, monkeypatch):
    layer, x = RotaryEmbedding(HALF), tokens(1, 2, 3, 8, dtype=dtype)
    wanted = gradient(layer, x)
    layer.hybridize(static_alloc=True, static_shape=True)
    monkeypatch.setattr(RotaryEmbedding, "_call_cached_op", None)
    check_alike(gradient(layer, x), wanted)
    check_alike([each.asnumpy() for each in layer(x, x)], [wanted[0]] * 2)
    layer.export(str(tmp_path / "model"))
    assert _run_elsewhere(tmp_path).returncode == 0
