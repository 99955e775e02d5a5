"""Sharing: a layer in place of an encoding to make one of, so that the blocks of a model hold one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .attention_bias import Bias
from .base import Backend
from .rotary_embedding import Rotation


def encoding_of(position: Any, backend: Backend) -> Any:
    """The encoding that a block is told of: `position` itself, or that of the layer that it is.

    Raises:
        TypeError: if it is a layer of another framework.
    """
    if not isinstance(position, Rotation | Bias):
        return position
    if position.backend is not backend:
        raise TypeError(
            f"`position` must be a layer of the framework that attends, got {position!r} of another; "
            "give its `encoding`."
        )
    return position.encoding


def layer_of(position: Any, kind: type, made: Callable[[Any], Any]) -> Any:
    """The layer of an encoding of this kind: `position`, if that is one, or what is made of it; None for another kind."""
    given = isinstance(position, Rotation | Bias)
    encoding = position.encoding if given else position
    if not isinstance(encoding, kind):
        return None
    return position if given else made(encoding)
