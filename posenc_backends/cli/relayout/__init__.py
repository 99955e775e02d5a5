"""The command `posenc relayout`."""

from __future__ import annotations

import argparse
from pathlib import Path

from posenc_core.rotation import LAYOUTS

from ..parser import Help

HELP = Help(
    "relayout",
    help="convert a checkpoint to another RoPE layout",
    description="Reorder the query and key weights of a checkpoint for another RoPE layout: GGUF files of llama.cpp "
    "and checkpoints of Meta have `interleaved`, those of Hugging Face `half`.",
    examples=(
        "posenc relayout old.safetensors new.safetensors --config . --to interleaved",
        "posenc relayout model.safetensors.index.json new --config . --to half",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("source", type=Path, metavar="IN", help="a safetensors file, or the index of several")
    parser.add_argument("target", type=Path, metavar="OUT", help="the file to write, or the folder for several")
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="CONFIG",
        help="the config.json, params.json or GGUF file of the model",
    )
    parser.add_argument("--to", choices=("half", "interleaved"), required=True, help="the new layout")
    parser.add_argument("--from", dest="layout", choices=LAYOUTS, help="the present layout (default: by CONFIG)")


def run(options: argparse.Namespace) -> int:
    """Write the new checkpoint and print how many tensors changed; return the exit status 0."""
    from .checkpoint import relayout_checkpoint

    relaid, copied = relayout_checkpoint(
        options.source, options.target, config=options.config, to=options.to, layout=options.layout
    )
    changes = f"{len(relaid)} tensors reordered, {len(copied)} copied"
    print(f"{options.target} rotates in layout {options.to!r}: {changes}.")  # noqa: T201
    return 0
