"""What files of parameters say of the encoding that learned them, and what is made of it when they are loaded."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from posenc_core.encodings import Encoding
from posenc_core.layers.inputs import learned_by


class EncodingTag(gluon.Parameter):
    """The name of an encoding, as a file has it before what that learned.

    It equals one of the parameters, as Gluon asks a file for any name of those that are equal: one that has no note is
    loaded, too. Whoever asks for its hash while saving leaves out all but the first of them, in place of the last.
    """

    def __init__(self, encoding: Encoding, learned: gluon.Parameter) -> None:
        super().__init__(f"{learned.name}_encoding", shape=(1,), dtype="uint8", differentiable=False)
        self.encoding, self.learned, self.stands_for_it = learned_by(encoding), learned, False

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.learned

    def __hash__(self) -> int:
        self.stands_for_it = True
        return hash(self.learned)

    def _reduce(self) -> mx.np.ndarray:
        if self.stands_for_it:
            return self.learned._reduce()
        return mx.np.array(np.frombuffer(self.encoding.encode(), np.uint8), dtype="uint8", ctx=mx.cpu())

    def _load_init(self, data: Any, *rest: Any, **options: Any) -> None:
        found = data.asnumpy().tobytes().decode()
        if found != self.encoding:
            raise ValueError(
                f"The file must be of the layer's encoding {self.encoding}, got one of {found}; what is to be taken of it all "
                "the same, `mx.npx.load` reads and `set_data` sets."
            )
