"""Write an encoding in each format, and compare what is read back."""

import numpy as np
import pytest

from posenc_core import MultimodalRotary
from posenc_core.formats import to_gguf, to_megatron, to_params
from posenc_core.scaling import Llama3, LongRoPE, Proportional, YaRN

from ..errors import is_one_sentence

FLOAT32 = 1e-6  # GGUF stores numbers in float32


def architecture_of(encoding):
    """Return an architecture of llama.cpp that may have the encoding."""
    if isinstance(encoding, MultimodalRotary):
        return "qwen3vl" if encoding.arrangement == "interleaved" else "qwen2vl"
    if isinstance(encoding.scaling, Proportional):
        return "gemma4"
    if encoding.layout == "interleaved":
        return "mistral3" if isinstance(encoding.scaling, YaRN) else "granite"
    if isinstance(encoding.scaling, LongRoPE):
        return "phi3"
    if isinstance(encoding.scaling, Llama3):
        return "exaone4"
    return "grok" if isinstance(encoding.scaling, YaRN) else "qwen2"


def gguf(encoding):
    return to_gguf(encoding, architecture=architecture_of(encoding))


def assert_same(read, encoding, *, error=0.0):
    """Check that an encoding that was read is the one that was written, up to the rounding of the format."""
    if not error:
        assert read == encoding
        return
    for name in ("head_dim", "rotary_channels", "layout", "placement", "direction", "axes"):
        assert getattr(read, name) == getattr(encoding, name), name
    lengths = {None, 1}
    if isinstance(encoding.scaling, LongRoPE):
        lengths |= {encoding.scaling.original_max_position_embeddings + 1}
    for length in lengths:
        ours, theirs = encoding.at(length), read.at(length)
        np.testing.assert_allclose(theirs.frequencies(), ours.frequencies(), rtol=error, atol=1e-25)
        assert theirs.attention_factor == pytest.approx(ours.attention_factor, rel=error)


WRITERS = {"gguf": gguf, "megatron": to_megatron, "params": to_params}
ERRORS = {"gguf": FLOAT32, "megatron": 1e-15, "params": 1e-15}


def written_or_refused(target, encoding):
    """Return the encoding in a format, or None if that refuses it in one short sentence."""
    try:
        return WRITERS[target](encoding)
    except ValueError as error:
        refusal = str(error)
    assert is_one_sentence(refusal), refusal
    assert len(refusal) <= 300, refusal
    return None
