"""Second derivatives: MXNet has none of slices and products, and says so; nor of a rotation by the kernel."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd

from posenc_backends._kernels import adapter, launch
from posenc_core import rotate

WAYS = {
    "squared": lambda turned, weights: turned * turned * weights,
    "weighted": lambda turned, weights: turned * weights,
}


def second(result, x, weights):
    first = autograd.grad(result, [x], create_graph=True, retain_graph=True)[0].as_np_ndarray()
    (first * weights).sum().backward()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("smallest", [0, 10**9], ids=["kernel", "formula"])
def test_they_are_refused(monkeypatch, way, smallest):
    pytest.importorskip("numba")
    monkeypatch.setattr(adapter, "SMALLEST", smallest)
    made, compiled = [], launch.compiled
    monkeypatch.setattr(launch, "compiled", lambda dtype: made.append(dtype) or compiled(dtype))
    x, weights = (mx.np.array(np.random.default_rng(seed).normal(size=(2, 33, 40)), dtype="float32") for seed in (0, 1))
    tables = [mx.np.array(np.random.default_rng(2).normal(size=(33, 20)), dtype="float32") for _ in range(2)]
    x.attach_grad()
    with autograd.record():
        result = way(rotate(x, *tables, layout="half"), weights).sum()
        with pytest.raises(mx.MXNetError, match="is non-differentiable because it didn't register FGradient attribute"):
            second(result, x, weights)
    assert bool(made) is (smallest == 0)
