"""The backend of PyTorch: how tensors are made, read, traced and put beside one another."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace, onnx
from .distributed import (
    PLAIN,
    head_processes,
    is_arriving,
    is_distributed,
    replicate_beside,
    replicating,
)
from .rotation import dynamo, gpu
from .rotation.spec import RotationSpec, Rows

register_namespace(Tensor, namespace)
register_namespace(nn.Parameter, namespace)  # found without a loop that `torch.compile` would trace


class TorchBackend(Backend):
    """PyTorch."""

    namespace: Any = namespace
    array_types = Tensor
    is_floating: Callable[..., bool] = staticmethod(Tensor.is_floating_point)  # faster than the function
    rotate: Callable[..., Any] = staticmethod(onnx.rotate)

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> Tensor:
        """Return a tensor on the device of `like` or the default one; it may share the memory of `array`."""
        # a table that grows in inference mode is trained with later
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
            tensor = torch.from_numpy(array if array.flags.carray else np.require(array, requirements=["C", "W"]))
            tensor = tensor.to(torch.get_default_device() if like is None else like.device)
        if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None:
            return tensor
        return unwrapped(tensor)  # tables outlive derivatives

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of a tensor; bfloat16, which NumPy lacks, becomes float32."""
        if type(array) not in PLAIN:
            array = array.full_tensor() if is_distributed(array) else array
            array = array.wait() if is_arriving(array) else array
        with torch._C._DisableFuncTorch():  # derivatives of `torch.func` wrap what is detached anew
            if array.is_cpu and not array.is_floating_point():
                return array.numpy()
            tensor = array.detach().cpu()
            return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()

    def is_traced(self, array: Any, /) -> bool:
        """Return whether values are unknown: under `compile`, `export`, `vmap`, in a CUDA graph, on the meta device."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_captured(array):
            return True
        if torch._C._functorch.is_functorch_wrapped_tensor(array) or array.is_meta:
            return True
        if type(array) in PLAIN:
            return False
        here = array.to_local() if is_distributed(array) else array
        return not (type(here) in PLAIN or is_arriving(here))

    def is_unread(self, array: Any, /) -> bool:
        """Return whether values are unknown, or on another device, which the host would have to wait for."""
        return self.is_traced(array) or is_remote(array)

    def stop_gradient(self, array: Any, /) -> Tensor:
        """Return the tensor detached; itself if it asks for no gradient and has no tangent."""
        has_none = not array.requires_grad and forward_ad.unpack_dual(array).tangent is None
        return array if has_none else array.detach()

    def is_recorded(self, x: Any, /) -> bool:
        """Return whether the call is compiled, exported or captured; `vmap` and derivatives run it at once."""
        return torch.compiler.is_compiling() or self.is_traced(unwrapped(x))

    def is_float64(self, x: Any, /) -> bool:
        """Return whether the tensor holds numbers of float64."""
        return x.dtype is torch.float64

    def slices(self, tables: tuple[Any, ...], start: int, stop: int, /) -> tuple[Any, ...]:
        """Return the rows from `start` to `stop` of each table."""
        return tuple([table[start:stop] for table in tables])

    def eager(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return `function(*arguments)`; no compiler gets through the arithmetic of exact frequencies."""
        if not torch.compiler.is_compiling():
            return function(*arguments)
        return dynamo.uncompiled(function, *arguments)

    def beside(self, rows: tuple[Any, ...], x: Any, /) -> tuple[Any, ...]:
        """Return rows that are replicated where the tokens are distributed."""
        return rows if type(x) in PLAIN else tuple([replicate_beside(row, x) for row in rows])

    def is_beside(self, table: Any, x: Any, /) -> bool:
        """Return whether a table lies on the device of `x`."""
        return bool(table.device == x.device)

    def check_length(self, stop: Any, limit: Callable[[], tuple[int, Callable[[Any], str]]], /) -> None:
        """Let an exported program carry the check; check the length at which a program is traced."""
        if isinstance(stop, torch.SymInt):
            (most, message), now = limit(), stop.node.hint
            if now is not None and now > most:
                raise ValueError(message(now))
            torch._check_value(stop <= most, lambda: message(stop))
        elif isinstance(stop, Tensor) and torch.jit.is_tracing():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", torch.jit.TracerWarning)
                most, message = limit()
                if int(stop) > most:
                    raise ValueError(message(int(stop)))

    def rotate_both(self, q: Any, k: Any, rows: tuple[Any, ...], pairing: Any, seq_axis: int, /) -> Any:
        """Return queries and keys rotated in one launch on a GPU; None elsewhere."""
        if not gpu.may_rotate(q, k, rows, seq_axis):
            return None
        return tuple(gpu.rotated((q, k), rows, Rows("rows"), RotationSpec(pairing, False, seq_axis)))

    def call_context(self, x: Any, /) -> AbstractContextManager[Any]:
        """Return a context: plain tensors beside distributed ones count as replicated, and scores keep their dtype."""
        if isinstance(x, nn.Module):
            weight = getattr(x, "weight", None)  # which a layer of Keras lacks
            processes = head_processes(weight) if type(weight) not in PLAIN and is_distributed(weight) else None
            if processes is not None:
                return nullcontext(processes)
            return nullcontext() if weight is None else replicating(weight)
        if x.is_meta or not torch.is_autocast_enabled(x.device.type):
            return replicating(x)
        contexts = ExitStack()
        contexts.enter_context(replicating(x))
        contexts.enter_context(torch.autocast(x.device.type, enabled=False))  # which multiplies in half precision
        return contexts

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> nn.Linear:
        """Return `torch.nn.Linear`."""
        return nn.Linear(width, out, bias=bias, **options)

    def dropout(self, rate: float, /) -> nn.Dropout:
        """Return `torch.nn.Dropout`."""
        return nn.Dropout(rate)


def unwrapped(array: Any, /) -> Any:
    """Return the tensor that `vmap` and derivatives have wrapped."""
    while torch._C._functorch.is_functorch_wrapped_tensor(array):
        array = torch._C._functorch.get_unwrapped(array)
    return array


def is_captured(array: Any, /) -> bool:
    """Return whether its device records a CUDA graph, so that nobody can wait for numbers."""
    return array.is_cuda and torch.cuda.is_current_stream_capturing()


def is_remote(array: Any, /) -> bool:
    """Return whether its numbers are not in the memory of the host."""
    return array.device.type != "cpu"


BACKEND = TorchBackend()
to_numpy: Callable[[Any], npt.NDArray[Any]] = BACKEND.to_numpy
is_traced: Callable[[Any], bool] = BACKEND.is_traced


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> Tensor:
    """Return a tensor on the device of `like` or the default one; it may share the memory of `array`."""
    return BACKEND.from_numpy(array, like=like)
