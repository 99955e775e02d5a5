"""The layers as each framework has them, read from the source of its adapter: no framework is imported."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import NamedTuple

import posenc_backends
from posenc_core import layers

FOLDER = Path(posenc_backends.__file__).parent
CALLS = ("forward", "call", "__call__")
METHODS = {
    "PositionalEncoding": "add",
    "RotaryEmbedding": "rotate",
    "AttentionBias": "add",
    "QueryScaling": "scale",
    "MultiHeadAttention": "attend",
}
MORE = {
    "PositionalEncoding": ("rows",),
    "RotaryEmbedding": ("cos_sin",),
    "AttentionBias": ("bias",),
    "QueryScaling": ("rows",),
}
NATIVE = re.compile(r"^ *native: .*(\n {5,}\S.*)*\n?", re.MULTILINE)  # the argument that stands for the framework's own


class Documented(NamedTuple):
    """A class or function: its name, signature and docstring."""

    name: str
    signature: Signature
    text: str


def layer(framework: str, name: str) -> tuple[Documented, Documented]:
    """Return the class of a layer, and its call, with the framework's own arguments in the place of `**native`."""
    core = getattr(layers, name)
    method = getattr(core, METHODS[name])
    family = "Module" if name == "MultiHeadAttention" else "Layer"
    made = Documented(name, inspect.signature(core), inspect.getdoc(core).partition("\n>>>")[0])
    called = Documented(_name_of_call(framework), inspect.signature(method), inspect.getdoc(method))
    return _native(made, framework, family, "__init__"), _native(called, framework, "Module", "active_dropout")


def methods(name: str) -> list[Documented]:
    """Return the other methods of a layer, which are the core's in every framework."""
    found = [(method, getattr(getattr(layers, name), method)) for method in MORE.get(name, ())]
    return [
        Documented(method, Signature(_untyped(list(inspect.signature(each).parameters.values()))), inspect.getdoc(each))
        for method, each in found
    ]


def function(framework: str, name: str) -> Documented:
    """Return a function or a class that a module exports: `torch`, or one within it, `torch.huggingface`."""
    for node in _tree(framework, "__init__").body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            (found,) = (part for part in _tree(framework, node.module).body if getattr(part, "name", None) == name)
            made = next((part for part in found.body if getattr(part, "name", None) == "__init__"), found)
            given = [one for one in _parameters(made) if one.name != "self"]
            return Documented(name, Signature(given), ast.get_docstring(found) or "")
    raise ValueError(f"posenc_backends.{framework} exports no {name}.")


def _name_of_call(framework: str) -> str:
    """Return the method by which the layers of a framework are called."""
    (node,) = (node for node in _tree(framework, "layers").body if getattr(node, "name", None) == "RotaryEmbedding")
    assigned = [target for part in node.body if isinstance(part, ast.Assign) for target in part.targets]
    assigned += [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
    return next(target.id for target in assigned if isinstance(target, ast.Name) and target.id in CALLS)


def _native(documented: Documented, framework: str, family: str, method: str) -> Documented:
    """Return it with the arguments of a framework's method in the place of `**native`."""
    given = [one for one in documented.signature.parameters.values() if one.name != "unknown"]  # what a call refuses
    if not given or all(one.name != "native" for one in given):
        return documented._replace(signature=Signature(_untyped(given)))
    owner, own = _own(framework, family, method)
    known = {one.name for one in given} | {"encoding", "max_len"}
    parameters = [one for one in _untyped(given) if one.name not in ("native", "self")]
    parameters += [one for one in own if one.name not in known]
    described = _arguments(owner)
    text = NATIVE.sub(lambda _: described, documented.text + "\n")
    return Documented(documented.name, Signature(parameters), text)


def _own(framework: str, family: str, method: str) -> tuple[str, list[Parameter]]:
    """Return the docstring and the parameters of a method of the adapter's base classes, the layer's before others."""
    classes = {node.name: node for node in _tree(framework, "base").body if isinstance(node, ast.ClassDef)}
    bases = [classes[name] for name in (family, "Module", "Block") if name in classes]
    found = [
        (base, node)
        for base in bases
        for node in base.body
        if isinstance(node, ast.FunctionDef) and node.name == method
    ]
    if not found:
        return "", []
    of_class = next((text for base in bases if "Args:" in (text := ast.get_docstring(base) or "")), "")
    text = of_class if method == "__init__" else ast.get_docstring(found[0][1]) or ""
    return text, [one for one in _parameters(found[0][1]) if one.name != "self"]


def _arguments(text: str) -> str:
    """Return the lines of a docstring that describe arguments."""
    _, _, rest = text.partition("Args:\n")
    lines = []
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return "".join(f"{line}\n" for line in lines if line)


def _untyped(parameters: list[Parameter]) -> list[Parameter]:
    """Return parameters without their types: docstrings give shapes, which types do not."""
    return [one.replace(annotation=Parameter.empty) for one in parameters if one.name != "self"]


def _parameters(node: ast.FunctionDef) -> list[Parameter]:
    """Return the parameters of a function in a source."""
    arguments = node.args
    alone, usual = arguments.posonlyargs, arguments.args
    first = [Parameter.empty] * (len(alone + usual) - len(arguments.defaults))
    defaults = [*first, *map(_Source, arguments.defaults)]
    kinds = [Parameter.POSITIONAL_ONLY] * len(alone) + [Parameter.POSITIONAL_OR_KEYWORD] * len(usual)
    found = [Parameter(a.arg, k, default=d) for a, k, d in zip(alone + usual, kinds, defaults, strict=True)]
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        shown = Parameter.empty if default is None else _Source(default)
        found.append(Parameter(argument.arg, Parameter.KEYWORD_ONLY, default=shown))
    if arguments.kwarg:
        found.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


class _Source:
    """A default, as the source writes it."""

    def __init__(self, node: ast.expr) -> None:
        self.text = ast.unparse(node)

    def __repr__(self) -> str:
        return self.text


@cache
def _tree(framework: str, module: str) -> ast.Module:
    return ast.parse(
        (FOLDER / f"{framework}.{module}".replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
    )
