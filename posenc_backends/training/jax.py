"""Train in JAX with `jax.grad`, `jax.jit` and the Adam of its examples."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from jax.example_libraries.optimizers import adam

from .. import jax as backend
from . import ADAM, Function, Numbers, Rates


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        schedule = jnp.asarray(rates)
        start, update, self.learned = adam(lambda count: schedule[count], ADAM.beta1, ADAM.beta2, ADAM.epsilon)
        self.count, self.state = 0, start({name: backend.from_numpy(array) for name, array in parameters.items()})

        @jax.jit
        def step(count: Any, state: Any, *batch: Any) -> tuple[Any, Any]:
            value_and_gradient = jax.value_and_grad(lambda learned: loss({**self.constants, **learned}, *batch))
            value, gradient = value_and_gradient(self.learned(state))
            return value, update(count, gradient, state)

        self._step = step

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **self.learned(self.state)}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        value, self.state = self._step(self.count, self.state, *map(backend.from_numpy, batch))
        self.count += 1
        return float(value)

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        return backend.to_numpy(jax.jit(function)(self.weights, *map(backend.from_numpy, batch)))
