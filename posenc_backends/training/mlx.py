"""Train in MLX with `mx.value_and_grad` and its Adam."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import optimizers

from .. import mlx as backend
from . import ADAM, Function, Numbers, Rates


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        self.parameters = {name: backend.from_numpy(array) for name, array in parameters.items()}
        self.rates = iter(rates.tolist())
        self.adam = optimizers.Adam(0.0, [ADAM.beta1, ADAM.beta2], ADAM.epsilon, bias_correction=True)
        self.adam.init(self.parameters)
        self.value_and_gradient = mx.value_and_grad(lambda learned, *batch: loss({**self.constants, **learned}, *batch))

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **self.parameters}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        self.adam.learning_rate = next(self.rates)
        value, gradient = self.value_and_gradient(self.parameters, *map(backend.from_numpy, batch))
        self.parameters = self.adam.apply_gradients(gradient, self.parameters)
        mx.eval(value, self.parameters, self.adam.state)
        return value.item()

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        return backend.to_numpy(function(self.weights, *map(backend.from_numpy, batch)))
