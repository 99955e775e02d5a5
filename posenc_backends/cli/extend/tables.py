"""Tables in the terminal of a plan for a longer context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from posenc_core.analysis.engines import EngineLines
from posenc_core.analysis.extension import Plan

REMARK = (
    "unseen: pairs that meet angles beyond those of training, where they made less than one turn. changes: in "
    "sequences of so many positions, how far the cosine and sine of a pair move, and after the semicolon, by how much "
    "the attention logit of one of 64 random queries and keys changes; such logits have a standard deviation of 1."
)
PER_REQUEST = (
    "The server computes these tables once, and each request keeps the smallest factor that covers its prompt and "
    "answer. Keys in one cache have the factor of their request: a prefix is shared only between requests with the "
    "same one. vLLM has this as an open pull request, `--request-static-yarn-factors`: "
    "https://github.com/vllm-project/vllm/pull/53964"
)


def show(plan: Plan, lines: Sequence[EngineLines], name: str | None) -> None:
    """Print a plan, and what to write for one scaling, by default the recommended one."""
    console = Console(highlight=False)
    growth = f"{plan.to / plan.trained_length:.4g}"
    console.print(f"[bold]{plan.to:,} positions[/], trained on {plan.trained_length:,}: {growth} times", "", sep="\n")
    console.print(_options(plan), "", sep="\n")
    best = plan.extension()
    console.print(
        _grid(
            (
                ("recommended", f"{best.name}: {plan.reason}"),
                ("source", best.source),
                ("table", f"{plan.table_bytes / 2**20:,.4g} MiB of cosine and sine in float32"),
                *((f"{one.name}", one.frequencies) for one in plan.extensions[1:]),
                *((f"not {kind}", reason) for kind, reason in plan.impossible),
            )
        )
    )
    if plan.profiles:
        console.print("", _profiles(plan), "", PER_REQUEST, sep="\n")
    for one in lines:
        console.print()
        console.rule(f"[bold]{one.engine}, {name or best.name}", align="left")
        _print_lines(console, one)
    console.print("", f"[dim]{REMARK}", sep="\n")


def _options(plan: Plan) -> Table:
    lengths = [change.length for change in plan.extensions[0].changes]
    headings = ("scaling", "factor", "cos, sin ×", "unseen", *(f"changes\n{length:,}" for length in lengths))
    rows = (
        (
            one.name,
            f"{one.factor:.6g}",
            f"{one.attention_factor:.4g}",
            str(one.unseen),
            *(f"{change.rotation:.2g}; {change.logit:.2g}" for change in one.changes),
        )
        for one in plan.extensions
    )
    return _table(headings, rows)


def _profiles(plan: Plan) -> Table:
    headings = ("factor", "requests up to", "cos, sin ×", "table")
    rows = (
        (
            f"{one.factor:g}",
            f"{one.longest:,}",
            f"{one.rotary.attention_factor:.4g}",
            f"{one.table_bytes / 2**20:.4g} MiB",
        )
        for one in plan.profiles
    )
    return _table(headings, rows)


def _table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "scaling" else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _grid(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _print_lines(console: Console, lines: EngineLines) -> None:
    if lines.text is None:
        console.print(f"not possible: {lines.reason}", markup=False)
    else:
        removed = f", without {', '.join(lines.remove)}" if lines.remove else ""
        console.print(f"{lines.place}{removed}:", style="dim")
        console.print(lines.text, markup=False, soft_wrap=True)  # one line stays one line, to be copied
    for fact, source in lines.facts:
        console.print(f"• {fact} {source}", markup=False, style="dim")


def as_json(plan: Plan, lines: Sequence[EngineLines]) -> str:
    """Return a plan as JSON, with the lines for engines."""
    content = {name: value for name, value in vars(plan).items() if name != "content"} | {"lines": lines}

    def plain(value: object) -> object:
        return value.to_dict() if hasattr(value, "to_dict") else vars(value)

    return json.dumps(content, default=plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
