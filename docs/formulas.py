"""Write formulas as MathML, which browsers and screen readers support without scripts or a network."""

from __future__ import annotations

from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def inline(page: Any, node: Element) -> None:
    """Write an inline formula."""
    page.body.append(_mathml(node, as_block=False))
    raise SkipNode


def displayed(page: Any, node: Element) -> None:
    """Write a displayed formula; it scrolls if it is too wide for a phone."""
    page.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise SkipNode


def _mathml(node: Element, *, as_block: bool) -> str:
    """Return the formula; warn if docutils does not know its commands, which `nox -s docs` turns into an error."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        LOGGER.warning("%s in the formula %s", error, node.astext(), location=node)
        return ""
