"""PoPE in the layers of every framework: the axes, dtypes, caches and compilers that golden numbers do not reach."""

import numpy as np
import pytest

from posenc_core import PoPE

ENCODING = PoPE(head_dim=8, num_heads=2)
PHASE = -np.abs(np.random.default_rng(1).normal(size=(2, 8))).astype(np.float32)


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def with_phase(on, dtype="float32"):
    layer = on.testing.eval_mode(on.backend.RotaryEmbedding(ENCODING), dtype)
    return on.testing.with_parameters(layer, {"phase": PHASE})


def expected(x, positions, *, keys):
    """Return the tokens by NumPy, `(..., heads, length, channels)`."""
    angles = np.asarray(positions)[..., None] * 10000 ** (-np.arange(8) / 8)
    angles = angles if angles.ndim == 2 else angles[:, None]
    angles = angles + (PHASE[:, None] if keys else 0)
    magnitudes = np.logaddexp(0, x)
    return np.concatenate([magnitudes * np.cos(angles), magnitudes * np.sin(angles)], axis=-1)


@pytest.mark.parametrize("seq_axis", [-2, -3, 1])
def test_heads_lie_beside_the_sequence(on, seq_axis):
    q, k = drawn(3, 4, 5, 8), drawn(3, 2, 5, 8)
    positions = np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])
    given = [on.backend.from_numpy(x if seq_axis == -2 else x.swapaxes(1, 2).copy()) for x in (q, k)]
    found = [on.backend.to_numpy(x) for x in with_phase(on)(*given, positions=positions, seq_axis=seq_axis)]
    for ours, x, keys in zip(found, (q, k), (False, True), strict=True):
        moved = ours if seq_axis == -2 else ours.swapaxes(1, 2)
        np.testing.assert_allclose(moved, expected(x, positions, keys=keys), rtol=0, atol=1e-6)


def test_compiled_layers_agree(on, traced):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    k = drawn(3, 2, 5, 8)
    call = traced(with_phase(on))
    found = call(on.backend.from_numpy(k), on.backend.from_numpy(k), start=3)
    for ours, keys in zip(found, (False, True), strict=True):
        np.testing.assert_allclose(on.backend.to_numpy(ours), expected(k, range(3, 8), keys=keys), rtol=0, atol=1e-6)


def test_half_precision_is_rounded_once(on):
    if "float16" in on.known_failures:
        pytest.skip("This framework has no float16.")
    x = drawn(1, 2, 5, 8).astype(np.float16).astype(np.float32)
    tokens = on.testing.cast(on.backend.from_numpy(x), "float16")
    for found, keys in zip(with_phase(on, "float16")(tokens, tokens), (False, True), strict=True):
        assert "float16" in str(found.dtype)
        wanted = expected(x, range(5), keys=keys)
        apart = np.abs(on.backend.to_numpy(found) - wanted)
        assert (apart <= 2.0**-11 * np.abs(wanted) * 1.01 + 2.0**-20).all()


def test_a_cache_has_widened_keys(on):
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(32, 4, position=ENCODING, num_kv_heads=2))
    x = drawn(3, 5, 32)
    whole = on.backend.to_numpy(layer(*[on.backend.from_numpy(x)] * 3, causal=True))
    cache, parts = (), []
    for part in (slice(0, 3), slice(3, 4), slice(4, 5)):
        tokens = on.backend.from_numpy(x[:, part].copy())
        output = layer(tokens, tokens, tokens, None, part.start, cache=cache, causal=True)
        cache = output.cache
        parts.append(on.backend.to_numpy(output.result))
    assert [tuple(array.shape) for array in cache] == [(3, 2, 5, 16), (3, 2, 5, 8)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-5)
