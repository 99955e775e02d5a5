"""The backend of Paddle: how tensors are made, read and traced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paddle
from paddle import Tensor, nn
from paddle.utils.dlpack import from_dlpack

import posenc_core
from posenc_core import register_namespace
from posenc_core.layers import Backend

from . import namespace

# `to_static` must run the core as it is: with a full graph it would rewrite the source of the functions it calls, and
# without one simulate their bytecode (that of dataclasses comes from `<string>`). Both fail.
paddle.jit.ignore_module([posenc_core])
_files = [str(path) for path in Path(__file__).parent.glob("*.py")]
paddle.framework.core.eval_frame_skip_file_prefix((*posenc_core.__path__, *_files, "<string>"))


class PaddleBackend(Backend):
    """Paddle."""

    namespace = namespace
    array_types = (Tensor, paddle.pir.Value, paddle.static.Variable)
    shape = staticmethod(namespace.shape)

    def from_numpy(self, array: npt.NDArray[Any], /, *, like: Any = None) -> Tensor:
        """Return a tensor of the same numbers, on the device of `like` or the default one."""
        return paddle.to_tensor(array, place=like.place if isinstance(like, Tensor) else None)

    def is_beside(self, table: Any, x: Any, /) -> bool:
        """Return whether a table lies on the device of `x`."""
        return bool(table.place == x.place)

    def to_numpy(self, array: Any, /) -> npt.NDArray[Any]:
        """Return the numbers of a tensor; bfloat16, which NumPy lacks, becomes float32."""
        return (array.astype("float32") if array.dtype == paddle.bfloat16 else array).numpy()

    def is_traced(self, array: Any, /) -> bool:
        """Return whether values are unknown: in static mode, under `to_static` or `jit.save`."""
        return not isinstance(array, Tensor)

    def stop_gradient(self, array: Any, /) -> Tensor:
        """Return the tensor detached; itself if it asks for no gradient."""
        return array if array.stop_gradient else array.detach()

    def linear(self, width: int, out: int, bias: bool, /, **options: Any) -> nn.Linear:
        """Return `paddle.nn.Linear`."""
        return nn.Linear(width, out, options["weight_attr"], options["bias_attr"] if bias else False)

    def dropout(self, rate: float, /) -> nn.Dropout:
        """Return `paddle.nn.Dropout`."""
        return nn.Dropout(rate)


def adopted(array: npt.NDArray[Any], /, *, like: Any = None) -> Tensor:
    """Return a tensor on the device of `like`; on a CPU it shares the memory of the array, which must stay as it is."""
    on_cpu = like.place.is_cpu_place() if isinstance(like, Tensor) else paddle.get_device() == "cpu"
    return from_dlpack(np.ascontiguousarray(array)) if on_cpu else from_numpy(array, like=like)


def sized(x: Any, sizes: Mapping[int, int]) -> Any:
    """Return `x` with these sizes of axes where Paddle does not know them, as after a change between calls."""
    known = () if isinstance(x, type) else tuple(getattr(x, "shape", ()))
    unknown = [axis for axis in sizes if -len(known) <= axis and known[axis] == -1]
    if not unknown:
        return x
    shape = [0] * len(known)  # 0 leaves a size as it is
    for axis in unknown:
        shape[axis] = sizes[axis]
    return paddle.reshape(x, shape)


for _type in PaddleBackend.array_types:
    register_namespace(_type, namespace)

BACKEND = PaddleBackend()
from_numpy, to_numpy, is_traced = BACKEND.from_numpy, BACKEND.to_numpy, BACKEND.is_traced
