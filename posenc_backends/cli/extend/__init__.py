"""The command `posenc extend`."""

from __future__ import annotations

import argparse
from pathlib import Path

from posenc_core.analysis.engines import ENGINES

from ..output import replace_file, write_text
from ..parser import Help

NAMES = {engine.lower().replace(" ", "-"): engine for engine in ENGINES}
HELP = Help(
    "extend",
    help="plan a longer context: scalings, what they change, and the lines to write",
    description="Plan a longer context: which scalings are possible, what each changes, and the lines for each engine.",
    examples=(
        "posenc extend config.json --to 131072 --trained-length 32768",
        "posenc extend Llama-3.1-8B/ --to 1000000 --for vllm -o extend.png",
        "posenc extend config.json --to 1000000 --per-request 1 2 4",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="a config, in any format that load_rope reads")
    parser.add_argument("--to", type=int, required=True, metavar="LENGTH", help="the wanted length, in positions")
    parser.add_argument(
        "--trained-length",
        type=int,
        metavar="LENGTH",
        help="the longest sequence of training (default: what the config says)",
    )
    parser.add_argument("--layer-type", metavar="TYPE", help="the layers to extend (default: full_attention)")
    parser.add_argument("--scaling", metavar="NAME", help="the scaling to write, such as YaRN (default: the best)")
    parser.add_argument(
        "--for", dest="engines", nargs="+", choices=[*NAMES], metavar="ENGINE", help=f"only for: {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--per-request", type=float, nargs="+", default=(), metavar="FACTOR", help="factors to choose from by request"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also draw it: a PNG, SVG or PDF file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write it as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the plan; return the exit status 0."""
    from posenc_core.analysis.extension import plan_extension

    plan = plan_extension(
        options.config,
        to=options.to,
        trained_length=options.trained_length,
        layer_type=options.layer_type,
        per_request=tuple(options.per_request),
    )
    lines = [one for one in plan.lines(options.scaling) if one.engine in map(NAMES.get, options.engines or NAMES)]
    if options.output is not None:
        from posenc_core.analysis.plots import plot_extension

        with replace_file(options.output) as picture:
            plot_extension(plan, name=options.scaling, title=str(options.config)).savefig(picture)
    from .tables import as_json, show

    if options.json is not None:
        write_text(options.json, as_json(plan, lines))
    show(plan, lines, options.scaling)
    return 0
