"""A picture of attention: where a decoder looks in a question while it writes the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_attention(weights: npt.NDArray[np.float32], question: str, answer: str) -> Figure:
    """A heat map for each head: answer from top to bottom, question from left to right.

    Args:
        weights: attention weights, shape `(heads, answer, question)`.
        question, answer: a character for each column and row.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        ValueError: if there are not as many characters as columns and rows.
        ImportError: if matplotlib is not installed.
    """
    check_rank("weights", weights, minimum=3, maximum=3, axes="(heads, answer, question)")
    if weights.shape[1:] != (len(answer), len(question)):
        raise ValueError(f"`weights` must have shape (heads, {len(answer)}, {len(question)}), got {weights.shape}.")
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError('`matplotlib` is not installed; run `pip install "posenc[plots]"`.') from error
    figure = Figure(figsize=(2 + 0.2 * len(question), (0.3 + 0.22 * len(answer)) * len(weights)), layout="constrained")
    for head, panel in enumerate(figure.subplots(len(weights), 1, sharex=True, squeeze=False)[:, 0]):
        image = panel.imshow(weights[head], cmap="viridis", vmin=0, vmax=1, aspect="auto")
        panel.set_yticks(range(len(answer)), answer)
        panel.set_xticks(range(len(question)), question)
        panel.tick_params(length=0, labelbottom=True, labelsize="small")
        panel.set_ylabel(f"head {head + 1}")
    figure.colorbar(image, ax=figure.axes, label="share of the attention", fraction=0.03)
    return figure
