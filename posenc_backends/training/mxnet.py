"""Train in MXNet with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import autograd

from .. import mxnet as backend
from . import ADAM, Function, Numbers, Rates

mx.npx.set_np()  # the loss is an array of shape ()


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {name: backend.from_numpy(array) for name, array in parameters.items()}
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        self.rates = iter(rates.tolist())
        for array in self.parameters.values():
            array.attach_grad()
        self.adam = mx.optimizer.Adam(beta1=ADAM.beta1, beta2=ADAM.beta2, epsilon=ADAM.epsilon)
        self.updater = mx.optimizer.get_updater(self.adam)

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **self.parameters}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        self.adam.set_learning_rate(next(self.rates))
        with autograd.record():
            loss = self.loss(self.weights, *map(backend.from_numpy, batch))
        loss.backward()
        for index, array in enumerate(self.parameters.values()):
            self.updater(index, array.grad, array)
        return loss.item()

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        return backend.to_numpy(function(self.weights, *map(backend.from_numpy, batch)))
