"""What every layer of the PyTorch room is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.encoding import Tables
from posenc_core.holder import Holder, Host

from . import arrays


class Layer(Holder, nn.Module):
    """Holds an encoding: its constants as float32 buffers that no cast reaches, its parameters as parameters."""

    room = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.randn(parameter.shape) * parameter.std + parameter.mean))

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.register_buffer(name, arrays.from_numpy(constant, like=self._buffers.get(name)), persistent=False)

    @property
    def held(self) -> dict[str, Any]:
        return {**self._buffers, **self._parameters}

    @arrays.uncompiled
    def exact_rows(self, positions: Host, encoding: Any) -> Tables:
        return super().exact_rows(positions, encoding)

    @arrays.uncompiled
    def computed_there(self, encoding: Any, *positions: Tensor) -> tuple[Tensor, ...]:
        """Outside of what is compiled: no compiler gets through the arithmetic of exact frequencies."""
        return super().computed_there(encoding, *positions)

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Layer:
        """Follow moves, not casts: `fn` is tried on no rows to learn the device that it leads to."""
        held, self._buffers = self._buffers, {}
        super()._apply(fn, recurse)
        for name, table in held.items():
            device = fn(table[:0]).device
            lost = table.is_meta and device.type != "meta"
            known = arrays.from_numpy(self.encoding.constants(len(table))[name]) if lost else table
            held[name] = known.to(device)
        self._buffers = held
        return self
