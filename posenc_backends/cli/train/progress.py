"""Train in the terminal: a progress bar, the result as a line, as JSON and as a picture."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from posenc_core._array_api.checks import check_integer
from posenc_core.encodings import Encoding
from posenc_core.transformer.config import Transformer
from posenc_core.transformer.model import cross_attention_weights
from posenc_core.transformer.tasks import TASKS, Task

from ...training import RECIPES, TEST_SIZE, Recipe, Trainer, exact_match, model_of, steps
from ...training import trainer as make_trainer
from ..output import replace_file, write_text

SHOW_EVERY = 10  # steps
EXAMPLE, EXAMPLE_ANSWER = "the 21st of November 2026", "2026-11-21"


def train(
    name: str, backend: str, position: Encoding | None, recipe: Recipe, *, path: Path | None, picture: Path | None
) -> float:
    """Train a Transformer and print the share of held-out questions that it answers exactly.

    Args:
        name: the task, a key of `TASKS`.
        backend: the framework.
        position: the encoding.
        recipe: how to train.
        path: a JSON file for the recipe, the losses and the result; for dates, also for the attention to an example.
        picture: a file for the attention of the decoder.
    Returns:
        That share.
    Raises:
        ImportError: if the framework is not installed.
        OSError: if a file cannot be written.
        TypeError, ValueError: if the encoding does not fit the model, or the task has no picture.
    """
    if picture is not None and name != "dates":
        raise ValueError(f"`--picture` draws a date, so the task must be dates, got {name}.")
    for file in filter(None, (path, picture)):
        file.touch()  # report a wrong path before the training
    task, console = TASKS[name](), Console(highlight=False)
    model = model_of(task, position)
    started, trainer = time.monotonic(), make_trainer(backend, model, recipe)
    losses = _train_with_progress(trainer, task, recipe)
    exact, seconds = exact_match(trainer, model, task), time.monotonic() - started
    console.print(
        f"{name} in {backend}, {position or 'no position'}: {exact:.2%} of {TEST_SIZE} held-out questions exactly, "
        f"loss {np.mean(losses[-SHOW_EVERY:]):.4f}, {recipe.steps} steps, {seconds:.0f} s.",
        soft_wrap=True,
    )
    weights = _attention(trainer, model, task) if name == "dates" and (path or picture) else None
    if path is not None:
        content: dict[str, Any] = {
            "task": name,
            "backend": backend,
            "model": model.to_dict(),
            "recipe": vars(recipe),
            "seconds": seconds,
            "exact_match": exact,
            "losses": losses,
        }
        if weights is not None:
            content["attention"] = weights.round(4).tolist()
        write_text(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    if picture is not None and weights is not None:
        from posenc_core.analysis.plots import plot_attention

        with replace_file(picture) as file:
            plot_attention(weights, EXAMPLE.replace(" ", "␣"), EXAMPLE_ANSWER).savefig(file)
    return exact


def recipe_of(name: str, *, steps: int | None, seed: int) -> Recipe:
    """Return the recipe of a task with this seed and, unless None, this number of steps.

    Raises:
        ValueError: if `steps` is below 1 or `seed` is negative.
    """
    recipe = RECIPES[name]
    steps = recipe.steps if steps is None else steps
    check_integer("steps", steps)
    check_integer("seed", seed, minimum=0)
    return replace(recipe, steps=steps, seed=seed)


def _train_with_progress(trainer: Trainer, task: Task, recipe: Recipe) -> list[float]:
    """Train and return the loss of each step; show a progress bar in a terminal meanwhile."""
    columns, console = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()), Console(stderr=True)
    losses: list[float] = []
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(task.name, total=recipe.steps)
        for loss in steps(trainer, task, recipe):
            losses.append(loss)
            if len(losses) % SHOW_EVERY == 0:
                progress.update(bar, completed=len(losses), description=f"{task.name}: loss {loss:.3f}")
    return losses


def _attention(trainer: Trainer, model: Transformer, task: Task) -> Any:
    """Return the weights of the last cross-attention while it writes a date: `(heads, answer, question)`."""
    source, target = (np.array([task.tokens(text)], np.int32) for text in (EXAMPLE, EXAMPLE_ANSWER))

    def attention(weights: Any, *batch: Any) -> Any:
        return cross_attention_weights(model, weights, *batch)[-1]

    return trainer.run(attention, source, target)[0]
