"""The saved state of a model: its parameters by name, and the encodings that they were trained with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from posenc_core.encodings import Encoding
from posenc_core.layers.encoding_bytes import check_saved, to_bytes

from .base import Layer


def to_state(model: nn.Module, /) -> dict[str, mx.array]:
    """Return the parameters of a layer, or of any model that has some, and the encodings of the layers, by name.

    An encoding is the bytes of its JSON, so that `mx.save_safetensors` and `mx.savez` save it with the parameters.

    >>> from posenc_backends.mlx import PositionalEncoding
    >>> from posenc_core import Learned
    >>> state = to_state(PositionalEncoding(8, encoding=Learned(dim=8, length=5)))
    >>> state["table"].shape, bytes(state["encoding"])[:17]
    ((5, 8), b'{"kind": "Learned')
    """
    return tree_flatten(model.parameters(), destination={}) | {
        name: mx.array(to_bytes(encoding)) for name, encoding in _encodings(model)
    }


def from_state(model: nn.Module, state: Mapping[str, mx.array], /) -> nn.Module:
    """Set the parameters of a model to those that `to_state` gave, and return the model.

    Args:
        model: of the structure that was saved.
        state: by name, as `mx.load` reads it from a file.
    Raises:
        ValueError: if a layer of the model has another encoding than was saved (both are named), or if a parameter is
            missing, of another shape, or of no place in the model.

    >>> from posenc_backends.mlx import AttentionBias
    >>> from posenc_core import T5Bias
    >>> state = to_state(AttentionBias(T5Bias(num_heads=2)))
    >>> from_state(AttentionBias(T5Bias(num_heads=2)), state)
    AttentionBias(T5Bias(num_heads=2))
    """
    encodings = dict(_encodings(model))
    check_saved(encodings, state)
    return model.load_weights([(name, array) for name, array in state.items() if name not in encodings])


def _encodings(model: nn.Module) -> Iterator[tuple[str, Encoding]]:
    """Yield the encodings of the layers in a model, by name."""
    for path, module in model.named_modules():
        if isinstance(module, Layer):
            yield f"{path}.encoding".removeprefix("."), module.encoding
