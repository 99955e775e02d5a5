"""The layers, written once for every framework; each adapter derives its own from them."""

from .attention_bias import AttentionBias
from .attention_output import AttentionOutput
from .backend import Backend
from .base import BaseLayer
from .multi_head_attention import MultiHeadAttention
from .positional_encoding import PositionalEncoding
from .query_key_norm import QueryKeyNorm
from .query_scaling import QueryScaling
from .rotary_embedding import RotaryEmbedding
from .tables import TableLayer

__all__ = [
    "AttentionBias", "AttentionOutput", "Backend", "BaseLayer", "MultiHeadAttention", "PositionalEncoding",
    "QueryKeyNorm", "QueryScaling", "RotaryEmbedding", "TableLayer",
]  # fmt: skip
