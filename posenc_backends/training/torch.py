"""Training in PyTorch: its own derivatives, its own Adam."""

from __future__ import annotations

from typing import Any

import torch

from posenc_backends.training import ADAM, Function, Numbers, Rates

from ..torch import backend as arrays


class Trainer:
    """Parameters, and a step that makes `loss(weights, *batch)` smaller."""

    def __init__(self, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {name: arrays.from_numpy(array.copy()).requires_grad_() for name, array in parameters.items()}
        self.constants = {name: arrays.from_numpy(array) for name, array in constants.items()}
        betas = (ADAM.beta1, ADAM.beta2)
        self.rates = iter(rates.tolist())
        self.adam = torch.optim.Adam(self.parameters.values(), betas=betas, eps=ADAM.epsilon)

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays, by name."""
        return {**self.constants, **self.parameters}

    def step(self, *batch: Any) -> float:
        """Train on a batch, at the next rate; the loss before."""
        self.adam.param_groups[0]["lr"] = next(self.rates)
        self.adam.zero_grad()
        loss = self.loss(self.weights, *map(arrays.from_numpy, batch))
        loss.backward()
        self.adam.step()
        return loss.item()

    def run(self, function: Function, *batch: Any) -> Any:
        """`function(weights, *batch)`, without derivatives."""
        with torch.no_grad():
            return arrays.to_numpy(function(self.weights, *map(arrays.from_numpy, batch)))
