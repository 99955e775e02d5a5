"""The Keras backend: positional encodings as `keras.layers.Layer`s, on TensorFlow, JAX or PyTorch."""

from posenc_backends import require

require("keras", extra="keras")
try:
    import keras  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "jax", "torch"):
        raise
    raise ImportError(
        f"`{error.name}` is not installed, on which Keras runs; install it, or name another in `KERAS_BACKEND`.",
        name=error.name,
    ) from error

from .backend import from_numpy, is_traced, namespace, to_numpy
from .layers import AttentionBias, MultiHeadAttention, PositionalEncoding, QueryScaling, RotaryEmbedding

__all__ = [
    "AttentionBias", "MultiHeadAttention", "PositionalEncoding", "QueryScaling", "RotaryEmbedding", "from_numpy",
    "is_traced", "namespace", "to_numpy",
]  # fmt: skip
