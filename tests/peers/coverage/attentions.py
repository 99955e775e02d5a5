"""Attentions: how the models of transformers turn queries by the tables of their rotary embeddings."""

import ast
import inspect
import re
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import torch

ROTATION = re.compile(r"apply_.*(rot|rope)")
LAYOUTS = (  # of queries (batch, heads, length, width), there and back
    (lambda x: x, lambda x: x),
    (lambda x: x.transpose(1, 2), lambda x: x.transpose(1, 2)),
    (lambda x: x[0].transpose(0, 1), lambda x: x.transpose(0, 1)[None]),
)


class Call(NamedTuple):
    """A call of a function that rotates, in a class.

    Attributes:
        owner: the name of the class.
        config: the annotation of the config that the class takes.
        function: the name of the function.
        before: the name of a function that the queries pass first, or None.
    """

    owner: str
    config: str
    function: str
    before: str | None


def rotation_of(module, part, config):
    """Return a function from queries, tables and positions to rotated queries, for each form that it takes."""
    method = next((one for one in vars(module).values() if hasattr(one, "_apply_rotary_embedding")), None)
    if method:
        return lambda x, tables, positions: [_by_method(method, x, tables)]
    found = _calls(inspect.getsource(module))
    mine = [call for call in found if call.config == type(config).__name__] or found
    mine = [call for call in mine if "Index" not in call.owner] or mine
    interleave = [call for call in mine if call.function.endswith("_interleave")]
    if interleave and getattr(config, "rope_interleave", True):
        mine = interleave
    elif interleave:
        mine = [call for call in mine if call not in interleave]
    call = mine[0]
    function, before = getattr(module, call.function), getattr(module, call.before or "", lambda x: x)
    return lambda x, tables, positions: list(_turns(function, before(x), tables, positions))


class Owner(NamedTuple):
    """A class in the source of a module, and the annotation of the config that it takes."""

    node: ast.ClassDef
    config: str


@cache
def _owners(source):
    """Return the classes of a module."""
    found = []
    for owner in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        arguments = [arg for node in owner.body if getattr(node, "name", "") == "__init__" for arg in node.args.args]
        configs = [ast.unparse(arg.annotation) for arg in arguments if arg.annotation and "Config" in ast.unparse(arg)]
        found.append(Owner(owner, next(iter(configs), "")))
    return found


def _calls(source):
    """Return the calls in the classes of a module, those of attentions first."""
    functions = set(re.findall(r"^def (\w+)", source, re.MULTILINE))
    found = []
    for owner in _owners(source):
        for node in ast.walk(owner.node):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and ROTATION.search(node.func.id):
                inner = next((arg for arg in node.args if isinstance(arg, ast.Call)), None)
                before = getattr(getattr(inner, "func", None), "id", None)
                before = before if before in functions else None
                found.append(Call(owner.node.name, owner.config, node.func.id, before))
    return sorted(found, key=lambda call: "Attention" not in call.owner)


def builders_of(source, name):
    """Return the annotations of the configs of the classes that build the class of this name."""
    for owner in _owners(source):
        calls = [node.func for node in ast.walk(owner.node) if isinstance(node, ast.Call)]
        if name in [call.id for call in calls if isinstance(call, ast.Name)]:
            yield owner.config


def _turns(function, x, tables, positions):
    """Yield the rotated queries for each form that the function takes; of a part of them if it takes no more."""
    width = (tables[0] if isinstance(tables, tuple) else tables).shape[-1]
    for there, back in LAYOUTS:
        for channels in dict.fromkeys((x.shape[-1], min(width, x.shape[-1]))):
            try:
                after = back(_call(function, there(x[..., :channels]), tables, positions))
            except Exception:  # noqa: BLE001, S112  # not the form that it takes
                continue
            if after.shape[:-1] == x.shape[:-1]:
                yield torch.cat([after, x[..., channels:]], -1)


def _call(function, x, tables, positions):
    """Return what the function makes of queries; a table that is real and no pair is one of angles."""
    if not isinstance(tables, tuple):
        tables = tables if tables.is_complex() else (tables.cos()[0], tables.sin()[0])
    cos, sin = tables if isinstance(tables, tuple) else (tables, tables)
    values = {"cos": cos, "sin": sin, "freqs_cis": tables, "freqs_ci": tables, "position_ids": positions}
    given = {}
    for name, one in inspect.signature(function).parameters.items():
        if name in values or (one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD):
            given[name] = values.get(name, x)
    after = function(**given)
    return after[0] if isinstance(after, tuple) else after


def _by_method(owner, x, tables):
    """Return queries rotated by a method that speech models have, of hidden states before they are projected."""
    batch, heads, length, width = x.shape
    hidden = x.transpose(1, 2).reshape(batch, length, heads * width)
    after = owner._apply_rotary_embedding(SimpleNamespace(num_heads=heads, head_size=width), hidden, tables)
    return after.reshape(batch, length, heads, width).transpose(1, 2)
