"""Pictures of the results of the experiment with longer sequences, seed by seed."""

import json
from pathlib import Path

from drawn import COLORS
from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[2] / "experiments" / "results" / "length_extrapolation.json"
SHOWN = ("sinusoidal", "learned", "rotary", "rotary, NTK", "rotary, Linear", "ALiBi", "KERPLE")
CHANCE = 1 / 15


def seeds(figure: Figure) -> None:
    """Accuracy of models trained on 20 tokens (dashed), three seeds each; the dotted line is chance, 1/15.

    Share of right answers against length, from 8 to 80 tokens, three thin lines for each encoding. In shift,
    sinusoidal and learned fall from all to chance just past the 20 tokens of training, rotary falls slowly to
    seven in ten, with NTK to more than eight; rotary with Linear is at chance everywhere, ALiBi and KERPLE near a
    quarter. In recall, KERPLE keeps nine in ten and ALiBi seven, rotary falls to two, with NTK to less than four,
    the added ones to chance.
    """
    figure.set_size_inches(7.5, 3.1)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, task in zip(panels, ("shift", "recall"), strict=True):
        for name, color in zip(SHOWN, COLORS, strict=True):
            (found,) = (one for one in results["results"] if (one["task"], one["encoding"]) == (task, name))
            lines = panel.plot(results["lengths"], found["accuracy"], color=color, lw=0.9)
            lines[0].set_label(name if task == "shift" else None)
        panel.axvline(results["trained"], color="gray", lw=0.8, ls="--")
        panel.axhline(CHANCE, color="gray", lw=0.8, ls=":")
        panel.set(title=task, xlabel="tokens", ylim=(0, 1.03))
    panels[0].set_ylabel("right answers")
    figure.legend(loc="outside right center")
