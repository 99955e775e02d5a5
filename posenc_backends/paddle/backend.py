"""Paddle tensors: how they are made, read and traced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle
from paddle.utils.dlpack import from_dlpack

import posenc_core
from posenc_core import register_namespace

from . import namespace

for _kind in (paddle.Tensor, paddle.pir.Value, paddle.static.Variable):
    register_namespace(_kind, namespace)

# `to_static` is to run the core as it stands: with a full graph it would rewrite the source of what it calls, and
# without one simulate its bytecode (`<string>` is where dataclasses come from). Neither gets through.
paddle.jit.ignore_module([posenc_core])
_files = [
    str(Path(__file__).with_name(f"{part}.py"))
    for part in ("arrays", "attention", "holder", "kernels", "layers", "namespace")
]
paddle.framework.core.eval_frame_skip_file_prefix((*posenc_core.__path__, *_files, "<string>"))


def from_numpy(array: npt.NDArray[Any], /, *, like: Any = None) -> paddle.Tensor:
    """A tensor of the same numbers, on the device of `like`."""
    return paddle.to_tensor(array, place=like.place if isinstance(like, paddle.Tensor) else None)


def adopted(array: npt.NDArray[Any], /, *, like: Any = None) -> paddle.Tensor:
    """`from_numpy` of an array that nobody writes to from now on: on CPU, a tensor in its memory, which it keeps."""
    on_cpu = like.place.is_cpu_place() if isinstance(like, paddle.Tensor) else paddle.get_device() == "cpu"
    return from_dlpack(np.ascontiguousarray(array)) if on_cpu else from_numpy(array, like=like)


def to_numpy(array: Any, /) -> npt.NDArray[Any]:
    """The numbers of a tensor; bfloat16, which NumPy lacks, becomes float32."""
    return (array.astype("float32") if array.dtype == paddle.bfloat16 else array).numpy()


def is_traced(array: Any, /) -> bool:
    """Whether the numbers are unknown: in static mode, under `to_static` or `jit.save`."""
    return not isinstance(array, paddle.Tensor)


def sized(x: Any, sizes: Mapping[int, int]) -> Any:
    """`x`, with the sizes of axes that a tracer does not know: what changes from call to call, it takes for any size."""
    known = tuple(getattr(x, "shape", ()))
    unknown = [axis for axis in sizes if -len(known) <= axis and known[axis] == -1]
    if not unknown:
        return x
    shape = [0] * len(known)  # which leaves the others as they are
    for axis in unknown:
        shape[axis] = sizes[axis]
    return paddle.reshape(x, shape)


def stop_gradient(array: Any, /) -> paddle.Tensor:
    """The same numbers, through which no gradient flows; the tensor itself if it asks for none."""
    return array if array.stop_gradient else array.detach()
