"""The command `posenc same`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from posenc_core.analysis.same import compare_rope

from ..output import write_text
from ..parser import CANNOT_RUN, Help

HELP = Help(
    "same",
    help="compare the RoPE of two configs, and name the key that differs",
    description="Compare the RoPE of two configs, and name the key that differs.",
    examples=(
        "posenc same config.json params.json --any-layout",
        "posenc same before/config.json after/config.json --json difference.json",
    ),
    statuses={0: "they describe the same rotation", 1: "they do not", 2: CANNOT_RUN},
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("a", type=Path, metavar="A", help="a config, or its folder, in any format that load_rope reads")
    parser.add_argument("b", type=Path, metavar="B", help="another config")
    parser.add_argument("--layer-type", metavar="TYPE", help="only these layers, such as full_attention")
    parser.add_argument("--part", metavar="PART", help="only this part, such as vision, indexer or mtp")
    parser.add_argument(
        "--any-layout",
        action="store_true",
        help="ignore which channels form a pair, where a format reorders the weights accordingly",
    )
    parser.add_argument(
        "--positions", type=int, metavar="N", help="how many to compare (default: the longest length in A or B)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="X",
        help="largest distance of rotated unit vectors that counts as equal (default: 0.001)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write it as JSON, with all pairs that differ")


def run(options: argparse.Namespace) -> int:
    """Compare the configs.

    Returns:
        The exit status: 0 if they describe the same rotation, 1 if they do not, 2 if they cannot be compared.
    """
    try:
        comparison = compare_rope(
            options.a,
            options.b,
            layer_type=options.layer_type,
            part=options.part,
            any_layout=options.any_layout,
            positions=options.positions,
            tolerance=options.tolerance,
        )
    except (ArithmeticError, LookupError, AttributeError) as error:  # status 1 of a traceback would mean: they differ
        print(f"posenc: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    if options.json is not None:
        text = json.dumps(asdict(comparison), indent=1, allow_nan=False, ensure_ascii=False, default=str)
        write_text(options.json, text + "\n")
    try:
        from .tables import show
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("rich"):
            raise
        print(comparison)  # noqa: T201
    else:
        show(comparison)
    return 0 if comparison.same else 1
