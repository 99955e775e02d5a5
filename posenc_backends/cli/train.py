"""Training in the terminal: a progress bar, what comes out as a line, JSON, a picture."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from posenc_core._array_api.checks import check_integer
from posenc_core.encodings import Encoding
from posenc_core.transformer.config import Transformer
from posenc_core.transformer.model import cross_attention_weights
from posenc_core.transformer.tasks import TASKS, Task

from ..training import RECIPES, TEST, Recipe, Trainer, exact_match, model_of, steps, trainer

EVERY = 10  # steps between two losses shown
SHOWN = "the 21st of November 2026"


class Outputs(NamedTuple):
    """Files to write.

    Attributes:
        json: the recipe, the losses, how well it went.
        picture: where the decoder looks.
    """

    json: Path | None = None
    picture: Path | None = None


def train(
    name: str, backend: str, position: Encoding | None, recipe: Recipe, *, target: float, outputs: Outputs
) -> int:
    """Train a Transformer in a framework, and tell how many held-out questions it answers.

    Args:
        name: the task, a key of `TASKS`.
        backend: the framework.
        position: the encoding.
        recipe: how to train.
        target: the share of questions that it must answer without a mistake.
        outputs: files to write.
    Returns:
        The exit status: 0 if the target is met, else 1.
    Raises:
        ImportError, OSError, TypeError, ValueError: if something is missing, or cannot be honoured.
    """
    _check_picture(name, outputs.picture)
    for path in outputs:
        if path is not None:
            path.touch()  # tell of a mistake before the training
    task, console = TASKS[name](), Console(highlight=False)
    model = model_of(task, position)
    began, made = time.monotonic(), trainer(backend, model, recipe)
    losses = _losses(made, task, recipe, console)
    exact, seconds = exact_match(made, model, task), time.monotonic() - began
    console.print(
        f"{name} in {backend}, {position or 'no position'}: {exact:.2%} of {TEST} held-out questions exactly, "
        f"loss {np.mean(losses[-EVERY:]):.4f}, {recipe.steps} steps, {seconds:.0f} s.",
        soft_wrap=True,
    )
    if outputs.json is not None:
        _write(outputs.json, task=name, backend=backend, model=model.to_dict(), recipe=vars(recipe), seconds=seconds,
               exact_match=exact, losses=losses)  # fmt: skip
    if outputs.picture is not None:
        _draw(outputs.picture, made, model, task)
    return 0 if exact >= target else 1


def recipe_of(name: str, *, steps: int | None, seed: int) -> Recipe:
    """The recipe of a task, with another number of steps if one is given.

    Raises:
        ValueError: if there are no steps, or `seed` is negative.
    """
    recipe = RECIPES[name]
    steps = recipe.steps if steps is None else steps
    check_integer("steps", steps)
    check_integer("seed", seed, minimum=0)
    return replace(recipe, steps=steps, seed=seed)


def _check_picture(name: str, picture: Path | None) -> None:
    if picture is not None and name != "dates":
        raise ValueError(f"`--picture` draws a date, so the task must be dates, got {name}.")


def _losses(trainer: Trainer, task: Task, recipe: Recipe, console: Console) -> list[float]:
    """The loss of each step, and a progress bar meanwhile."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    losses: list[float] = []
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(task.name, total=recipe.steps)
        for loss in steps(trainer, task, recipe):
            losses.append(loss)
            if len(losses) % EVERY == 0:
                progress.update(bar, completed=len(losses), description=f"{task.name}: loss {loss:.3f}")
    return losses


def _write(path: Path, **told: Any) -> None:
    path.write_text(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _draw(path: Path, trainer: Trainer, model: Transformer, task: Task) -> None:
    """Where the last block of the decoder looks in a date while it writes it."""
    from posenc_core.analysis.plots import plot_attention

    source = np.array([task.tokens(SHOWN)], np.int32)
    answer = "2026-11-21"
    target = np.array([task.tokens(answer)], np.int32)
    looks = trainer.run(lambda weights, *both: cross_attention_weights(model, weights, *both)[-1], source, target)
    plot_attention(looks[0], SHOWN.replace(" ", "␣"), answer).savefig(path)
