"""Two processes with `DataParallel`, each with a part of the batch, learn what one learns of all."""

import sys
from pathlib import Path

import numpy as np
import paddle
import pytest

from posenc_backends.paddle import MultiHeadAttention
from posenc_core import T5Bias

from ...many_devices import many_devices

X = np.random.default_rng(0).normal(size=(4, 5, 8)).astype(np.float32)


def trained(x, wrapped=lambda layer: layer):
    """Return the parameters after two steps."""
    paddle.seed(1)
    layer = MultiHeadAttention(8, 2, position=T5Bias(num_heads=2))
    model, optimizer = wrapped(layer), paddle.optimizer.SGD(0.1, layer.parameters())
    for _ in range(2):
        (model(x, x, x, causal=True) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    return {name: parameter.numpy() for name, parameter in layer.named_parameters()}


def work(path):
    """Train on the part of one process, and save the parameters."""
    paddle.distributed.init_parallel_env()
    rank = paddle.distributed.get_rank()
    found = trained(paddle.to_tensor(np.split(X, 2)[rank]), paddle.DataParallel)
    np.savez(f"{path}/{rank}.npz", **found)


@many_devices("Paddle", "`DataParallel`, two processes")
@pytest.mark.filterwarnings("ignore")  # of Paddle's, which starts the processes
def test_two_processes_learn_what_one_learns(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[3])])  # the processes import this module
    paddle.distributed.spawn(work, (str(tmp_path),), nprocs=2, backend="gloo")
    for name, numbers in trained(paddle.to_tensor(X)).items():
        for rank in range(2):
            np.testing.assert_allclose(np.load(tmp_path / f"{rank}.npz")[name], numbers, rtol=0, atol=1e-6)
