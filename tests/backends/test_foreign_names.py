"""A call in another library's words is answered in one sentence with ours; no message names an internal method."""

import numpy as np
import pytest

from posenc_core import Alibi, Learned, LearnedRotary, Linear, Rotary, T5Bias
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


@pytest.mark.parametrize("given", [1, 2])
def test_tokens_of_attention_that_are_missing(backend, to_backend, given):
    layer, missing = backend.MultiHeadAttention(8, 2), "keys" if given == 1 else "values"
    got = sentence(lambda: layer(*[to_backend(X)] * given))
    assert f"`{missing}` must be given to `MultiHeadAttention`; self-attention has the arguments `(x, x, x)`." in got


@pytest.mark.parametrize("layer", LAYERS)
def test_no_message_names_an_internal_method(backend, layer):
    called = getattr(backend, layer)(*LAYERS[layer][0])
    got = sentence(called)
    assert not [name for name in ("add(", "rotate(", "attend(", "scale(", "forward(", "hybrid_forward") if name in got]


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


def test_the_axis_of_the_sequence_is_set_once(on, to_backend):
    layer, x = on.backend.RotaryEmbedding(ROTARY, seq_axis=1), np.linspace(-1, 1, 48).reshape(2, 3, 2, 4)
    usual = on.backend.RotaryEmbedding(ROTARY)
    wanted = on.backend.to_numpy(usual(to_backend(x.swapaxes(1, 2)), start=5)).swapaxes(1, 2)
    np.testing.assert_array_equal(on.backend.to_numpy(layer(to_backend(x), start=5)), wanted)
    if hasattr(layer, "hybridize"):
        layer.hybridize()
        wanted = on.backend.to_numpy(usual(to_backend(x), seq_axis=1))
        np.testing.assert_array_equal(on.backend.to_numpy(layer(to_backend(x))), wanted)
    attention = on.testing.eval_mode(on.backend.MultiHeadAttention(8, 2, position=layer))
    plain = on.testing.eval_mode(on.backend.MultiHeadAttention(8, 2, position=ROTARY))
    matrices = {f"W_{name}": np.eye(8, dtype=np.float32) for name in "qkvo"}
    both = (on.testing.with_projections(one, matrices) for one in (attention, plain))
    tokens = to_backend(np.linspace(-1, 1, 24).reshape(1, 3, 8))
    np.testing.assert_array_equal(*[on.backend.to_numpy(one(tokens, tokens, tokens)) for one in both])
    with pytest.raises(ValueError, match="`seq_axis` must be an axis before the last, such as -2, got -1"):
        on.backend.RotaryEmbedding(ROTARY, seq_axis=-1)


def test_names_that_weight_decay_leaves_out(backend):
    learned = LearnedRotary(head_dim=4, layout="half")
    layer = backend.MultiHeadAttention(8, 2, position=(learned, T5Bias(num_heads=2)))
    assert layer.no_weight_decay() == {"scoring.table", *(f"rotary.{name}" for name in learned.parameters())}
    assert backend.RotaryEmbedding(ROTARY).no_weight_decay() == set()
