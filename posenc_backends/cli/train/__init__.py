"""The command `posenc train`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from posenc_backends import NAMES

from ..modules import read_encoding
from ..parser import CANNOT_RUN, Help

TASKS = ("dates", "copy", "reverse", "addition")
BACKENDS = (*NAMES, "tensorflow")


HELP = Help(
    "train",
    help="train the Transformer of the tutorial on a synthetic task",
    description="Train the Transformer of the tutorial on a synthetic task.",
    examples=(
        "posenc train dates --backend torch",
        'posenc train reverse --backend jax --position "Alibi(num_heads=4)"',
    ),
    statuses={0: "it reaches its target", 1: "it misses its target", 2: CANNOT_RUN},
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("task", metavar="TASK", choices=TASKS, help=f"one of {', '.join(TASKS)}")
    parser.add_argument(
        "--backend", required=True, choices=BACKENDS, metavar="NAME", help=f"one of {', '.join(BACKENDS)}"
    )
    parser.add_argument(
        "--position",
        default="Sinusoidal(dim=64)",
        metavar="ENCODING",
        help="an encoding, or none (default: %(default)s)",
    )
    parser.add_argument("--steps", type=int, metavar="N", help="number of steps (default: enough for the task)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of weights and batches (default: 0)")
    parser.add_argument(
        "--target", type=float, default=0.99, metavar="SHARE", help="share of exact answers to reach (default: 0.99)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the losses to this file")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the attention of the decoder: a PNG, SVG or PDF file"
    )


def run(options: argparse.Namespace) -> int:
    """Train; return the exit status: 0 if the target is reached, 1 if not."""
    if not 0 <= options.target <= 1:
        raise ValueError(f"`--target` must be a share from 0 to 1, got {options.target:g}.")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a second thread does not pay for matrices this small
    from .progress import recipe_of, train

    exact = train(
        options.task,
        options.backend,
        None if options.position == "none" else read_encoding(options.position),
        recipe_of(options.task, steps=options.steps, seed=options.seed),
        path=options.json,
        picture=options.picture,
    )
    return 0 if exact >= options.target else 1
