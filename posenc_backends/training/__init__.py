"""Train in any framework with the same loop, initial numbers, batches and learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_backends import load
from posenc_core.encodings import Encoding
from posenc_core.transformer.config import Transformer
from posenc_core.transformer.model import answer, loss
from posenc_core.transformer.tasks import Task

Numbers: TypeAlias = dict[str, npt.NDArray[Any]]
Rates: TypeAlias = npt.NDArray[np.float32]
Function: TypeAlias = Callable[..., Any]

TEST_SIZE = 1024  # held-out questions
BATCH_SIZE = 128  # of them


class Adam(NamedTuple):
    """The optimizer of Vaswani et al. 2017, section 5.3."""

    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9


ADAM = Adam()


class Optimizer(Protocol):
    """Parameters of a framework and its Adam, made from `(loss, parameters, rates)`."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name, in the framework."""

    def step(self, *batch: Any) -> float:
        """Let `loss(parameters, *batch)` fall, by a step of the next learning rate; return the loss before the step."""


class Trainer:
    """A model that trains.

    Args:
        backend: the framework, which has a file in this folder.
        loss: `(weights, *batch) -> loss`.
        parameters, constants: arrays by name.
        rates: the learning rate of each step.
    """

    def __init__(self, backend: str, loss: Function, parameters: Numbers, constants: Numbers, rates: Rates) -> None:
        self.backend = import_module(f"posenc_backends.{backend}")  # raises if it is missing, with what to install
        module = import_module(f"posenc_backends.training.{backend}")
        self.constants = {name: self.backend.from_numpy(array) for name, array in constants.items()}
        self.without_gradients: Function = module.without_gradients
        self.optimizer: Optimizer = module.Optimizer(
            lambda learned, *batch: loss({**self.constants, **learned}, *batch), parameters, rates
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays by name, in the framework."""
        return {**self.constants, **self.optimizer.parameters}

    def step(self, *batch: npt.NDArray[Any]) -> float:
        """Train on a batch at the next learning rate; return the loss before the step."""
        return self.optimizer.step(*map(self.backend.from_numpy, batch))

    def run(self, function: Function, *batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return `function(weights, *batch)`, without gradients."""
        result = self.without_gradients(function)(self.weights, *map(self.backend.from_numpy, batch))
        return self.backend.to_numpy(result)


def as_it_is(function: Function) -> Function:
    """Return the function: in some frameworks it has no gradient unless one is asked for."""
    return function


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train.

    Args:
        steps: number of steps.
        size: number of pairs in a batch.
        rate: the highest learning rate.
        warmup: number of steps until it is reached; then it falls linearly to 0.
        seed: seed of initial numbers and batches.
    """

    steps: int = 900
    size: int = 64
    rate: float = 2e-3
    warmup: int = 400
    seed: int = 0

    def rates(self) -> npt.NDArray[np.float32]:
        """Return the learning rate of each step."""
        step = np.arange(1, self.steps + 1)
        up, down = step / self.warmup, (self.steps + 1 - step) / max(self.steps + 1 - self.warmup, 1)
        return (self.rate * np.minimum(up, down)).astype(np.float32)


RECIPES = {"dates": Recipe(), "copy": Recipe(), "reverse": Recipe(), "addition": Recipe(steps=1500, size=128)}


def model_of(task: Task, position: Encoding | None) -> Transformer:
    """Return the Transformer that learns the tasks: width 64, four heads, two encoder and two decoder blocks."""
    return Transformer(vocabulary=task.vocabulary, max_len=task.max_len, position=position)


def trainer(backend: str, model: Transformer, recipe: Recipe) -> Trainer:
    """Return the trainer of a backend; for `"keras"`, that of the framework that Keras runs on."""
    if backend == "keras":
        load("keras")  # raises if Keras is missing, or runs on a framework that is not supported
        backend = import_module("keras").backend.backend()
    arrays = model.initial(seed=recipe.seed), model.constants()
    return Trainer(backend, partial(loss, model), *arrays, recipe.rates())


def steps(trainer: Trainer, task: Task, recipe: Recipe) -> Iterator[float]:
    """Train, and yield the loss of each step."""
    for step in range(recipe.steps):
        yield trainer.step(*task.batch(recipe.size, seed=(recipe.seed, step)))


def exact_match(trainer: Trainer, model: Transformer, task: Task, *, size: int = TEST_SIZE, seed: int = 0) -> float:
    """Return the share of held-out questions that greedy decoding answers exactly.

    One pass is enough: greedy decoding writes the answer exactly if each of its tokens is the likeliest after those
    before it.
    """
    exact, answered = 0, partial(answer, model)
    for number in range(size // BATCH_SIZE):
        source, target = task.batch(BATCH_SIZE, seed=(seed, number), split="test")
        logits = trainer.run(answered, source, target)
        exact += int(((logits.argmax(-1) == target) | (target == 0)).all(axis=-1).sum())
    return exact / (size // BATCH_SIZE * BATCH_SIZE)
