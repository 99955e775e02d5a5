"""Train in Paddle with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import paddle

from . import ADAM, Function, Numbers, Rates

without_gradients = paddle.no_grad()


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {name: _parameter(array) for name, array in parameters.items()}
        self.rates = iter(rates.tolist())
        self.adam = paddle.optimizer.Adam(
            parameters=list(self.parameters.values()), beta1=ADAM.beta1, beta2=ADAM.beta2, epsilon=ADAM.epsilon
        )

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        self.adam.set_lr(next(self.rates))
        loss = self.loss(self.parameters, *batch)
        loss.backward()
        self.adam.step()
        self.adam.clear_grad()
        return loss.item()


def _parameter(array: Any) -> paddle.Tensor:
    return paddle.create_parameter(
        array.shape, str(array.dtype), default_initializer=paddle.nn.initializer.Assign(array)
    )
