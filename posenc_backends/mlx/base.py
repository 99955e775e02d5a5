"""The base class of the layers of the MLX backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers import Backend

from .backend import BACKEND, from_numpy


@dataclass(frozen=True)
class Constants:
    """The arrays that an encoding implies, by name, in a class in which MLX looks for no parameters."""

    arrays: dict[str, mx.array]


class Module(nn.Module):
    """The base of every layer, attention included. It has no options."""

    backend: Backend = BACKEND
    dropout: nn.Dropout

    def __init__(self) -> None:
        super().__init__()

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens as they are."""
        return x

    def active_dropout(self) -> nn.Dropout | None:
        """Return the dropout if the layer is in training and its rate is not 0."""
        return self.dropout if self.training and self.dropout._p_1 < 1 else None

    def part_options(self) -> dict[str, dict[str, Any]]:
        """Return no options for any part."""
        return {}


class Layer(Module):
    """Holds the constants of an encoding as float32 arrays outside of states and casts; parameters as parameters."""

    def __init__(self, encoding: Encoding, max_len: int = 0, /) -> None:
        super().__init__()
        self.encoding = encoding
        self.set_tables(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            setattr(self, name, parameter.initial(mx.random.normal(parameter.shape)))

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        self.constants = Constants({name: from_numpy(constant) for name, constant in constants.items()})

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        return {**self.constants.arrays, **self}

    initial_arrays = arrays

    def _extra_repr(self) -> str:
        return repr(self.encoding)
