"""Tables in the terminal of what two configs have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posenc_core.analysis.causes import Cause
from posenc_core.analysis.differences import Difference, PairDifference
from posenc_core.analysis.same import Comparison, SameLayers

MAX_ROWS = 10  # of the table of pairs
REMARK = (
    "Off by more than x: the distance between a unit vector rotated by A and by B; half a unit of bfloat16 is 0.00195, "
    "for entries from ½ to 1. Frequencies are exact; nothing is rounded."
)


def show(comparison: Comparison) -> None:
    """Print a comparison of two configs."""
    console = Console(highlight=False)
    verdict = "the same rotation" if comparison.same else "different rotations"
    console.print(f"[bold]{verdict}[/] at the positions 0 … {comparison.positions - 1:,}")
    console.print(_grid([("A", comparison.a), ("B", comparison.b)]), "", sep="\n")
    for layers in comparison.layers:
        console.rule(f"[bold]{escape(layers.name)}", align="left")
        console.print(_grid(_lines(layers)))
        if layers.causes:
            console.print("", _causes(layers.causes), sep="\n")
        if layers.worst is not None and not layers.same:
            _print_difference(console, layers.worst)
        console.print()
    if not comparison.same:
        console.print(REMARK, style="dim")


def _print_difference(console: Console, difference: Difference) -> None:
    if difference.properties:
        console.print("", _properties(difference), sep="\n")
    if pairs := [
        pair for pair in difference.pairs if pair.frequency_a != pair.frequency_b or pair.axis_a != pair.axis_b
    ]:
        console.print("", _pairs(difference, pairs), sep="\n")


def _grid(rows: Any) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, escape(value))
    return table


def _lines(layers: SameLayers) -> Iterator[tuple[str, str]]:
    yield "verdict", layers.verdict
    for bound, position in layers.first_off:
        where = "never" if position is None else f"from position {position:,} on"
        yield f"off by {bound:.3g}", where
    for remark in layers.remarks:
        yield "remark", remark


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _causes(causes: tuple[Cause, ...]) -> Table:
    table = _table("key that differs", "A", "B")
    for cause in causes:
        table.add_row(
            escape(cause.key), _cell(cause.a, cause.a_from, cause.key), _cell(cause.b, cause.b_from, cause.key)
        )
    return table


def _cell(value: Any, origin: str | None, key: str) -> str:
    where = "not in the config" if origin is None else f"from {origin}"
    shown = escape(_text(value))
    return shown if origin == key else f"{shown} [dim]({escape(where)})[/]"


def _text(value: Any) -> str:
    """Return a value without the middle of long lists."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"[{_text(value[0])}, …, {_text(value[-1])}]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.10g}"
    return "none" if value is None else str(value)


def _properties(difference: Difference) -> Table:
    table = _table("property", "A", "B")
    for one in difference.properties:
        table.add_row(one.name, escape(_text(one.a)), escape(_text(one.b)))
    return table


def _pairs(difference: Difference, pairs: list[PairDifference]) -> Table:
    """Return a table of some pairs that differ, evenly spaced, with the first and the last."""
    table = _table("pair")
    table.add_column("channels", no_wrap=True)
    for name in ("radians in A", "in B"):
        table.add_column(name)
    for bound, _ in difference.first_off:
        table.add_column(f"off by {bound:.3g}", justify="right")
    table.add_column(f"angle at {difference.positions - 1:,}", justify="right")
    table.add_column("farthest", justify="right")
    rows = min(len(pairs), MAX_ROWS)
    for row in range(rows):
        table.add_row(*_row(pairs[round(row * (len(pairs) - 1) / max(rows - 1, 1))]))
    return table


def _row(pair: PairDifference) -> Iterator[str]:
    yield str(pair.index)
    yield "{}, {}".format(*(pair.channels_a or pair.channels_b or ()))
    for frequency, axis in ((pair.frequency_a, pair.axis_a), (pair.frequency_b, pair.axis_b)):
        yield f"{frequency:.4g}" + (f" axis {axis}" if pair.axis_a != pair.axis_b else "")
    for _, position in pair.first_off:
        yield "never" if position is None else f"{position:,}"
    yield f"{pair.angle:.3g}"
    yield f"{pair.distance:.3g}"
