"""The base class of the layers of the PyTorch backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers import Backend
from posenc_core.layers.base import POSITION_LAYERS, PROJECTIONS

from . import state
from .backend import BACKEND, from_numpy, unwrapped
from .distributed import distribute_like

NESTED = (
    "Tokens must not be a nested tensor; give its `values()` as one row, and `positions=from_cu_seqlens(x.offsets())`."
)


class Module(nn.Module):
    """The base of every layer, attention included.

    Args:
        persistent: whether the tables are part of `state_dict`, and of plain dicts and files made of it. Loading
            compares them with the layer's own, so that a state of another encoding is refused even where metadata were
            lost.
        device: where parameters and tables are made, by default on the default device.
        dtype: of the parameters, by default float32; tables stay float32.
    """

    backend: Backend = BACKEND
    dropout: nn.Dropout

    def __init__(self, *, persistent: bool = False, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens as they are; raise for nested ones."""
        if isinstance(x, Tensor) and x.is_nested:
            raise TypeError(NESTED)
        return x

    def active_dropout(self) -> nn.Dropout | None:
        """Return the dropout if the layer is in training and its rate is not 0."""
        dropout: Any = self._modules["dropout"] if self.training else None
        return dropout if dropout is not None and dropout.p else None

    def part_options(self, *, persistent: bool = False, **factory: Any) -> dict[str, dict[str, Any]]:
        """Return `device` and `dtype` for all parts, `persistent` for the layers of positions inside attention."""
        layers = {"persistent": persistent, **factory}
        parts = dict.fromkeys(POSITION_LAYERS, layers)
        return {**dict.fromkeys(PROJECTIONS, factory), **parts}

    @property
    def metadata(self) -> dict[str, Any]:
        """The entries of the state's metadata for the layer, by name."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state.describe(self.metadata, destination, prefix)


class Layer(Module):
    """Holds the constants of an encoding as float32 tensors that no cast reaches, its parameters as parameters.

    Its state records which encoding it is of. With `persistent`, buffers are copies of the first rows: other tools
    write into buffers and into states, as `DistributedDataParallel` and `torch.distributed.checkpoint` do.

    Attributes:
        constants: by name; growing replaces them all at once.
    """

    _buffers: dict[str, Any]
    _learned: tuple[str, ...]  # the names of the parameters

    def __init__(
        self,
        encoding: Encoding,
        max_len: int = 0,
        /,
        *,
        persistent: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.persistent = persistent
        self.constants: dict[str, Tensor] = {}
        with nullcontext() if device is None else torch.device(device):
            self.set_tables(encoding.constants(max_len))
            drawn = {name: p.initial(torch.randn(p.shape)).to(dtype) for name, p in encoding.parameters().items()}
        if persistent:
            self.copy_rows({name: len(table) for name, table in self.constants.items()})
        self._learned = tuple(drawn)
        for name, numbers in drawn.items():
            self.register_parameter(name, nn.Parameter(numbers))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Set the parameters to new initial numbers, as every layer of PyTorch does."""
        for name, parameter in self.encoding.parameters().items():
            own = getattr(self, name)
            drawn = torch.randn(parameter.shape, device=own.device)
            own.copy_(distribute_like(own, parameter.initial(drawn)))

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        like = next(iter(self.constants.values()), None)
        self.constants = {name: from_numpy(constant, like=like) for name, constant in constants.items()}

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        learned: dict[str, Any] = self._parameters
        if tuple(learned) != self._learned:  # other tools put attributes in their place
            learned = state.found_parameters(self, self._learned)
        return {**self.constants, **learned} if learned else self.constants

    initial_arrays = arrays

    @property
    def metadata(self) -> dict[str, Any]:
        """The encoding, and how an additive one is combined with tokens."""
        return {"encoding": self.encoding} | ({"combine": self.combine} if hasattr(self, "combine") else {})

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens; move constants to their device if the model was moved without the layer's knowledge."""
        if isinstance(x, Tensor):
            if x.is_nested:
                raise TypeError(NESTED)
            device = x.device
            for table in self.constants.values():
                if table.device != device and not self.backend.is_recorded(x):  # `vmap` may have put tokens elsewhere
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
        rows = {name: len(self._buffers.pop(name)) for name in self.saved_tables}
        super()._apply(fn, recurse)
        self._move({name: fn(table[:0]).device for name, table in self.constants.items()})
        self.copy_rows(rows)
        return self

    def _move(self, devices: dict[str, torch.device]) -> None:
        """Move the constants to these devices; compute those that are on the meta device."""
        constants = self.constants
        if any(table.is_meta and devices[name].type != "meta" for name, table in constants.items()):
            computed = self.encoding.constants(max(map(len, constants.values())))
            constants = {name: from_numpy(computed[name], like=torch.empty(0, device="cpu")) for name in constants}
        self.constants = {name: unwrapped(table.to(devices[name])) for name, table in constants.items()}
        self.copy_rows({name: len(self._buffers[name]) for name in self.saved_tables})

    @property
    def saved_tables(self) -> list[str]:
        """The names of the constants that are part of the state."""
        return [name for name in self.constants if name in self._buffers]

    def copy_rows(self, rows: dict[str, int]) -> None:
        """Hold copies of the first rows of these constants as buffers."""
        self._buffers.update({name: self.constants[name][:count].clone() for name, count in rows.items()})

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Save numbers of the encoding, whatever was written into the buffers, in memory that nothing else uses."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self.saved_tables:
            destination[prefix + name] = self.constants[name][: len(self._buffers[name])].clone()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        """Load parameters, never constants; a state of another encoding counts as an unexpected key."""
        _, _, unexpected_keys, _ = rest
        state.check_metadata(self.metadata, local_metadata, prefix, unexpected_keys)
        if local_metadata.get("assign_to_params_buffers"):
            state.fill(self, state_dict)
        given = state.checked(self, state_dict, prefix, unexpected_keys)
        super()._load_from_state_dict(given, prefix, local_metadata, *rest)
