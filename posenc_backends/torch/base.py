"""What every layer of the PyTorch room is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers.base import BaseLayer, Host

from . import backend as arrays
from . import state as states


class Layer(BaseLayer, nn.Module):
    """Holds an encoding: its constants as float32 tensors that no cast reaches, its parameters as parameters.

    Its state tells which encoding it is of. Constants are buffers only as a part of the state: buffers are sent from one
    process to the others by `DistributedDataParallel`, before each call, and tables have other lengths there.

    Attributes:
        constants: by name; growing replaces them all at once.
    """

    backend = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0, *, persistent: bool = False) -> None:
        super().__init__()
        self.encoding = encoding
        self.persistent = persistent
        self.constants: dict[str, Tensor] = {}
        self.hold(encoding.constants(max_len))
        self._buffers = dict(self.constants) if persistent else {}
        for name, parameter in encoding.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.randn(parameter.shape) * parameter.std + parameter.mean))

    def hold(self, constants: Tables) -> None:
        like = next(iter(self.constants.values()), None)
        to_backend = {name: arrays.from_numpy(constant, like=like) for name, constant in constants.items()}
        self.constants = {
            name: arrays.unwrapped(table) for name, table in to_backend.items()
        }  # they outlive derivatives

    @property
    def held(self) -> dict[str, Any]:
        return {**self.constants, **self._parameters} if self._parameters else self.constants

    @property
    def said(self) -> dict[str, Any]:
        """What its state says of the layer, by name."""
        return {"encoding": self.encoding}

    def check_array(self, name: str, x: Any) -> None:
        super().check_array(name, x)
        self.follow(x)

    def follow(self, x: Tensor) -> None:
        """Bring the constants to where tokens are, if whatever moved the model did not know of them."""
        devices = {table.device for table in self.constants.values()}
        if devices <= {x.device} or arrays.is_traced(x):
            return
        self._move(dict.fromkeys(self.constants, x.device))

    def is_recorded(self, x: Any) -> bool:
        return arrays.is_recorded(x)

    def ensured(self, stop: Any, bound: Callable[[], tuple[int, Callable[[Any], str]]]) -> None:
        """An exported program carries the check; one that is traced has the length that it was traced at checked."""
        if isinstance(stop, torch.SymInt):
            (most, message), now = bound(), stop.node.hint
            if now is not None and now > most:
                raise ValueError(message(now))
            torch._check_value(stop <= most, lambda: message(stop))
        elif isinstance(stop, Tensor) and torch.jit.is_tracing():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", torch.jit.TracerWarning)
                most, message = bound()
                if int(stop) > most:
                    raise ValueError(message(int(stop)))

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
        kept, self._buffers = self._buffers, {}
        super()._apply(fn, recurse)
        self._buffers = kept
        self._move({name: fn(table[:0]).device for name, table in self.constants.items()})
        return self

    def _move(self, devices: dict[str, torch.device]) -> None:
        """Have the constants on these devices; those that are on the meta device are computed."""
        constants, rows = self.constants, {name: len(table) for name, table in self._buffers.items()}
        if any(table.is_meta and devices[name].type != "meta" for name, table in constants.items()):
            computed = self.encoding.constants(max(map(len, constants.values())))
            constants = {
                name: arrays.from_numpy(computed[name], like=torch.empty(0, device="cpu")) for name in constants
            }
        self.constants = {name: table.to(devices[name]) for name, table in constants.items()}
        self._buffers = {name: self.constants[name][:count] for name, count in rows.items()}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        states.describe(self.said, destination, prefix)

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
        unexpected_keys += states.differences(self.said, local_metadata, prefix)
        if local_metadata.get("assign_to_params_buffers"):
            states.fill(self, state_dict)
        given = states.checked(self, state_dict, prefix, unexpected_keys)
        super()._load_from_state_dict(given, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
