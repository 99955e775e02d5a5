"""No attribute of a layer says something else than the layer computes: setting it is refused, or has an effect."""

from dataclasses import replace

import pytest

from posenc_core import Alibi, Learned, LearnedQueryScale, QueryScale, Rotary, Sinusoidal, T5Bias

ROTARY, OTHER = (Rotary(head_dim=4, layout="half", base=base) for base in (1e4, 500.0))
LAYERS = {
    "PositionalEncoding": lambda on: on.PositionalEncoding(8, encoding=Learned(dim=8, length=6)),
    "RotaryEmbedding": lambda on: on.RotaryEmbedding(ROTARY, max_len=6),
    "AttentionBias": lambda on: on.AttentionBias(T5Bias(num_heads=2)),
    "QueryScaling": lambda on: on.QueryScaling(QueryScale(length=2, scale=1.0), max_len=6),
    "MultiHeadAttention, rotary": lambda on: on.MultiHeadAttention(8, 2, position=ROTARY, max_len=6),
    "MultiHeadAttention, scoring": lambda on: on.MultiHeadAttention(8, 2, position=Alibi(num_heads=2)),
}
VALUES = {  # other values of attributes, by the class of the present one
    Rotary: OTHER, Learned: Sinusoidal(dim=8), T5Bias: Alibi(num_heads=2), Alibi: T5Bias(num_heads=2), str: "concat",
    QueryScale: LearnedQueryScale(num_heads=2), int: 4, type(None): OTHER, frozenset: frozenset(),
}  # fmt: skip
FREE = {  # what each call reads, or is the state itself, and what frameworks keep for themselves
    "W_k", "W_o", "W_q", "W_v", "arrays", "backend", "buckets", "constants", "cos", "dropout", "dtype", "factors",
    "offset_table", "parameters", "scale", "sin", "slopes", "table",
    "activity_regularizer", "autocast", "built", "call_signature_parameters", "name", "supports_jit",
    "supports_masking", "training",
}  # fmt: skip


@pytest.fixture(params=LAYERS.values(), ids=LAYERS)
def layer(request, backend):
    return request.param(backend)


def own_attributes(layer):
    """Return the public attributes that our classes, and not those of the framework, give a layer."""
    parts = [vars(layer).get(name, {}) for name in ("_modules", "_sub_layers")]
    stored = {**vars(layer), **parts[0], **parts[1], **(layer if isinstance(layer, dict) else {})}
    bases = [cls for cls in type(layer).__mro__ if not cls.__module__.startswith("posenc")]
    foreign = {name for cls in bases for name in dir(cls)} | FREE
    return {name: value for name, value in stored.items() if not name.startswith("_") and name not in foreign}


def test_attributes_that_say_what_a_layer_is_cannot_be_changed(layer, backend):
    found = own_attributes(layer)
    assert {"encoding"} <= found.keys() or {"position", "num_heads", "rotary", "scoring", "query_scale"} <= found.keys()
    for name, value in found.items():
        other = value is False if isinstance(value, bool) else VALUES.get(type(value))
        other = backend.RotaryEmbedding(OTHER) if name in {"rotary", "scoring", "scaling"} else other
        with pytest.raises(AttributeError, match=f"`{name}` of a {type(layer).__name__} cannot be changed; create an"):
            setattr(layer, name, other)
        assert getattr(layer, name) is value


def test_a_layer_of_an_equal_encoding_may_take_the_place_of_a_part(backend, request):
    layer = backend.MultiHeadAttention(8, 2, position=ROTARY)
    equal = backend.RotaryEmbedding(replace(ROTARY))
    if request.config.getoption("--backend") == "jax":  # whose layers are immutable
        with pytest.raises(AttributeError, match="`rotary` of a MultiHeadAttention cannot be changed"):
            layer.rotary = equal
    else:
        layer.rotary = equal
        assert layer.rotary is equal
