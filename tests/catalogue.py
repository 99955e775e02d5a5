"""What the tests have to know of encodings beside what these say themselves."""

from posenc_core import encodings, scaling
from posenc_core.encodings.examples import examples

ENCODINGS = {name: getattr(encodings, name) for name in encodings.NAMES}
SCALINGS = {name: getattr(scaling, name) for name in scaling.NAMES}
VALUES = ENCODINGS | SCALINGS  # the names in a `repr`
IN_FLOAT32 = ("DynamicPositionBias", "Fire", "Kerple", "SwinV2Bias")  # which compute scores in float32 for any tokens


def in_transformers(**sizes):
    """Return the examples of all encodings that `Transformer` takes: for tokens on one axis, or in attention."""
    return [encoding for encoding in examples(**sizes) if is_for_tokens(encoding)]


def is_for_tokens(encoding):
    if encoding.layer_name == "PositionalEncoding":
        return encoding.num_axes == 1
    return encoding.layer_name != "QueryScaling" and not getattr(encoding, "needs_attention", False)
