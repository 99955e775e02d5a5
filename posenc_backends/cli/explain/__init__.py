"""The command `posenc explain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..parser import Help

HELP = Help(
    "explain",
    help="describe the positional encodings of a config, a GGUF file or more",
    description="Print the positional encoding of a model: each pair's wavelength, the scaling, and lengths.",
    examples=(
        "posenc explain config.json",
        "posenc explain Llama-3.1-8B/ -o pairs.png",
        "posenc explain model.gguf --json rope.json",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "config", type=Path, metavar="CONFIG", help="a config.json or its folder, a GGUF file or a params.json"
    )
    parser.add_argument("--layer-type", metavar="TYPE", help="only these layers, such as full_attention")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also draw its RoPE: a PNG, SVG or PDF file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write its RoPE as JSON, with all pairs")


def run(options: argparse.Namespace) -> int:
    """Explain the config; return the exit status 0."""
    from .tables import explain

    explain(options.config, layer_type=options.layer_type, picture=options.output, path=options.json)
    return 0
