"""The rope type `"posenc"` in configs of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from posenc_core._array_api.checks import shown

from ..backend import from_numpy
from . import table_forms

ROPE_TYPE = "posenc"


def register() -> None:
    """Add the rope type `"posenc"` to those that configs of transformers may have.

    The key `encoding` of their `rope_parameters` contains an encoding as text, as `repr` writes it, or as JSON of its
    `to_dict`; without the key it is the encoding without scaling. Models then take exact frequencies and the attention
    factor from it. They still compute angles in float32: for exact tables, call `replace_rotary` as well.

    `load_rope` reads such configs, in every framework.

    The how-to page *Use it in transformers* has an example.

    Raises:
        ImportError: if transformers is not installed, or is older than version 5.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RotaryEmbeddingConfigMixin

    ROPE_INIT_FUNCTIONS[ROPE_TYPE] = compute_parameters
    setattr(RotaryEmbeddingConfigMixin, f"_validate_{ROPE_TYPE}_rope_parameters", _validate)


def compute_parameters(
    config: Any, device: Any = None, seq_len: int | None = None, layer_type: str | None = None
) -> tuple[Tensor, float]:
    """Return the frequencies and the attention factor of a config, as the functions of transformers do.

    Args:
        config: a config of transformers.
        device: where the frequencies are put; the default device if None.
        seq_len: not used.
        layer_type: the layers, if they differ.
    Returns:
        Radians per position, rounded once to float32, `(pairs,)`, and the factor of cosines and sines.
    Raises:
        ValueError: if the config describes no RoPE, or not by frequencies alone, or by ones that depend on the length
            of the sequence.
    """
    from posenc_core.huggingface import load_rope

    content = config.to_dict()
    if layer_type == "full_attention":  # Gemma 4 passes a config of these layers alone, with their width in `head_dim`
        content.setdefault("global_head_dim", content.get("head_dim"))
    # Of a type, without the others, whose width such a config has not.
    encodings = [load_rope(content, layer_type=layer_type)] if layer_type else [*table_forms.loaded(content, None)]
    if len(encodings) != 1 or encodings[0] is None:
        raise ValueError(f"`rope_parameters` must describe one RoPE, got {shown(config.rope_parameters)}.")
    encoding = encodings[0]
    if encoding.keys_differ or encoding.parameters():
        raise ValueError(
            f"`encoding` must rotate by fixed frequencies alone, got {shown(encoding)}; transformers computes them "
            "once, and learns none. `replace_rotary` takes one that learns."
        )
    if encoding.max_seq_len is not None:
        raise ValueError(
            f"`encoding` must have the same frequencies at each length, got {shown(encoding)}; transformers computes "
            "them once. Give its scaling a `seq_len`, or call `replace_rotary` with it."
        )
    frequencies = from_numpy(encoding.frequencies().astype(np.float32))
    return frequencies if device is None else frequencies.to(device), encoding.attention_factor


def _validate(config: Any, rope_parameters: Any, ignore_keys: Any = None) -> None:
    """Accept the keys of the rope type, which `load_rope` checks when a model is made."""
