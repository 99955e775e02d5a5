"""Directives of the reference: the layers of a framework, and functions of its module, without importing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from backends import METHODS, Documented, function, layer, methods
from docutils import nodes
from docutils.nodes import Node
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.docutils import SphinxDirective

from posenc_backends.cli.main import make_parser


class Layers(SphinxDirective):
    """The four layers of a framework: `.. layers:: torch`."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return each layer as a class with its call."""
        (framework,) = self.arguments
        lines = [line for name in METHODS for line in self._layer(framework, name)]
        return self.parse_text_to_nodes("\n".join(lines))

    def _layer(self, framework: str, name: str) -> Iterator[str]:
        made, called = layer(framework, name)
        yield from _described("class", f"posenc_backends.{framework}.{name}", made, self)
        inside = [line for each in (called, *methods(name)) for line in _described("method", each.name, each, self)]
        if name == "PositionalEncoding":
            inside += [
                ".. py:property:: P",
                "",
                "   The table, `(1, max_len, num_hiddens)`, to read, not to write.",
                "",
            ]
        yield from (f"   {line}" for line in inside)


class Functions(SphinxDirective):
    """Functions and classes that a module of a backend exports: `.. functions:: torch score_mod`."""

    required_arguments = 2
    final_argument_whitespace = True

    def run(self) -> list[Node]:
        """Return each function with its docstring."""
        framework, names = self.arguments
        found = [function(framework, name) for name in names.split()]
        lines = [
            line
            for each in found
            for line in _described(_kind(each.name), f"posenc_backends.{framework}.{each.name}", each, self)
        ]
        return self.parse_text_to_nodes("\n".join(lines))


class Commands(SphinxDirective):
    """The help of each subcommand of `posenc`: `.. commands::`."""

    def run(self) -> list[Node]:
        """Return a section for each, with its help as text."""
        return [
            nodes.section(
                "",
                nodes.title(text=f"posenc {name}"),
                nodes.literal_block(text=parser.format_help(), language="text"),
                ids=[f"posenc-{name}"],
                names=[f"posenc {name}"],
            )
            for name, parser in make_parser().commands.items()
        ]


def _kind(name: str) -> str:
    return "class" if name[0].isupper() else "function"


def _described(kind: str, name: str, documented: Documented, directive: SphinxDirective) -> Iterator[str]:
    """Yield the lines of a description, as reStructuredText."""
    yield from (f".. py:{kind}:: {name}{documented.signature}", "")
    text = GoogleDocstring(documented.text, directive.config, what=kind)
    yield from (f"   {line}" for line in str(text).splitlines())
    yield ""


def plain_signature(app: object, kind: str, name: str, value: object, options: object, arguments: str, returned: str):
    """Return a signature without defaults that only say how a dataclass is made: `Rotary` needs its `layout`."""
    if arguments is None:
        return None
    return re.sub(r"=<function [\w.]+>", "=None", arguments.replace("=<factory>", "")), returned
