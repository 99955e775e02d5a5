"""A call in another library's words is answered in one sentence with ours; no message names an internal method."""

import numpy as np
import pytest

from posenc_core import Alibi, Learned, Linear, Rotary
from posenc_core._foreign_names import NAMES, VALUES

ROTARY, X, Q = Rotary(head_dim=4, layout="half"), np.ones((1, 3, 8)), np.ones((1, 2, 3, 4))
LAYERS = {
    "MultiHeadAttention": ((8, 2), (X, X, X)),
    "RotaryEmbedding": ((ROTARY,), (Q,)),
    "PositionalEncoding": ((8,), (X,)),
    "AttentionBias": ((Alibi(num_heads=2),), (np.ones((1, 2, 3, 3)),)),
}
# by layer: the argument of a call, and what the answer says
CALLS = [
    ("MultiHeadAttention", "attn_mask", "it is `mask` here (True where a query sees a key), got None."),
    ("MultiHeadAttention", "key_padding_mask", "it is `mask` here (True where a query sees a key), got None."),
    ("MultiHeadAttention", "is_causal", "it is `causal` here, got None."),
    ("MultiHeadAttention", "dropout_p", "give `dropout` when the layer is made, got None."),
    ("RotaryEmbedding", "offset", "it is `start` here, got None."),
    ("PositionalEncoding", "position_ids", "it is `positions` here, got None."),
    ("AttentionBias", "offset", "it is `start` here, got None."),
]
MADE = [
    ("MultiHeadAttention", {"embed_dim": 8, "num_heads": 2}, "`embed_dim`; it is `num_hiddens` here, got 8."),
    ("MultiHeadAttention", {"num_hiddens": 8, "num_heads": 2, "causal": True}, "give `causal` in the call, got True."),
    ("RotaryEmbedding", {"dim": 64}, "it is `head_dim` of its `encoding`, an encoding such as `Rotary`, got 64."),
    ("RotaryEmbedding", {"encoding": ROTARY, "rope_theta": 5.0}, "it is `base` of its `encoding`, an encoding such as"),
    ("RotaryEmbedding", {"encoding": ROTARY, "num_positions": 5}, "it is `max_len` here, got 5."),
    ("RotaryEmbedding", {"encoding": ROTARY, "maxlen": 5}, "has no argument `maxlen`, but max_len; got 5."),
    ("RotaryEmbedding", {}, "`encoding` must be given to `RotaryEmbedding`."),
    ("PositionalEncoding", {"num_hiddens": Learned(dim=4, length=5)}, "give that as `encoding=…`."),
]
VALUES_MADE = [
    (lambda: Rotary(64), "`Rotary` takes its arguments by name, as `head_dim=…`, got 64 without one."),
    (lambda: Rotary(dim=64, layout="half"), "`Rotary` has no argument `dim`; it is `head_dim` here, got 64."),
    (lambda: Rotary(head_dim=4, theta=1e4), "`Rotary` has no argument `theta`; it is `base` here, got 10000.0."),
    (lambda: Rotary(head_dim=4, layout="neox"), "got 'neox', which is 'half' here."),
    (Alibi, "`num_heads` must be given to `Alibi`."),
    (lambda: Linear(factor=2.0, foo=1), "`Linear` has no argument `foo`, but factor"),
]


def sentence(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return str(caught.value).replace("\n", " ")


@pytest.mark.parametrize(("layer", "name", "answer"), CALLS)
def test_calls(backend, to_backend, layer, name, answer):
    made, given = LAYERS[layer]
    called = getattr(backend, layer)(*made)
    got = sentence(lambda: called(*map(to_backend, given), **{name: None}))
    assert f"`{layer}` has no argument `{name}`; {answer}" in got


@pytest.mark.parametrize(("layer", "arguments", "answer"), MADE)
def test_constructors(backend, layer, arguments, answer):
    got = sentence(lambda: getattr(backend, layer)(**arguments))
    assert answer in got
    assert "__init__" not in got


def test_more_arguments_by_place_than_there_are(backend):
    got = sentence(lambda: backend.RotaryEmbedding(ROTARY, 2048))
    assert got == "`RotaryEmbedding` takes its arguments by name, as `max_len=…`, got 2048 without one."


@pytest.mark.parametrize(("call", "answer"), VALUES_MADE)
def test_values(call, answer):
    assert answer in sentence(call)


def test_no_name_of_ours_stands_for_itself_and_no_value_twice():
    assert not [own for own, others in NAMES.items() if own in others.split()]
    assert all(
        len(words) == len(set(words))
        for table in VALUES.values()
        for words in [[word for others in table.values() for word in others.split()]]
    )
