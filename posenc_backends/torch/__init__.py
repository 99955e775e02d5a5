"""The PyTorch backend: positional encodings as `torch.nn.Module`s."""

from posenc_backends import require

require("torch", install="posenc[torch]")

import sys

from . import kernel, layers, namespace
from .backend import from_numpy, is_traced, to_numpy
from .flex import score_mod
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from .rotary import apply_rotary

sys.modules[f"{__name__}.attention"] = layers  # whole modules that version 0.1 saved name it

__all__ = [
    "AttentionBias",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RotaryEmbedding",
    "apply_rotary",
    "from_numpy",
    "is_traced",
    "kernel",
    "namespace",
    "score_mod",
    "to_numpy",
]
