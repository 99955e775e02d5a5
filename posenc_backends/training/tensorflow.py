"""Train in TensorFlow with gradient tape, `tf.function` and the Adam of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import ADAM, Function, Numbers, Rates, as_it_is

without_gradients = as_it_is


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        self.variables = {name: tf.Variable(array) for name, array in parameters.items()}
        self.rates = iter(rates.tolist())
        self.adam = tf.keras.optimizers.Adam(beta_1=ADAM.beta1, beta_2=ADAM.beta2, epsilon=ADAM.epsilon)
        variables = list(self.variables.values())
        self.adam.build(variables)

        @tf.function
        def step(*batch: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                value = loss(self.parameters, *batch)
            self.adam.apply(list(map(tf.convert_to_tensor, tape.gradient(value, variables))), variables)
            return value

        self._step = step

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: tf.convert_to_tensor(value) for name, value in self.variables.items()}

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        self.adam.learning_rate.assign(next(self.rates))
        return float(self._step(*batch))
