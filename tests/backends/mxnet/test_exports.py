"""Exported graphs: run elsewhere, at other lengths and starts, trained further; and calls that cannot be exported."""

import subprocess
import sys

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary
from posenc_core.encodings import ShawBias

ELSEWHERE = """
import sys
import mxnet as mx
from mxnet import gluon

mx.npx.set_np()
folder = sys.argv[1]
model = gluon.SymbolBlock.imports(f"{folder}/model-symbol.json", ["data0", "data1"], f"{folder}/model-0000.params")
given = mx.npx.load(f"{folder}/given.npz")
mx.npx.save(f"{folder}/result.npz", {"result": model(given["x"], given["start"])})
assert not any(name.startswith("posenc") for name in sys.modules)
"""


class Model(gluon.HybridBlock):
    """Learned positions, then attention with RoPE from a `start` that is an input."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.positions = PositionalEncoding(8, encoding=Learned(dim=8, length=30))
            self.attention = MultiHeadAttention(8, 2, position=Rotary(head_dim=4, layout="half"))

    def hybrid_forward(self, F, x, start):  # noqa: N803
        x = self.positions(x, start)
        return self.attention(x, x, x, start=start, causal=True)


def tokens(*shape):
    return mx.np.array(np.random.default_rng(0).normal(size=shape), dtype="float32")


@pytest.fixture
def model(tmp_path):
    """A model exported to `tmp_path` after a call with five tokens."""
    made = Model()
    made.initialize(mx.init.Normal(0.3))
    made.hybridize()
    made(tokens(2, 5, 8), mx.np.array([0, 0], dtype="int32"))
    made.export(str(tmp_path / "model"))
    return made


def imported(folder):
    return gluon.SymbolBlock.imports(f"{folder}/model-symbol.json", ["data0", "data1"], f"{folder}/model-0000.params")


def test_a_process_without_posenc_runs_it(model, tmp_path):
    x, start = tokens(3, 9, 8), mx.np.array([4, 0, 21], dtype="int32")
    mx.npx.save(str(tmp_path / "given.npz"), {"x": x, "start": start})
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path)
    result = mx.npx.load(str(tmp_path / "result.npz"))["result"]
    np.testing.assert_array_equal(result.asnumpy(), model(x, start).asnumpy())


def trained(block, options):
    """Train an imported block; return its first and its last loss, and the names of the changed parameters."""
    x, start, loss = tokens(4, 6, 8), mx.np.zeros(4, dtype="int32"), gluon.loss.L2Loss()
    parameters = block.collect_params()
    before = {name: parameter.data().asnumpy() for name, parameter in parameters.items()}
    trainer, losses = gluon.Trainer(parameters, "adam", {"learning_rate": 0.01, **options}), []
    for _ in range(20):
        with autograd.record():
            error = loss(block(x, start), x)
        error.backward()
        trainer.step(4)
        losses.append(float(error.mean()))
    same = {name for name, parameter in parameters.items() if np.array_equal(parameter.data().asnumpy(), before[name])}
    return losses[0], losses[-1], set(parameters) - same


def suffixes(names):
    return {name.rsplit("_", 1)[1] for name in names}


def test_it_is_trained_further_without_its_tables(model, tmp_path):
    first, last, changed = trained(imported(tmp_path), {})
    assert last < 0.9 * first
    assert suffixes(changed) == {"table", "weight"}  # the learned table, and the projections


def test_weight_decay_does_not_reach_tables_with_grad_req_null(model, tmp_path):
    assert suffixes(trained(imported(tmp_path), {"wd": 0.1})[2]) == {"table", "weight", "cos", "sin"}  # by default
    block = imported(tmp_path)
    block.collect_params(".*_(cos|sin)").setattr("grad_req", "null")
    assert suffixes(trained(block, {"wd": 0.1})[2]) == {"table", "weight"}


def test_a_length_past_max_len_is_nan(tmp_path):
    layer = PositionalEncoding(8, max_len=20)
    layer.hybridize()
    layer(tokens(1, 5, 8))
    layer.export(str(tmp_path / "model"))
    graph = gluon.SymbolBlock.imports(
        str(tmp_path / "model-symbol.json"), ["data"], str(tmp_path / "model-0000.params")
    )
    missing = np.isnan(graph(tokens(1, 23, 8)).asnumpy()).any(axis=-1)[0]
    assert missing.tolist() == 20 * [False] + 3 * [True]


def test_content_based_bias_is_in_the_graph_of_a_layer(tmp_path):
    layer = AttentionBias(ShawBias(num_heads=2, head_dim=4, max_distance=2))
    layer.initialize(mx.init.Normal(0.5))
    layer.hybridize()
    calls = [(tokens(1, 2, n, n), tokens(1, 2, n, 4), tokens(1, 2, n, 4)) for n in (3, 7)]
    scores, q, k = calls[0]
    layer(scores, q=q, k=k)
    layer.export(str(tmp_path / "model"))
    names = ["data0", "data1", "data2"]
    graph = gluon.SymbolBlock.imports(str(tmp_path / "model-symbol.json"), names, str(tmp_path / "model-0000.params"))
    scores, q, k = calls[1]
    np.testing.assert_allclose(graph(scores, q, k).asnumpy(), layer(scores, q=q, k=k).asnumpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        (RotaryEmbedding(Rotary(head_dim=8, layout="half")), {"positions": [0.5, 1.5]}),
        (RotaryEmbedding(Rotary(head_dim=8, layout="half")), {"start": 3}),
        (PositionalEncoding(8), {"positions": mx.np.array([3, 4], dtype="int32")}),
    ],
)
def test_a_call_without_a_graph_cannot_be_exported(layer, options, tmp_path):
    layer.hybridize()
    layer(tokens(1, 2, 8), **options)
    with pytest.raises(RuntimeError, match="run forward with this block at least once before calling export"):
        layer.export(str(tmp_path / "model"))
