"""Functions with marks for `torch.compile`, imported where code is being compiled: marks load the compiler.

That takes a second, which `import posenc_backends.torch` is not to take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import _functorch
from torch.autograd import forward_ad

from .huggingface import rotation


@torch.compiler.disable
def uncompiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)`, which no compiler traces."""
    return function(*arguments)


@torch.compiler.assume_constant_result
def is_transformed() -> bool:
    """Return whether `torch.func` or forward mode transforms the code that is being compiled."""
    return _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


@torch.compiler.assume_constant_result
def form_of(layer: Any) -> rotation.Form | None:
    """Return the form that rotates as the layer of a model does, found once while code is traced."""
    return rotation.form_of(layer)
