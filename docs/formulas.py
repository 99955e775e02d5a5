"""Formulas as MathML, which browsers draw and screen readers read without a script, and without a network."""

from __future__ import annotations

from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def inline(page: Any, node: Element) -> None:
    """Write a formula that stands in a sentence."""
    page.body.append(tex2mathml(node.astext()))
    raise SkipNode


def displayed(page: Any, node: Element) -> None:
    """Write a formula that stands alone; where it is too wide for a telephone, it scrolls."""
    page.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode
