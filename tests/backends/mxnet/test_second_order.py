"""Second derivatives: MXNet has none of slices and products, and says so; nor of a rotation by the kernel."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd

from posenc_backends._kernels import library
from posenc_core import rotate
from posenc_core._array_api import kernels

WAYS = {
    "squared": lambda turned, weights: turned * turned * weights,
    "weighted": lambda turned, weights: turned * weights,
}


def second(result, x, weights):
    first = autograd.grad(result, [x], create_graph=True, retain_graph=True)[0].as_np_ndarray()
    (first * weights).sum().backward()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("by_kernel", [True, False], ids=["kernel", "formula"])
def test_they_are_refused(monkeypatch, way, by_kernel):
    mx.nd.waitall()  # calls of tests before may still be queued
    made, run = [], library.run
    monkeypatch.setattr(library, "run", lambda *arguments: made.append(arguments) or run(*arguments))
    if not by_kernel:
        monkeypatch.setattr(kernels, "_kernels", {})
    x, weights = (mx.np.array(np.random.default_rng(seed).normal(size=(2, 33, 40)), dtype="float32") for seed in (0, 1))
    tables = [mx.np.array(np.random.default_rng(2).normal(size=(33, 20)), dtype="float32") for _ in range(2)]
    x.attach_grad()
    with autograd.record():
        result = way(rotate(x, *tables, layout="half"), weights).sum()
        with pytest.raises(mx.MXNetError, match="is non-differentiable because it didn't register FGradient attribute"):
            second(result, x, weights)
    assert bool(made) is by_kernel
