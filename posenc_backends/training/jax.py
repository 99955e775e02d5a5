"""Training in JAX: its own derivatives, compiled, and the Adam that comes with it."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from jax.example_libraries.optimizers import adam

from posenc_backends.training import ADAM, Function, Numbers, Rates

from ..jax import backend as arrays


class Trainer:
    """Parameters, and a step that makes `loss(weights, *batch)` smaller."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.constants = {name: arrays.from_numpy(array) for name, array in constants.items()}
        schedule = jnp.asarray(rates)
        start, update, self.learned = adam(lambda count: schedule[count], ADAM.beta1, ADAM.beta2, ADAM.epsilon)
        self.count, self.state = 0, start({name: arrays.from_numpy(array) for name, array in parameters.items()})

        @jax.jit
        def step(count: Any, state: Any, *batch: Any) -> tuple[Any, Any]:
            value_and_gradient = jax.value_and_grad(lambda learned: loss({**self.constants, **learned}, *batch))
            value, gradient = value_and_gradient(self.learned(state))
            return value, update(count, gradient, state)

        self._step = step

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays, by name."""
        return {**self.constants, **self.learned(self.state)}

    def step(self, *batch: Any) -> float:
        """Train on a batch, at the next rate; the loss before."""
        value, self.state = self._step(self.count, self.state, *map(arrays.from_numpy, batch))
        self.count += 1
        return float(value)

    def run(self, function: Function, *batch: Any) -> Any:
        """`function(weights, *batch)`, without derivatives."""
        return arrays.to_numpy(jax.jit(function)(self.weights, *map(arrays.from_numpy, batch)))
