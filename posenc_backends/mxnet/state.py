"""The name of the encoding in files of parameters, and the check of it when they are loaded."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon

from posenc_core.encodings import Encoding
from posenc_core.layers.inputs import learned_by
from posenc_core.layers.saved_encodings import changed_fields, why_refused


class EncodingTag(gluon.Parameter):
    """The name of an encoding, saved before a learned parameter. Its hash has a side effect, to steer Gluon.

    Gluon has no hook for an array that may be missing in a file, and none for one that is saved and never trained. It
    finds parameters with several names by equality and hash. So the tag equals one learned parameter, of the encoding
    or of the attention that it is a part of, and all other tags of that parameter:

    * `load_parameters` accepts a file with any one of the names of equal parameters: files without a tag are loaded.
    * `save_parameters(deduplicate=True)` saves the first of equal parameters, the tag, under the last of their names,
      that of the learned one. Nothing else hashes parameters while saving: a tag that was hashed saves learned numbers.
    """

    def __init__(self, encoding: Encoding, learned: gluon.Parameter) -> None:
        super().__init__(f"{learned.name}_encoding", shape=(1,), dtype="uint8", differentiable=False)
        self.encoding, self.learned, self.is_deduplicated = learned_by(encoding), learned, False

    def __eq__(self, other: object) -> bool:
        return getattr(other, "learned", other) is self.learned

    def __hash__(self) -> int:
        self.is_deduplicated = True
        return hash(self.learned)

    def _reduce(self) -> mx.np.ndarray:
        if self.is_deduplicated:
            return self.learned._reduce()
        return mx.np.array(np.frombuffer(self.encoding.encode(), np.uint8), dtype="uint8", ctx=mx.cpu())

    def _load_init(self, data: Any, *rest: Any, **options: Any) -> None:
        found = data.asnumpy().tobytes().decode()
        if why := why_refused(changed_fields(found, self.encoding)):
            raise ValueError(f"The file must be of the layer's encoding {self.encoding}, got one of {found}; {why}.")
