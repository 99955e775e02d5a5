"""Plain causal self-attention asks the framework's fused attention for `is_causal`, and gives it no mask."""

import sys

import numpy as np
import pytest

from posenc_core import Alibi, Rotary, attend

RNG = np.random.default_rng(3)
FUSED = {  # where each framework has its own, and what it calls its mask
    "torch": ("torch.nn.functional", "scaled_dot_product_attention", "attn_mask"),
    "jax": ("jax.nn", "dot_product_attention", "mask"),
    "paddle": ("paddle.nn.functional", "scaled_dot_product_attention", "attn_mask"),
}
ROTARY = Rotary(head_dim=4, layout="half")


@pytest.fixture
def asked(on, monkeypatch):
    """What the framework's fused attention is asked for: `(is_causal, whether there is a mask)` of each call."""
    own = getattr(on.backend.namespace, "fused_attention", None)
    if own is None:
        pytest.skip("The backend has no kernel.")
    module, name, mask = FUSED[own.__module__.split(".")[1]]
    original, calls = getattr(sys.modules[module], name), []

    def spy(q, k, v, *rest, **options):
        given = options.get(mask, rest[0] if rest else None)
        calls.append((options.get("is_causal", False), given is not None))
        return original(q, k, v, *rest, **options)

    monkeypatch.setattr(sys.modules[module], name, spy)
    if hasattr(own, "clear_cache"):  # of JAX, which calls it once for each form of call
        own.clear_cache()
    return calls


def make(on, position=ROTARY):
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(16, 4, position=position, num_kv_heads=2))
    rng = np.random.default_rng(5)
    widths = {"W_q": 16, "W_k": 8, "W_v": 8, "W_o": 16}
    matrices = {name: rng.normal(size=(16, width)).astype(np.float32) / 4 for name, width in widths.items()}
    return on.testing.with_projections(layer, matrices)


def triangle(on, length):
    return on.backend.from_numpy(np.tri(length, dtype=bool))


@pytest.mark.parametrize("position", [None, ROTARY], ids=repr)
def test_causal_self_attention_has_no_mask(on, to_backend, asked, position):
    layer, x = make(on, position), to_backend(RNG.normal(size=(2, 7, 16)).astype(np.float32))
    cotangent = to_backend(RNG.normal(size=(2, 7, 16)).astype(np.float32))
    got = layer(x, x, x, causal=True)
    assert asked == [(True, False)]
    wanted = layer(x, x, x, mask=triangle(on, 7))
    assert asked[1:] == [(False, True)]
    np.testing.assert_allclose(on.backend.to_numpy(got), on.backend.to_numpy(wanted), rtol=0, atol=4e-6)
    got, wanted = (
        on.backend.to_numpy(on.testing.gradient(lambda x, o=options: layer(x, x, x, **o), x, cotangent))
        for options in ({"causal": True}, {"mask": triangle(on, 7)})
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5)


def test_the_first_tokens_of_a_cache_have_no_mask_and_later_ones_their_own(on, to_backend, asked):
    layer, x = make(on), RNG.normal(size=(2, 7, 16)).astype(np.float32)
    whole = on.backend.to_numpy(layer(*[to_backend(x)] * 3, causal=True))
    first, part, last = (to_backend(x[:, tokens]) for tokens in (slice(3), slice(3, 6), slice(6, 7)))
    del asked[:]
    result, _, cache = layer(first, first, first, causal=True, cache=())
    results = [result]
    for start, tokens in ((3, part), (6, last)):
        result, _, cache = layer(tokens, tokens, tokens, start=start, causal=True, cache=cache)
        results.append(result)
    assert asked == [(True, False), (False, True), (False, False)]  # the last token sees all others
    got = np.concatenate(list(map(on.backend.to_numpy, results)), axis=1)
    np.testing.assert_allclose(got, whole, rtol=0, atol=4e-6)


@pytest.mark.parametrize(
    "options", [{"start": 2}, {"valid_lens": np.array([7, 3])}, {"positions": range(7), "key_positions": range(7)}]
)
def test_other_calls_have_a_mask(on, to_backend, asked, options):
    layer, x = make(on), to_backend(RNG.normal(size=(2, 7, 16)).astype(np.float32))
    layer(x, x, x, causal=True, **options)
    assert asked == [(False, True)]


def test_order_hides_by_the_array_where_positions_rotate(on, to_backend, asked):
    """Positions of packed sequences begin anew; a kernel that shards the sequence needs no mask."""
    layer, x = make(on), to_backend(RNG.normal(size=(2, 7, 16)).astype(np.float32))
    at = {"positions": [0, 1, 2, 0, 1, 2, 3], "key_positions": [0, 1, 2, 0, 1, 2, 3]}
    got, wanted = layer(x, x, x, causal="order", **at), layer(x, x, x, mask=triangle(on, 7), **at)
    assert asked == [(True, False), (False, True)]
    np.testing.assert_allclose(on.backend.to_numpy(got), on.backend.to_numpy(wanted), rtol=0, atol=4e-6)


def test_a_bias_goes_with_a_mask(on, to_backend, asked):
    layer, x = make(on, Alibi(num_heads=4)), to_backend(RNG.normal(size=(2, 7, 16)).astype(np.float32))
    got, wanted = layer(x, x, x, causal=True), layer(x, x, x, mask=triangle(on, 7))
    assert not any(is_causal for is_causal, _ in asked)
    np.testing.assert_allclose(on.backend.to_numpy(got), on.backend.to_numpy(wanted), rtol=0, atol=4e-6)


@pytest.mark.parametrize("length", [1, 7])
def test_attend_agrees_with_a_mask(on, to_backend, asked, length):
    q, k = (to_backend(RNG.normal(size=(2, heads, length, 8)).astype(np.float32)) for heads in (4, 2))
    got, wanted = attend(q, k, k, is_causal=True), attend(q, k, k, mask=triangle(on, length))
    assert asked == [(True, False), (False, True)]
    np.testing.assert_allclose(on.backend.to_numpy(got), on.backend.to_numpy(wanted), rtol=0, atol=1e-6)
