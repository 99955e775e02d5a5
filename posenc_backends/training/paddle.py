"""Train in Paddle with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import paddle

from .. import paddle as backend
from . import ADAM, Function, Numbers, Rates


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {name: _parameter(array) for name, array in parameters.items()}
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        self.rates = iter(rates.tolist())
        self.adam = paddle.optimizer.Adam(
            parameters=list(self.parameters.values()), beta1=ADAM.beta1, beta2=ADAM.beta2, epsilon=ADAM.epsilon
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **self.parameters}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        self.adam.set_lr(next(self.rates))
        loss = self.loss(self.weights, *map(backend.from_numpy, batch))
        loss.backward()
        self.adam.step()
        self.adam.clear_grad()
        return loss.item()

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        with paddle.no_grad():
            return backend.to_numpy(function(self.weights, *map(backend.from_numpy, batch)))


def _parameter(array: Any) -> paddle.Tensor:
    return paddle.create_parameter(
        array.shape, str(array.dtype), default_initializer=paddle.nn.initializer.Assign(array)
    )
