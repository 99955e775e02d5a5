"""Train in TensorFlow with gradient tape, `tf.function` and the Adam of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import tensorflow as backend
from . import ADAM, Function, Numbers, Rates


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.parameters = {name: tf.Variable(array) for name, array in parameters.items()}
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        self.rates = iter(rates.tolist())
        self.adam = tf.keras.optimizers.Adam(beta_1=ADAM.beta1, beta_2=ADAM.beta2, epsilon=ADAM.epsilon)
        variables = list(self.parameters.values())
        self.adam.build(variables)

        @tf.function
        def step(*batch: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                value = loss(self.weights, *batch)
            gradients = tape.gradient(value, variables)
            self.adam.apply(list(map(tf.convert_to_tensor, gradients)), variables)
            return value

        self._step = step

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **{name: tf.convert_to_tensor(value) for name, value in self.parameters.items()}}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        self.adam.learning_rate.assign(next(self.rates))
        return float(self._step(*map(backend.from_numpy, batch)))

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        return backend.to_numpy(function(self.weights, *map(backend.from_numpy, batch)))
