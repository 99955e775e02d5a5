"""A layer on two contexts, which each have a part of the batch, learns what one learns of all."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

from posenc_backends.mxnet import MultiHeadAttention
from posenc_core import T5Bias

from ...many_devices import many_devices

X = np.random.default_rng(0).normal(size=(4, 5, 8)).astype(np.float32)


def trained(contexts):
    """Return the parameters after two steps of a trainer that adds gradients over the contexts."""
    mx.npx.random.seed(1)
    layer = MultiHeadAttention(8, 2, position=T5Bias(num_heads=2), prefix="layer_")
    layer.initialize(ctx=mx.cpu(0))
    layer.collect_params().reset_ctx(contexts)
    trainer = gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(2):
        with autograd.record():
            losses = [
                (layer(x, x, x, causal=True) ** 2).sum() for x in gluon.utils.split_and_load(mx.np.array(X), contexts)
            ]
        autograd.backward(losses)
        trainer.step(len(X))
    return {name: parameter.data(contexts[0]).asnumpy() for name, parameter in layer.collect_params().items()}


@many_devices("MXNet", "`gluon.Trainer` over two contexts, by `split_and_load`")
@pytest.mark.filterwarnings("ignore:ndarray.as_in_context has been renamed")  # which Gluon calls
def test_two_contexts_learn_what_one_learns():
    one, two = trained([mx.cpu(0)]), trained([mx.cpu(0), mx.cpu(1)])
    for name, numbers in one.items():
        np.testing.assert_allclose(two[name], numbers, rtol=0, atol=1e-6, err_msg=name)
