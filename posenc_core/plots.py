"""Pictures of an encoding: its table as a heat map, columns as curves, rows as points, rows against the middle one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._checks import check_integer
from .encodings import Additive, Alibi, Encoding, Learned, Rotary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot(encoding: Encoding, *, length: int = 60) -> Figure:
    """A figure of the first `length` positions of an encoding.

    Args:
        encoding: an additive or rotary encoding with a fixed table, or `Alibi`.
        length: number of positions; no more are drawn than the encoding has.
    Returns:
        A matplotlib figure; `savefig` writes it.
    Raises:
        TypeError: if the encoding has no fixed table.
        ValueError: if `length` is not positive.
        ImportError: if matplotlib is not installed.
    """
    check_integer("length", length)
    if isinstance(encoding, Additive):
        length = min(length, encoding.limit)
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError('matplotlib is not installed; run `pip install "posenc[plots]"`.') from error
    figure = Figure(figsize=(11, 8), layout="constrained")
    figure.suptitle(repr(encoding))
    panels = figure.subplots(2, 2).ravel()
    if isinstance(encoding, Alibi):
        _plot_bias(panels, encoding, length)
    else:
        _plot_table(panels, _rows(encoding, length))
    return figure


def _rows(encoding: Encoding, length: int) -> npt.NDArray[np.float32]:
    """The table of an encoding; of a rotary one, the pairs (1, 0) turned, which are (cos, sin)."""
    positions = np.arange(length)
    if isinstance(encoding, Rotary):
        cos, sin = encoding.cos_sin(positions)
        return np.stack([cos, sin], axis=-1).reshape(length, -1)
    if not isinstance(encoding, Additive) or isinstance(encoding, Learned):
        raise TypeError(f"`encoding` must have a fixed table to draw, got {encoding!r}.")
    return encoding.table(positions)


def _plot_table(panels: Any, rows: npt.NDArray[np.float32]) -> None:
    heat, curves, points, products = panels
    _heat_map(heat, rows, "column", "position")
    for column in _spread(rows.shape[1], 4):
        curves.plot(rows[:, column], label=f"column {column}")
    curves.set(title="columns", xlabel="position", ylabel="value")
    curves.legend(loc="upper right")
    across = rows[:, 1] if rows.shape[1] > 1 else np.zeros(len(rows))
    points.plot(rows[:, 0], across, "o-", linewidth=0.5, alpha=0.6)
    for position in range(min(len(rows), 12)):
        points.annotate(str(position), (rows[position, 0], across[position]))
    points.set_aspect("equal", adjustable="datalim")
    points.set(title="rows, in the plane of the first two columns", xlabel="column 0", ylabel="column 1")
    products.plot(rows @ rows[len(rows) // 2])
    products.axvline(len(rows) // 2, color="gray", linewidth=0.5)
    products.set(title=f"dot product with row {len(rows) // 2}", xlabel="position", ylabel="dot product")


def _plot_bias(panels: Any, encoding: Alibi, length: int) -> None:
    heat, curves, slopes, middle = panels
    bias = encoding.bias(np.arange(length), np.arange(length))
    _heat_map(heat, bias[0], "key", "query")
    heat.set_title("bias of head 0")
    for head in _spread(encoding.num_heads, 4):
        curves.plot(bias[head, -1, ::-1], label=f"head {head}")
        middle.plot(bias[head, length // 2], label=f"head {head}")
    curves.set(title="bias by distance", xlabel="distance", ylabel="bias")
    curves.legend(loc="lower left")
    slopes.semilogy(encoding.constants(1)["slopes"], "o-")
    slopes.set(title="slopes", xlabel="head", ylabel="slope")
    middle.set(title=f"bias of query {length // 2}", xlabel="key", ylabel="bias")


def _heat_map(axes: Axes, values: npt.NDArray[np.float32], across: str, down: str) -> None:
    image = axes.imshow(values, aspect="auto", interpolation="nearest", cmap="viridis")
    axes.set(title="table", xlabel=across, ylabel=down)
    axes.figure.colorbar(image, ax=axes)


def _spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` numbers below `count`, evenly spread from 0 on."""
    return list(range(0, count, -(-count // wanted)))
