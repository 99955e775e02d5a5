"""What every layer of the NumPy room is."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers.base import Backend, BaseLayer

from . import backend as arrays


class Layer(BaseLayer):
    """Holds an encoding: its constants and its parameters as arrays."""

    backend: Backend = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        self.encoding = encoding
        self.held: dict[str, Any] = {}
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            drawn = np.random.default_rng().normal(parameter.mean, parameter.std, parameter.shape)
            self.hold({name: drawn.astype(np.float32)})

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.held[name] = self.backend.from_numpy(constant)
