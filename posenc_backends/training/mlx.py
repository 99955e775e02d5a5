"""Train in MLX with `mx.value_and_grad` and its Adam."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import optimizers

from .. import mlx as backend
from . import ADAM, Function, Numbers, Rates, as_it_is

without_gradients = as_it_is


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        self.parameters = {name: backend.from_numpy(array) for name, array in parameters.items()}
        self.rates = iter(rates.tolist())
        self.adam = optimizers.Adam(0.0, [ADAM.beta1, ADAM.beta2], ADAM.epsilon, bias_correction=True)
        self.adam.init(self.parameters)
        self.value_and_gradient = mx.value_and_grad(loss)

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        self.adam.learning_rate = next(self.rates)
        value, gradient = self.value_and_gradient(self.parameters, *batch)
        self.parameters = self.adam.apply_gradients(gradient, self.parameters)
        mx.eval(value, self.parameters, self.adam.state)
        return value.item()
