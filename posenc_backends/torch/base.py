"""The base class of the layers of the PyTorch backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers import Backend

from . import state
from .backend import BACKEND, from_numpy


class Module(nn.Module):
    """The base of every layer, attention included.

    Args:
        persistent: whether the tables are part of `state_dict`, and of plain dicts and files made of it. Loading
            compares them with the layer's own, so that a state of another encoding is refused even where metadata were
            lost.
    """

    backend: Backend = BACKEND
    dropout: nn.Dropout

    def __init__(self, *, persistent: bool = False) -> None:
        super().__init__()

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens as they are."""
        return x

    def active_dropout(self) -> nn.Dropout | None:
        """Return the dropout if the layer is in training and its rate is not 0."""
        dropout: Any = self._modules["dropout"] if self.training else None
        return dropout if dropout is not None and dropout.p else None

    def part_options(self, *, persistent: bool = False) -> dict[str, dict[str, Any]]:
        """Return `persistent` for the layers of positions inside attention."""
        return {"rotary": {"persistent": persistent}, "scoring": {"persistent": persistent}}

    @property
    def metadata(self) -> dict[str, Any]:
        """The entries of the state's metadata for the layer, by name."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state.describe(self.metadata, destination, prefix)


class Layer(Module):
    """Holds the constants of an encoding as float32 tensors that no cast reaches, its parameters as parameters.

    Its state records which encoding it is of. Constants are buffers only as a part of the state: buffers are sent from
    one process to the others by `DistributedDataParallel`, before each call, and tables have other lengths there.

    Attributes:
        constants: by name; growing replaces them all at once.
    """

    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0, *, persistent: bool = False) -> None:
        super().__init__()
        self.encoding = encoding
        self.persistent = persistent
        self.constants: dict[str, Tensor] = {}
        self.set_tables(encoding.constants(max_len))
        self._buffers = dict(self.constants) if persistent else {}
        for name, parameter in encoding.parameters().items():
            self.register_parameter(name, nn.Parameter(parameter.initial(torch.randn(parameter.shape))))

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        like = next(iter(self.constants.values()), None)
        self.constants = {name: from_numpy(constant, like=like) for name, constant in constants.items()}

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        return {**self.constants, **self._parameters} if self._parameters else self.constants

    initial_arrays = arrays

    @property
    def metadata(self) -> dict[str, Any]:
        """The encoding, and how an additive one is combined with tokens."""
        return {"encoding": self.encoding} | ({"combine": self.combine} if hasattr(self, "combine") else {})

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens; move constants to their device if the model was moved without the layer's knowledge."""
        if isinstance(x, Tensor):
            device = x.device
            for table in self.constants.values():
                if table.device != device and not self.backend.is_traced(x):
                    self._move(dict.fromkeys(self.constants, device))
                    break
        return x

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def __dir__(self) -> list[str]:
        """List `P` only where there is a table: `torch.jit.trace` asks for all that is listed."""
        return [name for name in super().__dir__() if name != "P" or self.encoding.table_names]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Layer:
        """Follow moves, not casts: `fn` is tried on no rows to learn the device that it leads to."""
        kept, self._buffers = self._buffers, {}
        super()._apply(fn, recurse)
        self._buffers = kept
        self._move({name: fn(table[:0]).device for name, table in self.constants.items()})
        return self

    def _move(self, devices: dict[str, torch.device]) -> None:
        """Move the constants to these devices; compute those that are on the meta device."""
        constants, rows = self.constants, {name: len(table) for name, table in self._buffers.items()}
        if any(table.is_meta and devices[name].type != "meta" for name, table in constants.items()):
            computed = self.encoding.constants(max(map(len, constants.values())))
            constants = {name: from_numpy(computed[name], like=torch.empty(0, device="cpu")) for name in constants}
        self.constants = {name: table.to(devices[name]) for name, table in constants.items()}
        self._buffers = {name: self.constants[name][:count] for name, count in rows.items()}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """Load parameters, never constants; a state of another encoding counts as an unexpected key."""
        _, _, unexpected_keys, _ = rest
        unexpected_keys += state.differences(self.metadata, local_metadata, prefix)
        if local_metadata.get("assign_to_params_buffers"):
            state.fill(self, state_dict)
        given = state.checked(self, state_dict, prefix, unexpected_keys)
        super()._load_from_state_dict(given, prefix, local_metadata, *rest)
