"""Layers: what the public layers of every room do, so that a room only adds its framework's shell."""

from .attention_bias import Bias, check_scoring
from .multi_head_attention import Attention
from .options import AttentionOutput, Options, check_attention, check_valid_lens
from .positional_encoding import Addition, additive_for, check_dropout
from .rotary_embedding import Rotation, check_rotary
from .sharing import encoding_of, layer_of

__all__ = [
    "Addition",
    "Attention",
    "AttentionOutput",
    "Bias",
    "Options",
    "Rotation",
    "additive_for",
    "check_attention",
    "check_dropout",
    "check_rotary",
    "check_scoring",
    "check_valid_lens",
    "encoding_of",
    "layer_of",
]
