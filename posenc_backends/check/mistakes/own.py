"""Mistakes that only encodings of one class can have."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from posenc_core.encodings import Encoding

from .base import Mistake


@singledispatch
def own_mistakes(encoding: Encoding) -> Iterator[Mistake]:
    """Yield the mistakes that only an encoding of this class can have: those of the function registered for it."""
    return iter(())
