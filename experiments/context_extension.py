"""Extend the context of a trained Transformer four times, and measure it by position before and after fine-tuning.

    python experiments/context_extension.py [--steps N] [--tuning N] [-o RESULTS.json]

The model and the task `recall` are those of `length_extrapolation.py`, the extensions those that `plan_extension`
finds. One model is trained on sequences of 20 tokens, and tested on sequences of 80: the share of correct answers among
the tokens 0 to 19, 20 to 39 and so on. Since the model is causal, the first column is what short contexts lose. Each
extension is tested with the trained weights, and after a few steps on sequences of 80 tokens. Takes a minute or two of
one core. Needs `pip install ".[jax,plots,report]"`.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import jax
import numpy as np
from length_extrapolation import LENGTHS, TESTED, TRAINED, Weights, compiled, constants_of, model_of, recall, train

from posenc_core import Rotary
from posenc_core.analysis import plan_extension
from posenc_core.huggingface import to_config

LONGEST, TUNED = max(LENGTHS), ("as it is", "Linear", "YaRN")


def by_position(rotary: Rotary, weights: Weights) -> list[float]:
    """Return the share of correct answers in each quarter of long sequences."""
    examples = recall(np.random.RandomState(LONGEST), TESTED, LONGEST)
    at = rotary.at(LONGEST)
    logits = compiled(model_of(at))(weights, constants_of(at, LONGEST), examples.tokens)
    correct = (np.argmax(logits[0], axis=-1) == examples.answers) * examples.counts
    shares = correct.reshape(TESTED, -1, TRAINED).sum((0, 2)) / examples.counts.reshape(TESTED, -1, TRAINED).sum((0, 2))
    return [round(float(share), 4) for share in shares]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--tuning", type=int, default=100)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parent / "results" / "context_extension.json")
    options = parser.parse_args()
    plain = Rotary(head_dim=16, layout="half", max_len=TRAINED)
    weights = train(model_of(plain), recall, 1, options.steps, "training")
    found = []
    for one in plan_extension(to_config(plain), to=LONGEST).extensions:
        row = {"scaling": one.name, "factor": one.factor, "trained": by_position(one.rotary, weights)}
        if one.name in TUNED:
            model = model_of(one.rotary)
            tuned = train(model, recall, 1, options.tuning, one.name, longest=LONGEST, weights=weights)
            row["tuned"] = by_position(one.rotary, tuned)
        found.append(row)
    record = {
        "command": f"python experiments/context_extension.py --steps {options.steps} --tuning {options.tuning}",
        "versions": {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__},
        "trained": TRAINED,
        "tested": LONGEST,
        "results": found,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
