"""What a config says of positions: tables in the terminal, JSON, a picture."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posenc_core.analysis.explain import Layers, Regime
from posenc_core.analysis.explain import explain as explained
from posenc_core.analysis.pairs import Pair

ROWS = 18  # of the table of pairs, at most
REMARK = (
    "float32: positions, frequencies and their product, the angle, are rounded to float32, as models compute them at "
    "best; bfloat16: the same in bfloat16. Compared with the exact cosine and sine, times the attention factor. An "
    "exact table rounded to bfloat16 in the end is off by at most 0.002 (2⁻⁹) where it is below 1, at every position."
)


def explain(
    config: Path, *, layer_type: str | None = None, picture: Path | None = None, path: Path | None = None
) -> int:
    """Explain a config in the terminal, and write the same to `path` as JSON and to `picture` as a picture.

    Args:
        config: a `config.json`, or its folder.
        layer_type: the layers to explain; all by default.
        picture: a PNG, SVG or PDF.
        path: a file of JSON.
    Returns:
        The exit status.
    Raises:
        ImportError, OSError, TypeError, ValueError: if the config cannot be honoured, or a file not be written.
    """
    layers = explained(config, layer_type=layer_type)
    if picture is not None:
        from posenc_core.analysis.plots import plot_explanation

        plot_explanation(layers, title=str(config)).savefig(picture)
    if path is not None:
        told = json.dumps([asdict(each) for each in layers], indent=1, allow_nan=False, ensure_ascii=False)
        path.write_text(told + "\n", encoding="utf-8")
    _print(Console(highlight=False), layers)
    return 0


def _print(console: Console, layers: tuple[Layers, ...]) -> None:
    for each in layers:
        console.rule(f"[bold]{escape(each.layer_type or 'all layers')}", align="left")
        console.print(_grid(_told(each)))
        if len(each.regimes) != 1:
            console.print()
        for regime in each.regimes:
            if len(each.regimes) > 1:
                console.print(f"[bold]sequences: {regime.lengths}")
            console.print(_grid(_told_of(regime)), "", _pairs(each, regime), "", _losses(regime), "", sep="\n")
    if any(each.regimes for each in layers):
        console.print(REMARK, style="dim")


def _grid(told: Iterator[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=16)
    table.add_column(overflow="fold")
    for name, value in told:
        table.add_row(name, escape(value))
    return table


def _told(layers: Layers) -> Iterator[tuple[str, str]]:
    """What holds at all lengths."""
    if layers.kind is None:
        yield "kind", "none: queries and keys are not turned"
        return
    yield "kind", layers.kind + (", turned the other way round" if layers.direction == "inverse" else "")
    known = f"known by `{layers.layout_from}`" if layers.layout_from else "assumed, the config does not tell"
    yield "layout", f"{layers.layout}: {known}"
    yield "head", f"{layers.head_dim} channels, {_turning(layers)}"
    axes = Counter(pair.axis for pair in layers.regimes[0].pairs if pair.axis)
    if axes:
        yield "axes", ", ".join(f"{count} pairs turn by {axis}" for axis, count in axes.items())
    yield "base", f"{layers.base:,.10g}"
    yield "scaling", _shortened(layers.scaling or "")
    lengths = ((layers.original_length, "originally"), (layers.longest_length, "at most"))
    yield "lengths", ", ".join(f"{length:,} {which}" for length, which in lengths if length) or "not said"
    if layers.softmax_factor != 1:
        yield "softmax factor", f"{layers.softmax_factor:.6g}: the softmax scale is multiplied by it"
    else:
        yield "softmax factor", "1"


def _told_of(regime: Regime) -> Iterator[tuple[str, str]]:
    """What depends on the length."""
    if regime.attention_factor == 1:
        yield "attention factor", "1"
    else:
        grow = f"scores of channels that turn grow by its square, {regime.score_factor:.6g}"
        yield "attention factor", f"{regime.attention_factor:.6g}: {grow}"
    yield "slowing", regime.slowing


def _turning(layers: Layers) -> str:
    if layers.rotary_dim == layers.head_dim:
        return "all of which turn"
    which = {"lead": "the first", "trail": "the last", "spread": "the first pairs of the whole head"}
    return f"of which {layers.rotary_dim} turn: {which[layers.placement or 'lead']}"


def _shortened(scaling: str) -> str:
    """Without the middle of long lists of numbers."""
    return re.sub(
        r"\(([-\d.e]+), [-\d.e, ]+, ([-\d.e]+)\)",
        lambda ends: "({:.4g}, …, {:.4g})".format(*map(float, ends.groups())),
        scaling,
    )


def _pairs(layers: Layers, regime: Regime) -> Table:
    """Some of the pairs that turn, evenly spread, the first and the last among them."""
    turning = [pair for pair in regime.pairs if pair.frequency]
    first, count, lengths = regime.pairs[0], len(turning), (layers.original_length, layers.longest_length)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("pair", justify="right")
    table.add_column("channels", justify="right")
    if first.axis is not None:
        table.add_column("axis")
    for name in ("radians per position", "positions per turn", "slowed by"):
        table.add_column(name, justify="right")
    for length, turns in zip(lengths, (first.turns_in_original, first.turns_in_longest), strict=True):
        if turns is not None:
            table.add_column(f"turns in {length:,}", justify="right")
    rows = min(count, ROWS)
    for row in range(rows):
        table.add_row(*_cells(turning[round(row * (count - 1) / max(rows - 1, 1))]))
    return table


def _cells(pair: Pair) -> Iterator[str]:
    yield str(pair.index)
    yield "{}, {}".format(*pair.channels)
    if pair.axis is not None:
        yield pair.axis
    yield f"{pair.frequency:.4g}"
    yield _number(pair.wavelength)
    yield _number(pair.slowed_by)
    for turns in (pair.turns_in_original, pair.turns_in_longest):
        if turns is not None:
            yield _number(turns)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _losses(regime: Regime) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("tables computed in")
    for by, _ in regime.losses[0].first_off:
        table.add_column(f"off by {by:g} from", justify="right")
    for loss in regime.losses:
        never = f"never up to {loss.searched:,}"
        cells = [never if at is None else f"position {at:,}" for _, at in loss.first_off]
        table.add_row(loss.arithmetic, *cells)
    return table
