"""Train in JAX with `jax.grad`, `jax.jit` and the Adam of its examples."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from jax.example_libraries.optimizers import adam

from .. import jax as backend
from . import ADAM, Function, Numbers, Rates

without_gradients = jax.jit


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        schedule = jnp.asarray(rates)
        start, update, self.learned = adam(lambda count: schedule[count], ADAM.beta1, ADAM.beta2, ADAM.epsilon)
        self.count, self.state = 0, start({name: backend.from_numpy(array) for name, array in parameters.items()})

        @jax.jit
        def step(count: Any, state: Any, *batch: Any) -> tuple[Any, Any]:
            value, gradient = jax.value_and_grad(loss)(self.learned(state), *batch)
            return value, update(count, gradient, state)

        self._step = step

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return self.learned(self.state)

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        value, self.state = self._step(self.count, self.state, *batch)
        self.count += 1
        return float(value)
