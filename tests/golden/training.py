"""Compute `training.json`: the losses of the first training steps in float64, which every framework follows.

    python tests/golden/training.py           # in an environment with PyTorch
    python tests/golden/training.py --check   # exits with 1 if a loss changes by more than 1e-9

Apart from `generate.py`, as it needs a framework for the derivatives: PyTorch computes all of it in float64, which the
attention of JAX does not.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from posenc_backends.training import Recipe, model_of, steps
from posenc_backends.training.torch import Trainer
from posenc_core.encodings.notation import parse
from posenc_core.transformer.model import loss
from posenc_core.transformer.tasks import TASKS

FILE = Path(__file__).with_suffix(".json")
STEPS = 100
POSITIONS = {"dates": "Sinusoidal(dim=64)", "reverse": "Rotary(head_dim=16, layout='half')"}


def curve(name: str) -> dict[str, object]:
    """Return the losses of a task with nine decimals."""
    task, recipe = TASKS[name](), Recipe()
    model = model_of(task, parse(POSITIONS[name]))
    wide = (
        {key: array.astype(np.float64) for key, array in arrays.items()}
        for arrays in (model.initial(seed=0), model.constants())
    )
    trainer = Trainer(partial(loss, model), *wide, recipe.rates())
    losses = list(islice(steps(trainer, task, recipe), STEPS))
    return {"task": name, "position": POSITIONS[name], "losses": [round(value, 9) for value in losses]}


def main(check: bool) -> int:
    """Write the file, or compare it; return the exit status."""
    curves = [curve(name) for name in POSITIONS]
    if check:
        before = json.loads(FILE.read_text(encoding="utf-8"))
        return int(
            any(np.abs(np.subtract(a["losses"], b["losses"])).max() > 1e-9 for a, b in zip(curves, before, strict=True))
        )
    FILE.write_text("[\n" + ",\n".join(map(json.dumps, curves)) + "\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
