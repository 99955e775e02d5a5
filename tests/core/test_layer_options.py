"""Every option of a constructor changes the layer, or is refused: none is taken and then ignored."""

import warnings
from inspect import signature

import numpy as np
import pytest

from posenc_backends import numpy as layers
from posenc_core import QKNorm, QueryScale
from posenc_core.encodings import Additive, Encoding, QueryEncoding, Scoring
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.encodings.examples import examples

SIZES = {"dim": 16, "head_dim": 8, "num_heads": 2}
OTHERS = {  # another value of each option
    "dropout": 0.5, "max_len": 3, "combine": "concat", "seq_axis": 1, "auto_expand": False, "bias": True,
    "num_kv_heads": 1, "query_scale": QueryScale(length=2, scale=1.0), "window": 2,
    "qk_norm": QKNorm(head_dim=8),
}  # fmt: skip
FAMILIES = {
    "PositionalEncoding": (Additive, lambda encoding: {"num_hiddens": 16, "encoding": encoding}),
    "RotaryEmbedding": (QueryKeyEncoding, lambda encoding: {"encoding": encoding}),
    "QueryScaling": (QueryEncoding, lambda encoding: {"encoding": encoding}),
    "AttentionBias": (Scoring, lambda encoding: {"encoding": encoding}),
    "MultiHeadAttention": (
        (QueryKeyEncoding, Scoring), lambda encoding: {"num_hiddens": 16, "num_heads": 2, "position": encoding}
    ),
}  # fmt: skip
CASES = [
    (name, encoding)
    for name, (kinds, _) in FAMILIES.items()
    for encoding in [one for one in examples(Encoding, **SIZES) if isinstance(one, kinds)]
]


def contents(layer):
    """Return what a layer is, in which two layers of the same options are equal."""
    found = {**vars(layer), **getattr(layer, "arrays", {})}
    return {
        name: value.shape if isinstance(value, np.ndarray) else contents(value) if hasattr(value, "backend") else value
        for name, value in found.items()
        if name != "arrays" and not isinstance(value, layers.backend.Linear)
    } | {name: value.bias is None for name, value in found.items() if isinstance(value, layers.backend.Linear)}


@pytest.mark.parametrize(("name", "encoding"), CASES, ids=lambda one: one if isinstance(one, str) else repr(one))
def test_no_option_is_ignored(name, encoding):
    kind, arguments = getattr(layers, name), FAMILIES[name][1](encoding)
    usual = contents(kind(**arguments))
    assert contents(kind(**arguments)) == usual
    for option in signature(kind).parameters.keys() - arguments.keys() | {"max_len", "auto_expand"}:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tables shorter than the encoding is for
                made = kind(**arguments, **{option: OTHERS[option]})
        except (TypeError, ValueError):
            continue
        # what learns its rows, or computes them, holds as many as any number of positions needs
        is_met = option == "max_len" and (encoding.parameters() or not encoding.table_names)
        assert is_met or contents(made) != usual, option
