"""The PyTorch backend: positional encodings as `torch.nn.Module`s."""

from posenc_backends import require

require("torch", extra="torch")

from . import namespace
from .backend import from_numpy, is_traced, to_numpy
from .flex import score_mod
from .huggingface.apply_rotary import apply_rotary_transformers, rotary_kernel
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding
from .rotation import kernel
from .rotation.apply_rotary import apply_rotary
from .rotation.qk_norm import apply_qk_norm_rotary

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding",
    "apply_qk_norm_rotary", "apply_rotary", "apply_rotary_transformers", "from_numpy", "is_traced", "kernel",
    "namespace", "rotary_kernel", "score_mod", "to_numpy",
]  # fmt: skip
