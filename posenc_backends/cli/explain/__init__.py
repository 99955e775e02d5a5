"""The command `posenc explain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..modules import ENCODING, read_encoding
from ..parser import Help

HELP = Help(
    "explain",
    help="describe the positional encodings of a config, a GGUF file or more, or an encoding",
    description="Print the encoding of a model: each pair's wavelength, the scaling, and lengths; or one of your own.",
    examples=(
        "posenc explain config.json",
        "posenc explain Llama-3.1-8B/ -o pairs.png",
        "posenc explain model.gguf --json rope.json",
        'posenc explain "mine:Window(num_heads=8)"',
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "config",
        metavar="CONFIG",
        help="a config.json or its folder, a GGUF file or a params.json, or an encoding such as 'Alibi(num_heads=8)'",
    )
    parser.add_argument("--layer-type", metavar="TYPE", help="only these layers, such as full_attention")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also draw its RoPE: a PNG, SVG or PDF file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write its RoPE as JSON, with all pairs")


def run(options: argparse.Namespace) -> int:
    """Explain the config or the encoding; return the exit status 0."""
    from .tables import explain, explain_encoding

    files = {"picture": options.output, "path": options.json}
    if Path(options.config).exists() or not ENCODING.fullmatch(options.config.strip()):
        explain(Path(options.config), layer_type=options.layer_type, **files)
    elif options.layer_type:
        raise ValueError(f"`--layer-type` belongs to a config, got {options.layer_type!r}.")
    else:
        explain_encoding(read_encoding(options.config), **files)
    return 0
