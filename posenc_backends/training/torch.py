"""Train in PyTorch with its autograd and its Adam."""

from __future__ import annotations

from typing import Any

import torch

from .. import torch as backend
from . import ADAM, Function, Numbers, Rates

without_gradients = torch.no_grad()


class Optimizer:
    """Train parameters so that `loss(parameters, *batch)` falls; see `posenc_backends.training.Optimizer`."""

    def __init__(self, loss: Function, parameters: Numbers, rates: Rates) -> None:
        self.loss = loss
        self.parameters = {
            name: backend.from_numpy(array.copy()).requires_grad_() for name, array in parameters.items()
        }
        betas = (ADAM.beta1, ADAM.beta2)
        self.rates = iter(rates.tolist())
        self.adam = torch.optim.Adam(self.parameters.values(), betas=betas, eps=ADAM.epsilon)

    def step(self, *batch: Any) -> float:
        """Train on a batch of the framework's arrays at the next learning rate; return the loss before the step."""
        self.adam.param_groups[0]["lr"] = next(self.rates)
        self.adam.zero_grad()
        loss = self.loss(self.parameters, *batch)
        loss.backward()
        self.adam.step()
        return loss.item()
