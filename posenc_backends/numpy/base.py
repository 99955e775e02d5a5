"""The base class of the layers of the NumPy backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_core.attention import Dropout
from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers import Backend

from .backend import BACKEND


class Module:
    """The base of layers without a framework: they evaluate and do not train."""

    backend: Backend = BACKEND

    def __init__(self) -> None:
        """Take no options."""

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens as they are."""
        return x

    def active_dropout(self) -> Dropout | None:
        """Return None: nothing is dropped."""

    def part_options(self) -> dict[str, dict[str, Any]]:
        """Return no options for any part."""
        return {}


class Layer(Module):
    """Holds the constants and the parameters of an encoding as arrays. It has no options."""

    def __init__(self, encoding: Encoding, max_len: int = 0, /) -> None:
        super().__init__()
        self.encoding = encoding
        self.arrays: dict[str, Any] = {}
        self.set_tables(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            initial = parameter.initial(np.random.default_rng().standard_normal(parameter.shape))
            self.set_tables({name: initial.astype(np.float32)})

    def set_tables(self, constants: Tables) -> None:
        """Hold these arrays in place of those of the same names."""
        new = {name: self.backend.from_numpy(constant) for name, constant in constants.items()}
        self.arrays = {**self.arrays, **new}

    @property
    def initial_arrays(self) -> dict[str, Any]:
        """The arrays: no position is traced here."""
        return self.arrays

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoding})"
