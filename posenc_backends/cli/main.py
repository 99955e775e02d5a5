"""The command `posenc`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_backends.cli.parser import Parser
from posenc_core import __version__
from posenc_core.rotation import LAYOUTS

TASKS = ("dates", "copy", "reverse", "addition")
TRAINING = ("torch", "tensorflow", "paddle", "mxnet", "jax", "keras")

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0, 1 if a report has failures or a training misses its target, 2 if the command cannot run,
    130 if it is interrupted; `posenc check` has its own.
    """
    options = _parser().parse_args(arguments)
    try:
        with _telling_warnings():
            status: int = options.run(options)
    except (ImportError, OSError, TypeError, ValueError) as error:
        print(f"posenc: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("posenc: interrupted.", file=sys.stderr)  # noqa: T201
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="posenc", description="Positional encodings, computed once, in every framework.")
    parser.add_argument("--version", action="version", version=f"posenc {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="test every encoding in every installed framework")
    report.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    report.add_argument("--html", type=Path, metavar="FILE", help="and there as a page: sortable, with pictures")
    report.add_argument("--modes", action="store_true", help="compile, export, save, … every encoding, too: minutes")
    report.set_defaults(run=_report)
    plot = commands.add_parser("plot", help="draw an encoding")
    plot.add_argument("encoding", metavar="ENCODING", help="for example 'Sinusoidal(dim=32)'")
    plot.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="PNG, SVG or PDF")
    plot.add_argument("--length", type=int, default=60, help="number of positions (60)")
    plot.set_defaults(run=_plot)
    _add_explain(commands)
    _add_explore(commands)
    _add_relayout(commands)
    _add_train(commands)
    _add_check(commands)
    golden = commands.add_parser("golden", help="write golden vectors for programs without Python")
    golden.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write to")
    golden.set_defaults(run=_golden)
    return parser


def _add_explain(commands: Commands) -> None:
    explain = commands.add_parser("explain", help="tell which rotation a Hugging Face config describes")
    explain.add_argument("config", type=Path, metavar="CONFIG", help="a config.json, or its folder")
    explain.add_argument("--layer-type", metavar="TYPE", help="only these layers, such as full_attention")
    explain.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw it, too: PNG, SVG or PDF")
    explain.add_argument("--json", type=Path, metavar="FILE", help="write it there, too, with all pairs")
    explain.set_defaults(run=_explain)


def _add_explore(commands: Commands) -> None:
    explore = commands.add_parser("explore", help="look at encodings in the browser")
    explore.add_argument("--host", default="127.0.0.1", metavar="HOST", help="the address to listen at (127.0.0.1)")
    explore.add_argument("--port", type=int, default=8050, metavar="N", help="the port, 0 for a free one (8050)")
    explore.add_argument("--no-browser", action="store_true", help="only tell the address")
    explore.set_defaults(run=_explore)


def _add_relayout(commands: Commands) -> None:
    relayout = commands.add_parser("relayout", help="write a checkpoint for another layout")
    relayout.add_argument("source", type=Path, metavar="IN", help="a safetensors file, or the index of several")
    relayout.add_argument("target", type=Path, metavar="OUT", help="the file to write, or the folder of several")
    relayout.add_argument("--config", type=Path, required=True, metavar="CONFIG", help="its config.json")
    relayout.add_argument("--to", choices=("half", "interleaved"), required=True, help="the layout to rotate in")
    relayout.add_argument("--from", dest="layout", choices=LAYOUTS, help="the layout now (that of its model_type)")
    relayout.set_defaults(run=_relayout)


def _add_train(commands: Commands) -> None:
    train = commands.add_parser("train", help="train the Transformer of the texts on a made-up task")
    train.add_argument("task", metavar="TASK", choices=TASKS, help=f"one of {', '.join(TASKS)}")
    train.add_argument(
        "--backend", required=True, choices=TRAINING, metavar="NAME", help=f"one of {', '.join(TRAINING)}"
    )
    train.add_argument("--position", default="Sinusoidal(dim=64)", metavar="ENCODING", help="an encoding, or none")
    train.add_argument("--steps", type=int, metavar="N", help="number of steps (as the task needs)")
    train.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and batches (0)")
    train.add_argument(
        "--target", type=float, default=0.99, metavar="SHARE", help="of exact answers, below which to fail"
    )
    train.add_argument("--json", type=Path, metavar="FILE", help="write the losses there")
    train.add_argument("--picture", type=Path, metavar="FILE", help="draw where the decoder looks: PNG, SVG or PDF")
    train.set_defaults(run=_train)


def _add_check(commands: Commands) -> None:
    check = commands.add_parser("check", help="tell whether a function computes an encoding, or which mistake it makes")
    check.add_argument("function", metavar="MODULE:FUNCTION", help="(q, k, positions) -> (q, k), or another form")
    check.add_argument("--spec", metavar="ENCODING", help="\"Rotary(head_dim=64, layout='half')\", or another")
    check.add_argument("--config", type=Path, metavar="CONFIG", help="a config.json that tells it, or its folder")
    check.add_argument("--layer-type", metavar="TYPE", help="of a config, these layers")
    check.add_argument("--framework", metavar="NAME", help="whose arrays it takes (those that its module imports)")
    check.add_argument("--form", metavar="FORM", help="rotation, turn, table, addition or bias (as its arguments tell)")
    check.add_argument("--longest", type=int, metavar="N", help="the first position that it is not asked for (2**20)")
    check.add_argument(
        "--takes",
        metavar="NAMES",
        help="what it must take: of bfloat16,float16,negative,real (it may refuse the first two)",
    )
    check.add_argument("--no-gradient", action="store_true", help="do not look at its gradient")
    check.add_argument("--json", type=Path, metavar="FILE", help="write the verdict there, too")
    check.set_defaults(run=_check)
    check.status = 3


def _report(options: argparse.Namespace) -> int:
    with _naming_what_draws():
        from posenc_backends.cli.report.run import report

        return report(options.json, html=options.html, modes=options.modes)


def _plot(options: argparse.Namespace) -> int:
    from posenc_core.analysis.plots import plot
    from posenc_core.encodings.notation import parse

    plot(parse(options.encoding), length=options.length).savefig(options.output)
    return 0


def _explain(options: argparse.Namespace) -> int:
    with _naming_what_draws():
        from posenc_backends.cli.explain import explain
    return explain(options.config, layer_type=options.layer_type, picture=options.output, path=options.json)


def _explore(options: argparse.Namespace) -> int:
    from posenc_backends.cli.explorer import explore

    return explore(host=options.host, port=options.port, browser=not options.no_browser)


def _relayout(options: argparse.Namespace) -> int:
    from posenc_backends.cli.relayout.checkpoint import relayout_checkpoint

    relaid, copied = relayout_checkpoint(
        options.source, options.target, config=options.config, to=options.to, layout=options.layout
    )
    print(  # noqa: T201
        f"{options.target} rotates in layout {options.to!r}: {len(relaid)} tensors re-laid, {len(copied)} copied."
    )
    return 0


def _train(options: argparse.Namespace) -> int:
    from posenc_core.encodings.notation import parse

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # matrices so small are not worth a second thread
    with _naming_what_draws():
        from posenc_backends.cli.train import Outputs, recipe_of, train
    position = None if options.position == "none" else parse(options.position)
    return train(
        options.task,
        options.backend,
        position,
        recipe_of(options.task, steps=options.steps, seed=options.seed),
        target=options.target,
        outputs=Outputs(options.json, options.picture),
    )


def _check(options: argparse.Namespace) -> int:
    from posenc_backends.check.command import run

    return run(
        options.function,
        spec=options.spec,
        config=options.config,
        layer_type=options.layer_type,
        path=options.json,
        framework=options.framework,
        form=options.form,
        longest=options.longest,
        takes=None if options.takes is None else tuple(filter(None, options.takes.split(","))),
        gradient=not options.no_gradient,
    )


def _golden(options: argparse.Namespace) -> int:
    from posenc_backends.cli.golden import publish

    print(f"{options.output} holds {publish(options.output)} cases; golden.json tells what they are.")  # noqa: T201
    return 0


@contextmanager
def _naming_what_draws() -> Iterator[None]:
    """Say how to install what draws, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = {"rich": "report", "jinja2": "report", "matplotlib": "plots"}.get(error.name or "")
        if extra is None:
            raise
        raise ImportError(f'`{error.name}` is not installed; run `pip install "posenc[{extra}]"`.') from error


@contextmanager
def _telling_warnings() -> Iterator[None]:
    """Print each warning once, in a line."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            print(f"posenc: {message}", file=sys.stderr)  # noqa: T201
        told.add(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield
