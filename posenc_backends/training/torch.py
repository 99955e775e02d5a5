"""Train in PyTorch with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import torch

from .. import torch as backend
from . import ADAM, Function, Numbers, Rates


class Trainer:
    """Train parameters so that `loss(weights, *batch)` falls; see `posenc_backends.training.Trainer`."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {
            name: backend.from_numpy(array.copy()).requires_grad_() for name, array in parameters.items()
        }
        self.constants = {name: backend.from_numpy(array) for name, array in constants.items()}
        betas = (ADAM.beta1, ADAM.beta2)
        self.rates = iter(rates.tolist())
        self.adam = torch.optim.Adam(self.parameters.values(), betas=betas, eps=ADAM.epsilon)

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name."""
        return {**self.constants, **self.parameters}

    def step(self, *batch: Any) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        self.adam.param_groups[0]["lr"] = next(self.rates)
        self.adam.zero_grad()
        loss = self.loss(self.weights, *map(backend.from_numpy, batch))
        loss.backward()
        self.adam.step()
        return loss.item()

    def run(self, function: Function, *batch: Any) -> Any:
        """Return `function(weights, *batch)`, without gradients."""
        with torch.no_grad():
            return backend.to_numpy(function(self.weights, *map(backend.from_numpy, batch)))
