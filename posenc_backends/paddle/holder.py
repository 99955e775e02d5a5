"""What every layer of the Paddle room is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.encoding import Tables
from posenc_core.holder import Holder

from . import arrays


@paddle.jit.marker.unified  # traced in one piece, as Paddle's own layers are
class Layer(Holder, nn.Layer):
    """Holds an encoding: its constants as float32 buffers that no cast reaches, its parameters as parameters."""

    room = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            normal = nn.initializer.Normal(parameter.mean, parameter.std)
            self.add_parameter(name, self.create_parameter(parameter.shape, default_initializer=normal))

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.register_buffer(name, arrays.from_numpy(constant, like=self._buffers.get(name)), persistable=False)

    @property
    def held(self) -> dict[str, Any]:
        names = (*self._buffers, *self._parameters)
        return {name: getattr(self, name) for name in names}  # under `to_static` only an attribute is traced

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def _apply(self, func: Callable[..., Tensor], device: Any, dtype: Any, *rest: Any) -> None:
        """Follow moves, not casts: the buffers are told no dtype."""
        held, self._buffers = self._buffers, {}
        super()._apply(func, device, dtype, *rest)
        self._buffers = {name: func(table, device, None, *rest[:1]) for name, table in held.items()}
