"""The command `posenc golden`: write the numbers of the conformance suite for programs without Python."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..parser import Help
from .publish import publish

__all__ = ["HELP", "add_arguments", "publish", "run"]


HELP = Help(
    "golden",
    help="write golden numbers for programs without Python",
    description="Write numbers computed at 50 digits, for tests of programs in any language.",
    examples=("posenc golden -o golden", "posenc golden -o golden --onnx"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write to")
    parser.add_argument("--onnx", action="store_true", help="also write models and data for tests of ONNX runtimes")


def run(options: argparse.Namespace) -> int:
    """Write the files and print the number of cases, and each file on the error stream; return the exit status 0."""
    if options.onnx:
        try:
            from .onnx_models import write_onnx
        except ModuleNotFoundError as error:
            raise ImportError(f"`{error.name}` is not installed; run `pip install onnx`.") from error
    count = publish(options.output, lambda name: print(name, file=sys.stderr, flush=True))  # noqa: T201
    print(f"{options.output} holds {count} cases; README.md in it describes them.")  # noqa: T201
    if options.onnx:
        print(f"{write_onnx(options.output / 'onnx')} models for ONNX stand in its folder `onnx`.")  # noqa: T201
    return 0
