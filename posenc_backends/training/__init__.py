"""Training: one loop for every framework, the same numbers to start from, the same batches, the same rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding
from posenc_core.transformer.config import Transformer
from posenc_core.transformer.model import answer, loss
from posenc_core.transformer.tasks import Task

Numbers: TypeAlias = dict[str, npt.NDArray[Any]]
Rates: TypeAlias = npt.NDArray[np.float32]
Function: TypeAlias = Callable[..., Any]

TEST = 1024  # questions
PORTION = 128  # of them at a time


class Adam(NamedTuple):
    """The optimiser of the paper, section 5.3."""

    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9


ADAM = Adam()


class Trainer(Protocol):
    """What a room trains with, made from `(loss, parameters, constants, rates)`."""

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays of the framework, by name."""

    def step(self, *batch: npt.NDArray[Any]) -> float:
        """Train on a batch, at the next rate; the loss before."""

    def run(self, function: Function, *batch: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`function(weights, *batch)`, without derivatives."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train.

    Args:
        steps: number of steps.
        size: number of pairs in a batch.
        rate: the highest learning rate.
        warmup: number of steps until it is reached; it falls in a straight line to 0 at the end.
        seed: of the numbers to start from, and of the batches.
    """

    steps: int = 900
    size: int = 64
    rate: float = 2e-3
    warmup: int = 400
    seed: int = 0

    def rates(self) -> npt.NDArray[np.float32]:
        """The learning rate of each step."""
        step = np.arange(1, self.steps + 1)
        up, down = step / self.warmup, (self.steps + 1 - step) / max(self.steps + 1 - self.warmup, 1)
        return (self.rate * np.minimum(up, down)).astype(np.float32)


RECIPES = {"dates": Recipe(), "copy": Recipe(), "reverse": Recipe(), "addition": Recipe(steps=1500, size=128)}


def model_of(task: Task, position: Encoding | None) -> Transformer:
    """The Transformer that learns the tasks: 64 wide, four heads, two blocks on each side."""
    return Transformer(vocabulary=task.vocabulary, max_len=task.max_len, position=position)


def trainer(backend: str, model: Transformer, recipe: Recipe) -> Trainer:
    """The framework's trainer, with the numbers that all frameworks start from."""
    made: Trainer = import_module(f"posenc_backends.training.{backend}").Trainer(
        partial(loss, model), model.initial(seed=recipe.seed), model.constants(), recipe.rates()
    )
    return made


def steps(trainer: Trainer, task: Task, recipe: Recipe) -> Iterator[float]:
    """Train; the loss of each step."""
    for step in range(recipe.steps):
        yield trainer.step(*task.batch(recipe.size, seed=(recipe.seed, step)))


def exact_match(trainer: Trainer, model: Transformer, task: Task, *, size: int = TEST, seed: int = 0) -> float:
    """The share of held-out questions that greedy decoding answers without a mistake.

    One pass finds out: where each token of the answer is the likeliest after those before it, greedy decoding writes
    this answer, and where one is not, another.
    """
    right, answered = 0, partial(answer, model)
    for portion in range(size // PORTION):
        source, target = task.batch(PORTION, seed=(seed, portion), split="test")
        logits = trainer.run(answered, source, target)
        right += int(((logits.argmax(-1) == target) | (target == 0)).all(axis=-1).sum())
    return right / (size // PORTION * PORTION)
