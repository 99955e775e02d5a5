"""PyTorch tensors: how they are made, read and traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd import forward_ad

from posenc_core import register_namespace

from . import namespace
from .distributed import PLAIN, is_arriving, is_distributed

uncompiled = torch.compiler.disable  # for what no compiler gets through

register_namespace(torch.Tensor, namespace)  # found without a call that `torch.compile` would warn about


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> torch.Tensor:
    """A tensor of the same numbers, on the device of `like` or the default one; it may share the memory of `array`."""
    with torch.inference_mode(False):  # a table that grows there is trained with later
        tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return tensor.to(torch.get_default_device() if like is None else like.device)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of a tensor; bfloat16, which NumPy lacks, becomes float32."""
    array = array.full_tensor() if is_distributed(array) else array
    with torch._C._DisableFuncTorch():  # derivatives of `torch.func` wrap what is detached anew
        tensor = (array.wait() if is_arriving(array) else array).detach().cpu()
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def is_traced(array: Any, /) -> bool:
    """Whether the numbers are unknown: under `compile`, `export`, `vmap`, in a CUDA graph, or on the meta device."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_captured(array):
        return True
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(array)
    here = array.to_local() if is_distributed(array) else array
    return wrapped or here.is_meta or not (type(here) in PLAIN or is_arriving(here))


def is_recorded(array: Any, /) -> bool:
    """Whether what is done with it is recorded, to run later: `vmap` and derivatives run it at once, though with tracers."""
    return torch.compiler.is_compiling() or is_traced(unwrapped(array))


def unwrapped(array: Any, /) -> Any:
    """The tensor that `vmap` and derivatives have wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(array):
        array = torch._C._functorch.get_unwrapped(array)
    return array


def is_captured(array: Any, /) -> bool:
    """Whether its device records a graph of what it does, so that nobody can wait for numbers."""
    return array.is_cuda and torch.cuda.is_current_stream_capturing()


def stop_gradient(array: Any, /) -> torch.Tensor:
    """The same numbers, through which no gradient flows; the tensor itself if it asks for none, and has no tangent."""
    has_none = not array.requires_grad and forward_ad.unpack_dual(array).tangent is None
    return array if has_none else array.detach()
