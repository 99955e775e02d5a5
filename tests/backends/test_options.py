"""Every option of a layer changes the layer, or is refused; `auto_expand=False` is strict about `max_len`."""

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    LearnedRotary,
    QueryScale,
    RandomFourierFeatures,
    Rotary,
    T5Bias,
)

ROTARY, SCALE = Rotary(head_dim=4, layout="half"), QueryScale(length=2, scale=1.0)
MIXED = RandomFourierFeatures(dim=4, num_axes=2, scale=1.0, seed=0)
TABLES = {
    "PositionalEncoding": lambda on, **options: on.PositionalEncoding(4, 0.0, 9, **options),
    "RotaryEmbedding": lambda on, **options: on.RotaryEmbedding(ROTARY, max_len=9, **options),
    "QueryScaling": lambda on, **options: on.QueryScaling(SCALE, max_len=9, **options),
}


def tokens(to_backend, length):
    return to_backend(np.ones((1, 2, length, 4), np.float32))


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_strict_tables_end_where_they_were_made(backend, to_backend, make):
    layer, usual = make(backend, auto_expand=False), make(backend)
    fit = tokens(to_backend, 3)
    for given in ({"start": 6}, {"positions": to_backend([0, 8, 3])}):
        np.testing.assert_array_equal(*[backend.to_numpy(one(fit, **given)) for one in (layer, usual)])
    message = "`max_len` is 9, but position 9 is asked for of a layer with `auto_expand=False`; make it with `max_len=1"
    for given in ({"start": 7}, {"positions": to_backend([0, 9, 3])}, {"start": to_backend([7])}):
        with pytest.raises(ValueError, match=message):
            layer(fit, **given)
        usual(fit, **given)


def test_strict_tables_inside_attention(on, to_backend):
    layer = on.backend.MultiHeadAttention(8, 2, position=ROTARY, query_scale=SCALE, max_len=9, auto_expand=False)
    x = to_backend(np.ones((1, 10, 8), np.float32))
    with pytest.raises(ValueError, match="`max_len` is 9, but position 9 is asked for of a layer with"):
        on.testing.eval_mode(layer)(x, x, x)


@pytest.mark.parametrize(
    ("layer", "arguments"),
    [
        ("AttentionBias", {"encoding": Alibi(num_heads=2), "max_len": 3}),
        ("AttentionBias", {"encoding": T5Bias(num_heads=2), "auto_expand": False}),
        ("RotaryEmbedding", {"encoding": LearnedRotary(head_dim=4, layout="half"), "auto_expand": False}),
        ("PositionalEncoding", {"num_hiddens": 4, "encoding": MIXED, "auto_expand": False}),
        *[
            ("MultiHeadAttention", {"num_hiddens": 8, "num_heads": 2, "position": position, **option})
            for position in (None, Alibi(num_heads=2), "a layer")
            for option in ({"max_len": 3}, {"auto_expand": False})
        ],
    ],
)  # fmt: skip
def test_options_without_an_effect_are_refused(backend, layer, arguments):
    if arguments.get("position") == "a layer":
        arguments = {**arguments, "position": backend.RotaryEmbedding(ROTARY)}
    with pytest.raises((TypeError, ValueError), match=r"max_len|auto_expand"):
        getattr(backend, layer)(**arguments)
