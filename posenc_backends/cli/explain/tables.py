"""Explain the positional encodings of a config: RoPE in tables, JSON and a picture, others in a line each.

Of one encoding: what it needs, and the pairs if it rotates.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posenc_core.analysis.explain import Layers, Regime, is_explained
from posenc_core.analysis.explain import explain as explain_config
from posenc_core.analysis.pairs import Pair
from posenc_core.encodings import Encoding
from posenc_core.huggingface import PositionEncodings, load_position
from posenc_core.huggingface.config import TEXTS, contents, is_foreign

from ..output import replace_file, write_text

MAX_ROWS = 18  # of the table of pairs
ROWS = 60  # of the tables whose shapes are printed
REMARK = (
    "float32: positions, frequencies and angles are rounded to float32, the best that models usually do; bfloat16: the "
    "same in bfloat16. Errors are differences from the exact cosine and sine, times the attention factor. An exact "
    "table that is rounded to bfloat16 at the end is off by at most 0.002 (2⁻⁹) at every position, for entries below 1."
)


def explain(
    config: Path, *, layer_type: str | None = None, picture: Path | None = None, path: Path | None = None
) -> None:
    """Print the positional encodings of a config; write its RoPE to `path` as JSON and draw it to `picture`.

    Args:
        config: a `config.json`, or its folder.
        layer_type: the layers to explain; all by default.
        picture: a PNG, SVG or PDF file.
        path: a JSON file.
    Raises:
        ImportError: if matplotlib is needed and not installed.
        OSError: if a file cannot be read or written.
        TypeError, ValueError: if the config is not supported.
    """
    content = contents(config)
    by_hand = content.get("model_type") is None and not is_foreign(content)  # which can be about RoPE alone
    position = PositionEncodings() if by_hand else load_position(config)
    is_rope = by_hand or layer_type is not None or _rotates(position)
    layers = explain_config(config, layer_type=layer_type) if is_rope else (Layers(layer_type=None),)
    _write(layers, str(config), picture, path)
    console = Console(highlight=False)
    by_axes = not is_rope and any(encoding is not None for _, encoding in position.rotary)
    if not by_axes:
        _print(console, layers)
    if by_axes or replace(position, rotary=()) != PositionEncodings():
        console.rule("[bold]all positional encodings", align="left")
        console.print(str(position), markup=False)


def explain_encoding(encoding: Encoding, *, picture: Path | None = None, path: Path | None = None) -> None:
    """Print what an encoding needs, and its pairs if it has a table of them, which go to `path` and `picture` too.

    Raises:
        ImportError, OSError: as in `explain`.
        ValueError: if a file is asked for, and the encoding is not RoPE on one axis.
    """
    layers = explain_config(encoding) if is_explained(encoding) else ()
    if not layers and (picture or path):
        raise ValueError(f"`--output` and `--json` are for RoPE on one axis, got {encoding}; use `posenc plot`.")
    _write(layers, str(encoding), picture, path)
    console = Console(highlight=False)
    console.rule(f"[bold]{escape(str(encoding))}", align="left")
    console.print(_grid(_arrays(encoding)))
    _print(console, layers)


def _write(layers: tuple[Layers, ...], title: str, picture: Path | None, path: Path | None) -> None:
    if picture is not None:
        from posenc_core.analysis.plots import plot_explanation

        figure = plot_explanation(layers, title=title)
        with replace_file(picture) as drawn:
            figure.savefig(drawn)
    if path is not None:
        text = json.dumps([asdict(group) for group in layers], indent=1, allow_nan=False, ensure_ascii=False)
        write_text(path, text + "\n")


def _arrays(encoding: Encoding) -> Iterator[tuple[str, str]]:
    """Yield name and value of what a layer with an encoding is and holds."""
    yield "layer", "MultiHeadAttention" if encoding.needs_attention else encoding.layer_name
    axes = "one axis" if encoding.num_axes == 1 else f"{encoding.num_axes} axes"
    yield "positions", f"{'coordinates on ' if encoding.uses_coordinates else ''}{axes}"
    if encoding.uses_content:
        yield "content", "its term of a score depends on queries or keys"
    constants = {name: table.shape for name, table in encoding.constants(ROWS).items()}
    yield f"for {ROWS} positions", ", ".join(f"{name} {shape}" for name, shape in constants.items()) or "no table"
    parameters = encoding.parameters().items()
    yield "parameters", ", ".join(f"{name} {parameter.shape}" for name, parameter in parameters) or "none"


def _rotates(position: PositionEncodings) -> bool:
    """Return whether the text model has RoPE."""
    if any(rotary is not None and not rotary.needs_positions for _, rotary in position.rotary):
        return True
    return any(_rotates(part) for name, part in position.parts if f"{name}_config" in TEXTS)


def _print(console: Console, layers: tuple[Layers, ...]) -> None:
    for group in layers:
        console.rule(f"[bold]{escape(group.name)}", align="left")
        console.print(_grid(_properties(group)))
        if len(group.regimes) != 1:
            console.print()
        for regime in group.regimes:
            if len(group.regimes) > 1:
                console.print(f"[bold]sequences: {regime.lengths}")
            properties = _grid(_properties_at_length(regime))
            console.print(properties, "", _pairs(group, regime), "", _losses(regime), "", sep="\n")
    if any(group.regimes for group in layers):
        console.print(REMARK, style="dim")


def _grid(properties: Iterator[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=16)
    table.add_column(overflow="fold")
    for name, value in properties:
        table.add_row(name, escape(value))
    return table


def _properties(layers: Layers) -> Iterator[tuple[str, str]]:
    """Yield name and value of what holds at all lengths."""
    if layers.kind is None:
        yield "kind", "none: queries and keys are not rotated"
        return
    yield "kind", layers.kind + (", rotated in the opposite direction" if layers.direction == "inverse" else "")
    source = f"from `{layers.layout_from}`" if layers.layout_from else "assumed, the config does not name it"
    yield "layout", f"{layers.layout}: {source}"
    yield "head", f"{layers.head_dim} channels, {_rotating_channels(layers)}"
    axes = Counter(pair.axis for pair in layers.regimes[0].pairs if pair.axis)
    if axes:
        yield "axes", ", ".join(f"{count} pairs rotate by {axis}" for axis, count in axes.items())
    if layers.base is not None:
        yield "base", f"{layers.base:,.10g}"
    yield "scaling", _shorten(layers.scaling or "")
    lengths = ((layers.original_length, "originally"), (layers.longest_length, "at most"))
    yield "lengths", ", ".join(f"{length:,} {which}" for length, which in lengths if length) or "not given"
    if layers.chunk_size is not None:
        chunks = f"chunks of {layers.chunk_size - (layers.local_size or 0):,} positions"
        yield "distances", f"at most {layers.chunk_size:,}, by {chunks}; {layers.local_size:,} before a chunk are kept"
    factor = layers.softmax_factor
    yield "softmax factor", "1" if factor == 1 else f"{factor:.6g}: multiplies the softmax scale"


def _properties_at_length(regime: Regime) -> Iterator[tuple[str, str]]:
    """Yield name and value of what depends on the length."""
    if regime.attention_factor == 1:
        yield "attention factor", "1"
    else:
        growth = f"scores of rotated channels grow by its square, {regime.score_factor:.6g}"
        yield "attention factor", f"{regime.attention_factor:.6g}: {growth}"
    yield "frequencies", regime.slowing


def _rotating_channels(layers: Layers) -> str:
    if layers.rotary_dim == layers.head_dim:
        return "all rotate"
    which = {"lead": "the first", "trail": "the last", "spread": "the first pairs of the whole head"}
    return f"{layers.rotary_dim} rotate: {which[layers.placement or 'lead']}"


def _shorten(scaling: str) -> str:
    """Return the text without the middle of long lists of numbers."""
    return re.sub(
        r"\(([-\d.e]+), [-\d.e, ]+, ([-\d.e]+)\)",
        lambda ends: "({:.4g}, …, {:.4g})".format(*map(float, ends.groups())),
        scaling,
    )


def _pairs(layers: Layers, regime: Regime) -> Table:
    """Return a table of some pairs that rotate, evenly spaced, with the first and the last."""
    rotating = [pair for pair in regime.pairs if pair.frequency]
    first, count, lengths = regime.pairs[0], len(rotating), (layers.original_length, layers.longest_length)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("pair", justify="right")
    table.add_column("channels", justify="right")
    if first.axis is not None:
        table.add_column("axis")
    for name in ("radians per position", "wavelength", "divided by"):
        table.add_column(name, justify="right")
    for length, turns in zip(lengths, (first.turns_in_original, first.turns_in_longest), strict=True):
        if turns is not None:
            table.add_column(f"turns in {length:,}", justify="right")
    rows = min(count, MAX_ROWS)
    for row in range(rows):
        table.add_row(*_cells(rotating[round(row * (count - 1) / max(rows - 1, 1))]))
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
    for bound, _ in regime.losses[0].first_off:
        table.add_column(f"off by {bound:g} from", justify="right")
    for loss in regime.losses:
        never = f"never up to {loss.searched:,}"
        cells = [never if first is None else f"position {first:,}" for _, first in loss.first_off]
        table.add_row(loss.arithmetic, *cells)
    return table
