"""Fields of the reference: names that share a text stand before it once, in one line."""

from __future__ import annotations

import re

from docutils.nodes import Text, document, field_body, list_item, paragraph, strong
from sphinx.application import Sphinx

DASH = " – "
LISTED = re.compile(r"(\w+) \(([\w, ]+),\)$")  # "c (a, b,)": Sphinx takes the names of `a, b, c:` for a type and a name


def join_names(app: Sphinx, doctree: document) -> None:
    """Write `a, b – text` where attributes share a text, and where arguments have the same text one after the other."""
    for body in doctree.findall(field_body):
        before = None
        for line in list(body.findall(paragraph)):
            dash = next((node for node in line.children if node == DASH), None)
            if dash is None:
                continue
            at = line.index(dash)
            names = "".join(node.astext() for node in line.children[:at])
            if found := LISTED.match(names):
                names = f"{found[2]}, {found[1]}"
                line[:at] = [strong("", names)]
            text = "".join(node.astext() for node in line.children[line.index(dash) :])
            if before is not None and before[1] == text and isinstance(line.parent, list_item):
                before[0].insert(before[0].index(before[2]), [Text(", "), *line.children[: line.index(dash)]])
                line.parent.parent.remove(line.parent)
            else:
                before = line, text, dash
