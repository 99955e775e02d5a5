"""The command `posenc check`."""

from __future__ import annotations

import argparse
import inspect
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_backends.check import DEFAULT, check
from posenc_backends.check.diagnosis import name_indexer
from posenc_backends.check.precision_classes import CLASSES, ROUNDED
from posenc_backends.check.program import INPUTS, Program, default_form
from posenc_backends.check.result import IMPOSSIBLE, CheckResult
from posenc_core.encodings import Encoding, QKNorm
from posenc_core.encodings.notation import parse

from .fit import fit_screen
from .modules import load_module, read_encoding
from .output import write_text
from .parser import Help

if TYPE_CHECKING:
    from posenc_backends.check.cache import CacheResult
    from posenc_backends.check.model import ModelResult

HELP = Help(
    "check",
    help="check whether a function computes an encoding, or name its mistake",
    description="Check whether a function or a program computes an encoding.",
    examples=(
        "posenc check mine:rope --spec \"Rotary(head_dim=64, layout='half')\"",
        'posenc check mine:rope --config config.json --allow "float32 angles"',
        "posenc check --model mine:model --config config.json",
        "posenc check --cache mine:Decoder",
        "posenc check --exec ./mine --spec \"Rotary(head_dim=64, layout='half')\"",
    ),
    statuses={0: "it conforms", 1: "it does not", 2: "it failed", IMPOSSIBLE: "the check could not run"},
)

OF_FUNCTIONS: dict[str, Any] = {  # options of functions and programs alone, and their defaults
    **dict.fromkeys(("function", "program", "form", "qk_norm", "longest", "takes", "parameters")),
    **dict.fromkeys(("layer_type", "layer", "part")),
    "raw": False,
    "no_gradient": False,
    "allow": ROUNDED,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "function",
        nargs="?",
        metavar="MODULE:FUNCTION",
        help="a function (q, k, positions) -> (q, k), or of another --form",
    )
    parser.add_argument(
        "--exec", metavar="COMMAND", dest="program", help="a program in place of a function: files in, files out"
    )
    parser.add_argument(
        "--model", metavar="MODULE:MODEL", help="a whole model in place of a function, or one that a function returns"
    )
    parser.add_argument(
        "--cache", metavar="MODULE:DECODER", help="a decoder with a KV cache in place of a function, or its class"
    )
    parser.add_argument("--raw", action="store_true", help="give the program arrays by its standard input")
    parser.add_argument(
        "--spec",
        metavar="ENCODING",
        help='the encoding, such as "Rotary(head_dim=64, layout=\'half\')", or of your own "mine:Window(num_heads=8)"',
    )
    parser.add_argument(
        "--config", type=Path, metavar="CONFIG", help="or a config.json that describes it, or its folder"
    )
    parser.add_argument("--layer-type", metavar="TYPE", help="the layers of the config")
    parser.add_argument("--layer", type=int, metavar="INDEX", help="or one of its layers, from 0")
    parser.add_argument("--part", metavar="PART", help="the part of the config, such as indexer")
    parser.add_argument("--framework", metavar="NAME", help="whose arrays it takes (default: as its module imports)")
    parser.add_argument(
        "--form",
        metavar="FORM",
        help=f"one of {', '.join(INPUTS)} (default: by the encoding and the number of arguments)",
    )
    parser.add_argument("--qk-norm", metavar="NORM", help='a norm of queries and keys, such as "QKNorm(head_dim=64)"')
    parser.add_argument("--longest", type=int, metavar="N", help="the first position not to test (default: 2**20)")
    parser.add_argument(
        "--takes",
        metavar="NAMES",
        help="inputs that it must accept, among bfloat16,float16,negative,real (default: it may refuse the first two)",
    )
    parser.add_argument(
        "--allow",
        metavar="CLASS",
        default=ROUNDED,
        help=f"the lowest class of precision that conforms, of {', '.join(CLASSES[:-1])} (default: {ROUNDED})",
    )
    parser.add_argument(
        "--parameters", type=Path, metavar="FILE", help="for an encoding that learns: its arrays, a file of numpy.savez"
    )
    parser.add_argument("--no-gradient", action="store_true", help="do not check the gradient")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all that was found, not only ten lines")


def run(options: argparse.Namespace) -> int:
    """Check the function, print the result, and write it to `--json`.

    Returns:
        The exit status: 0 if the function conforms, 1 if it does not, 2 if it failed, 3 if the check could not run.
    """
    try:
        if options.json is not None and not options.json.parent.is_dir():
            raise FileNotFoundError(f"`--json` must be in a folder that exists, got {options.json}.")
        name, result = _check(options)
        if options.json is not None:
            content = result.to_dict() | {"function": name}
            text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
            write_text(options.json, text + "\n")
        first, *others = result.entries
        print(fit_screen([f"{name} {first}", *others], verbose=options.verbose), flush=True)  # noqa: T201
    except Exception as error:  # noqa: BLE001 - the status 1 of a traceback would mean that the function does not conform
        print(f"posenc: {_message(error)}", file=sys.stderr)  # noqa: T201
        return IMPOSSIBLE
    return result.status


def _check(options: argparse.Namespace) -> tuple[str, CheckResult | ModelResult | CacheResult]:
    """Return the name and the result of what is checked."""
    if options.model is not None:
        return _check_model(options)
    return _check_function(options) if options.cache is None else _check_cache(options)


def _check_function(options: argparse.Namespace) -> tuple[str, CheckResult]:
    """Return the name and the result of a function or a program."""
    encoding = _encoding(options)
    checked, name = _checked(options, encoding)
    result = check(
        checked,
        encoding,
        framework=options.framework,
        form=checked.form if isinstance(checked, Program) else options.form,
        qk_norm=None if options.qk_norm is None else cast("QKNorm", parse(options.qk_norm)),
        longest=options.longest,
        takes=None if options.takes is None else tuple(filter(None, options.takes.split(","))),
        gradient=not options.no_gradient,
        allow=options.allow,
        parameters=None if options.parameters is None else dict(np.load(options.parameters, allow_pickle=False)),
        progress=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
    )
    return name, _name_layout_of_attention(result, options.config) if options.part == "indexer" else result


def _first_option(options: argparse.Namespace, *others: str) -> str | None:
    """Return the first option that was given of those that only a function or a program uses, and of others."""
    used = OF_FUNCTIONS | dict.fromkeys(others)
    return next((name.replace("_", "-") for name, left in used.items() if getattr(options, name) != left), None)


def _check_model(options: argparse.Namespace) -> tuple[str, ModelResult]:
    """Return the name and the result of a model.

    Raises:
        ValueError: if options of a function are given.
    """
    from posenc_backends.check.model import check_model

    if name := _first_option(options, "cache", "framework"):
        raise ValueError(f"`--model` is checked as a whole, without `{name}`: leave it out.")
    model = _load_function(options.model)
    if inspect.isfunction(model):
        model = model()
    return options.model, check_model(
        model, options.config, spec=None if options.spec is None else read_encoding(options.spec)
    )


def _check_cache(options: argparse.Namespace) -> tuple[str, CacheResult]:
    """Return the name and the result of a decoder; a class or a function without `prefill` is called to make one.

    Raises:
        ValueError: if options of a function are given.
    """
    from posenc_backends.check.cache import check_cache

    if name := _first_option(options, "spec", "config"):
        raise ValueError(f"`--cache` needs no `{name}`: leave it out.")
    decoder: Any = _load_function(options.cache)
    if isinstance(decoder, type) or not hasattr(decoder, "prefill"):
        decoder = decoder()
    return options.cache, check_cache(decoder, framework=options.framework)


def _checked(options: argparse.Namespace, encoding: Encoding) -> tuple[Program | Callable[..., Any], str]:
    """Return the function or the program to check, and what to call it.

    Raises:
        FileNotFoundError: if there is no such program.
        ImportError: if the module of the function cannot be imported.
        ValueError: unless one of the two is given, with options that belong to it.
    """
    if (options.function is None) == (options.program is None):
        raise ValueError("one of `MODULE:FUNCTION`, `--exec`, `--model` and `--cache` must be given.")
    if options.program is None:
        if options.raw:
            raise ValueError("`--raw` belongs to `--exec`, the arrays of a function have no bytes to choose.")
        return _load_function(options.function), options.function
    if options.framework is not None:
        raise ValueError("`--framework` belongs to a function: a program reads and writes bytes.")
    try:
        command = tuple(shlex.split(options.program))
    except ValueError as error:
        raise ValueError(f"`--exec` must be a command as a shell takes it, got {options.program!r}: {error}.") from None
    if not command or shutil.which(command[0]) is None:
        raise FileNotFoundError(f"`--exec` must begin with a program that can be run, got {options.program!r}.")
    form = options.form or default_form(encoding)
    return Program(command=command, encoding=encoding, form=form, raw=options.raw), options.program


def _encoding(options: argparse.Namespace) -> Encoding:
    """Return the encoding of `--spec` or `--config`.

    Raises:
        ValueError: if both are given, or the layers of the config do not rotate.
    """
    spec, config = options.spec, options.config
    if spec is not None and config is not None:
        raise ValueError("`--spec` and `--config` both name the encoding: give one of them.")
    if config is None:
        return DEFAULT if spec is None else read_encoding(spec)
    from posenc_core.huggingface import load_layers, load_rope

    if options.layer is None:
        rotary = load_rope(config, layer_type=options.layer_type, part=options.part)
    else:
        layers = load_layers(config, part=options.part)
        if options.layer_type is not None or not 0 <= options.layer < len(layers):
            raise ValueError(f"`--layer` must be one of the {len(layers)} layers, without `--layer-type`.")
        rotary = layers[options.layer]
    if rotary is None:
        which = "the model" if options.layer is None else f"layer {options.layer}"
        raise ValueError(f"`--config` must describe RoPE, but {which} of {config} does not rotate queries and keys.")
    return rotary


def _name_layout_of_attention(result: CheckResult, config: Path) -> CheckResult:
    """Return the result of an indexer, in which a swapped layout that is the attention's has that name."""
    from posenc_core.huggingface.config import read
    from posenc_core.huggingface.load_layers import group_layers

    attention: Any = next(group.rotary for group in group_layers(read(config))[0] if group.rotary is not None)
    return replace(result, mistakes=tuple(name_indexer(result.mistakes, result.encoding, attention)))


def _load_function(target: str) -> Callable[..., Any]:
    """Import the function of this name.

    Raises:
        ImportError: if its module cannot be imported, or has no such attribute.
        ValueError: if the name has no colon.
    """
    name, colon, attribute = target.rpartition(":")
    if not (name and colon and attribute):
        raise ValueError(f"`target` must be written like 'package.module:function', got {target!r}.")
    try:
        function: Callable[..., Any] = reduce(getattr, attribute.split("."), load_module(name))
    except AttributeError as error:
        raise ImportError(f"`{name}` has no `{attribute}`: {error}.") from error
    return function


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text and isinstance(error, ImportError | OSError | TypeError | ValueError) else f"{error!r}"
