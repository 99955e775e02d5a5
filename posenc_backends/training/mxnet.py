"""Train in MXNet with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import autograd

from .. import mxnet as backend
from . import ADAM, Function, Numbers, Rates, as_it_is

without_gradients = as_it_is

mx.npx.set_np()  # the loss is an array of shape ()


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {name: backend.from_numpy(array) for name, array in parameters.items()}
        self.rates = iter(rates.tolist())
        for array in self.parameters.values():
            array.attach_grad()
        self.adam = mx.optimizer.Adam(beta1=ADAM.beta1, beta2=ADAM.beta2, epsilon=ADAM.epsilon)
        self.updater = mx.optimizer.get_updater(self.adam)

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        self.adam.set_learning_rate(next(self.rates))
        with autograd.record():
            loss = self.loss(self.parameters, *batch)
        loss.backward()
        for index, array in enumerate(self.parameters.values()):
            self.updater(index, array.grad, array)
        return loss.item()
