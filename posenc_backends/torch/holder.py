"""What every layer of the PyTorch room is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.encoding import Tables
from posenc_core.holder import Holder, Host

from . import arrays, states


class Layer(Holder, nn.Module):
    """Holds an encoding: its constants as float32 buffers that no cast reaches, its parameters as parameters.

    Its state tells which encoding it is of.
    """

    room = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0, *, persistent: bool = False) -> None:
        super().__init__()
        self.encoding = encoding
        self.persistent = persistent
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.randn(parameter.shape) * parameter.std + parameter.mean))

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            tensor = arrays.from_numpy(constant, like=self._buffers.get(name))
            self.register_buffer(name, tensor, persistent=self.persistent)

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
        devices = {name: fn(table[:0]).device for name, table in held.items()}
        if any(table.is_meta and devices[name].type != "meta" for name, table in held.items()):
            constants = self.encoding.constants(max(map(len, held.values())))
            held = {name: arrays.from_numpy(constants[name], like=torch.empty(0, device="cpu")) for name in held}
        self._buffers = {name: table.to(devices[name]) for name, table in held.items()}
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        states.describe(self.encoding, destination, prefix)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """What is loaded never replaces a constant; that of another encoding is told of as a key that is not expected."""
        unexpected_keys += states.differences(self.encoding, local_metadata, prefix)
        if local_metadata.get("assign_to_params_buffers"):
            states.fill(self, state_dict)
        given = states.checked(self, state_dict, prefix, unexpected_keys)
        super()._load_from_state_dict(given, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
