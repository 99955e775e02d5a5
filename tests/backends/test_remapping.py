"""`MultiHeadAttention` with remapped positions beside what the golden numbers say."""

import numpy as np
import pytest

from posenc_core import DualChunk, LearnedRotary, Placed, Rotary, SelfExtend, attend

from ..errors import rejects
from ..hostile import VALUES, complaint

ROTARY = Rotary(head_dim=4, layout="half")
ENCODINGS = (SelfExtend(rotary=ROTARY, window=3, group_size=2), DualChunk(rotary=ROTARY, chunk_size=5, local_size=2))
TOKENS = np.random.default_rng(8).normal(size=(2, 9, 8)).astype(np.float32)
ROW = np.arange(9)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=["SelfExtend", "DualChunk"])
def test_attention_beside_the_core(on, backend, to_backend, encoding):
    """A layer whose projections are the identity attends as `attend` does with NumPy."""
    layer = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=encoding))
    eye = dict.fromkeys(("W_q", "W_k", "W_v", "W_o"), np.eye(8, dtype=np.float32))
    x, heads = to_backend(TOKENS), TOKENS.reshape(2, 9, 2, 4).swapaxes(1, 2)
    starts = np.array([0, 7])[:, None] + np.arange(9)
    wanted = attend(heads, heads, heads, position=Placed(encoding, starts, starts))
    got = on.testing.with_projections(layer, eye)(x, x, x, positions=starts, key_positions=starts, causal=True)
    got = backend.to_numpy(got).reshape(2, 9, 2, 4).swapaxes(1, 2)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


def test_blocks_may_share_the_tables(on, backend, to_backend):
    shared, x = backend.RotaryEmbedding(ENCODINGS[0]), to_backend(TOKENS)
    blocks = [on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=shared)) for _ in range(2)]
    assert all(block.position == ENCODINGS[0] for block in blocks)
    assert backend.to_numpy(blocks[1](x, x, x, causal=True)).shape == TOKENS.shape
    with rejects(TypeError, "encoding", "MultiHeadAttention"):
        shared(x)


def test_learned_frequencies_may_be_remapped(on, backend, to_backend):
    """At their initial value they are those of `Rotary`."""
    learned = SelfExtend(rotary=LearnedRotary(head_dim=4, layout="half"), window=3, group_size=2)
    eye = dict.fromkeys(("W_q", "W_k", "W_v", "W_o"), np.eye(8, dtype=np.float32))
    layers = (on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=e)) for e in (ENCODINGS[0], learned))
    wanted, got = (on.testing.with_projections(layer, eye)(*[to_backend(TOKENS)] * 3, causal=True) for layer in layers)
    np.testing.assert_allclose(backend.to_numpy(got), backend.to_numpy(wanted), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["start", "positions", "key_positions", "causal"])
def test_calls_refuse_in_one_sentence(on, backend, to_backend, name):
    layer, x = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=ENCODINGS[1])), to_backend(TOKENS)
    given = {"positions": {"key_positions": ROW}, "key_positions": {"positions": ROW}}.get(name, {})
    values = VALUES
    if backend.__name__.endswith("keras"):  # which writes all arguments of a call that fails
        values = {key: value for key, value in VALUES.items() if isinstance(value, int | float | str | None)}
        values = {key: value for key, value in values.items() if key != "10**5000"}
    call = lambda value: layer(x, x, x, **{"causal": True, **given, name: value})
    found = {key: complaint(lambda value=value: call(value)) for key, value in values.items()}
    assert {key: flaw for key, flaw in found.items() if flaw} == {}


def test_other_calls_are_rejected(on, backend, to_backend):
    layer, x = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=ENCODINGS[0])), to_backend(TOKENS)
    with rejects(ValueError, "causal", "SelfExtend"):
        layer(x, x, x)
    with rejects(TypeError, "positions", "integers"):
        layer(x, x, x, positions=ROW + 0.5, key_positions=ROW + 0.5, causal=True)
