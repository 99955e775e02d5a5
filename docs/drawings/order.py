"""Pictures of the page on order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_core import Sinusoidal, attention_weights, causal, same_sequence, sequence_ids, valid_lengths


def weights(figure: Figure) -> None:
    """Weights of random words of width 8, used as queries and keys; right with `Sinusoidal(dim=8)` added.

    Attention weights of two sentences, dog bites man and man bites dog, as squares of three by three numbers.

    Without positions both have the same nine numbers, in other places; with positions added, the numbers differ.
    """
    words = 0.7 * np.random.default_rng(3).normal(size=(3, 8))
    names, table = ("dog", "bites", "man"), Sinusoidal(dim=8).table(range(3))
    figure.set_size_inches(7.5, 2.2)
    for number, panel in enumerate(figure.subplots(1, 4)):
        order = [0, 1, 2] if number % 2 == 0 else [2, 1, 0]
        tokens = words[order] + (table if number > 1 else 0)
        _square(panel, attention_weights(tokens, tokens), [names[place] for place in order])
        panel.set_title("without positions" if number < 2 else "with positions")


def masks(figure: Figure) -> None:
    """Six queries and six keys: what `valid_lengths`, `causal` and `same_sequence` let through.

    Three masks of six queries and six keys, where dark squares are seen.

    Valid lengths: the first four keys, for each query. Causal: a triangle, no key after its query. Packed: two
    sentences in one row, each a square of its own.
    """
    places, ids = np.arange(6), sequence_ids([0, 4, 6])
    shown = {
        "valid length 4": np.broadcast_to(valid_lengths(np.array([4]), places)[0, 0], (6, 6)),
        "causal": causal(places, places),
        "two sentences, packed": same_sequence(ids, ids),
    }
    figure.set_size_inches(7, 2.4)
    for panel, (title, mask) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        panel.imshow(mask, cmap="Blues", vmin=-0.15, vmax=1.4)
        panel.set(title=title, xlabel="key", xticks=places, yticks=places)
    figure.axes[0].set_ylabel("query")


def _square(panel: Axes, numbers: Any, names: Sequence[str]) -> None:
    panel.imshow(numbers, cmap="Blues", vmin=0, vmax=1)
    panel.set_xticks(range(3), names)
    panel.set_yticks(range(3), names, rotation=90, va="center")
    for (row, column), number in np.ndenumerate(numbers):
        shade = "white" if number > 0.6 else "black"
        panel.text(column, row, f"{number:.2f}", ha="center", va="center", color=shade)
