"""`MultiHeadAttention` with a rotary and a scoring encoding together, and in a sliding window."""

import numpy as np
import pytest

from posenc_core import (
    Alibi,
    AxialRotary,
    PoPE,
    Rotary,
    SelfExtend,
    attend,
    attention_weights,
    causal,
    grid,
    sliding_window,
)
from posenc_core.encodings import ForgettingBias, Placed, ShawBias, T5Bias
from posenc_core.encodings.placed import RotatedAndBiased

from .test_attention import NAMES, close, raises, tokens

ROTARY, ALIBI = Rotary(head_dim=4, layout="half"), Alibi(num_heads=4)
PAIRS = [
    (ROTARY, ALIBI),
    (ALIBI, ROTARY),
    (PoPE(head_dim=4, num_heads=2), T5Bias(num_heads=4)),
    (ROTARY, ForgettingBias(num_heads=4, head_dim=4)),
    (ROTARY, ShawBias(num_heads=4, head_dim=4, max_distance=3)),
    (SelfExtend(rotary=ROTARY, window=3, group_size=2), ALIBI),
]


def made(on, position, **options):
    """Return a layer of four heads and its projections."""
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(16, 4, position=position, num_kv_heads=2, **options))
    widths, rng = dict(zip(NAMES, (16, 8, 8, 16), strict=True)), np.random.default_rng(5)
    matrices = {name: rng.normal(size=(16, width)).astype(np.float32) / 4 for name, width in widths.items()}
    return on.testing.with_projections(layer, matrices), matrices


def by_parts(on, layer, matrices, x):
    """Return causal attention of the two encodings: rotated by the one, with the scores that the other adds."""
    q, k, v = ((x @ matrices[name]).reshape(1, x.shape[1], -1, 4).swapaxes(1, 2) for name in NAMES[:3])
    at, seen = np.arange(x.shape[1]), np.tri(x.shape[1], dtype=bool)
    rotation, bias = (
        Placed(part.encoding, at, at, {name: on.backend.to_numpy(part.arrays[name]) for name in part.arrays})
        for part in (layer.rotary, layer.scoring)
    )
    both = attend(q, k, v, position=RotatedAndBiased(rotation, bias, (q, k)), mask=seen)
    return both.swapaxes(1, 2).reshape(1, x.shape[1], 16) @ matrices["W_o"]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "+".join(type(one).__name__ for one in pair))
def test_a_rotary_and_a_scoring_encoding_act_together_and_in_a_cache(on, to_backend, pair):
    layer, matrices = made(on, pair)
    assert layer.position == tuple(sorted(pair, key=lambda one: one.adds_scores))
    x = tokens(1, 7, 16)
    wanted = by_parts(on, layer, matrices, x)
    close(on, layer(*[to_backend(x)] * 3, causal=True), wanted)
    first = layer(*[to_backend(x[:, :5])] * 3, causal=True, cache=())
    rest = layer(*[to_backend(x[:, 5:])] * 3, start=5, causal=True, cache=first.cache)
    close(on, rest.result, wanted[:, 5:])
    assert not np.allclose(
        wanted, by_parts(on, *made(on, (ROTARY, Alibi(num_heads=4, slopes=[0.0] * 4))), x), atol=1e-4
    )


def test_a_scoring_encoding_counts_tokens_beside_positions_of_several_axes(on, to_backend):
    layer, _ = made(on, (AxialRotary(head_dim=4, layout="half", axes_dims=(2, 2)), ALIBI))
    x, at = to_backend(tokens(1, 6, 16)), grid(2, 3)
    weights = [layer(x, x, x, positions=p, key_positions=p, weights=True).weights for p in (at, at * 0)]
    assert not np.allclose(*map(on.backend.to_numpy, weights), atol=1e-4)
    plain, _ = made(on, ALIBI)
    close(on, weights[1], on.backend.to_numpy(plain(x, x, x, weights=True).weights))


def test_parts_of_a_pair_may_be_shared_layers(on):
    rotary, scoring = on.backend.RotaryEmbedding(ROTARY), on.backend.AttentionBias(ALIBI)
    layer = on.backend.MultiHeadAttention(16, 4, position=[scoring, rotary])
    assert (layer.rotary, layer.scoring) == (rotary, scoring)


@pytest.mark.parametrize("pair", [(ROTARY, ROTARY), (ALIBI, ALIBI), (ROTARY, ALIBI, ALIBI)])
def test_a_pair_is_one_of_each_family(backend, pair):
    with raises(ValueError, "`position` must be one encoding, or a rotary and a scoring one, got ("):
        backend.MultiHeadAttention(16, 4, position=pair)


@pytest.mark.parametrize("position", [None, ROTARY, (ROTARY, ALIBI)], ids=["none", "rotary", "pair"])
def test_a_window_hides_what_is_far(on, to_backend, position):
    layer, whole = made(on, position, window=3)[0], made(on, position)[0]
    x, at = to_backend(tokens(2, 7, 16)), np.arange(7)
    seen = sliding_window(at, at, 3)
    both_sides, past = (on.backend.to_numpy(whole(x, x, x, mask=mask)) for mask in (seen, seen & causal(at, at)))
    close(on, layer(x, x, x), both_sides)
    close(on, layer(x, x, x, causal=True), past)
    first = layer(*[x[:, :6, :]] * 3, causal=True, cache=())
    last = layer(*[x[:, 6:, :]] * 3, start=6, causal=True, cache=first.cache)
    close(on, last.result, past[:, 6:])
    if hasattr(layer, "hybridize"):
        layer.hybridize()
        close(on, layer(x, x, x, causal=True), past)


def test_a_window_as_long_as_the_sequence_leaves_the_fused_kernel_its_own_mask(backend):
    at = np.arange(5)
    assert sliding_window(at, at, 5).all()
    assert not sliding_window(at, at + 0.5, 4).all()
    with raises(ValueError, "`window` must be at least 1, got 0."):
        backend.MultiHeadAttention(16, 4, window=0)


def test_windows_of_traced_scores_are_weights_of_the_same_keys():
    x, at = tokens(1, 4, 8), np.arange(4)
    weights = attention_weights(x, x, mask=sliding_window(at, at, 2))
    assert (weights[0] > 0).tolist() == (abs(at[:, None] - at) < 2).tolist()
