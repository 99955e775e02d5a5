"""PoPE against a program that has it, as recorded, and against its definition.

`recorded_pope.json`: tokens as `PolarEmbedding` and `apply_polar_pos_emb` of x-transformers 2.31.10 return them, in
float32. `PoPE` of lucidrains/PoPE-pytorch (ee11cab) differs by up to 4e-7, with cosines and sines side by side.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_backends.numpy import MultiHeadAttention, RotaryEmbedding
from posenc_core import Placed, PoPE, Rotary, attend, attend_by_block
from posenc_core.transformer.config import Transformer
from posenc_core.transformer.model import attention_position

from ...errors import rejects

RECORDED = json.loads((Path(__file__).parent / "recorded_pope.json").read_text(encoding="utf-8"))
ENCODING = PoPE(head_dim=8, num_heads=2)


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def with_phase(encoding, phase):
    layer = RotaryEmbedding(encoding)
    layer.set_tables({"phase": np.float32(phase)})
    return layer


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["origin"])
def test_programs_that_have_it_return_the_same_tokens(case):
    q, k = (np.float32(case[name]) for name in "qk")
    found = with_phase(ENCODING, case["phase"])(q, k, positions=case["positions"])
    for name, ours in zip("qk", found, strict=True):
        np.testing.assert_allclose(ours, case[f"rotated_{name}"], rtol=0, atol=2e-5)  # their angles are float32


@pytest.mark.parametrize("operation", [attend, attend_by_block])
def test_scores_are_sums_over_channels(operation):
    phase = -np.abs(drawn(2, 8, seed=3)) * 2
    q, k, v = drawn(3, 4, 5, 8), drawn(3, 2, 7, 8, seed=1), drawn(3, 2, 7, 16, seed=2)  # as wide as the widened keys
    placed = Placed(ENCODING, range(2, 7), range(7), {"phase": phase})
    result = operation(q, k, v, position=placed)
    magnitudes_q, magnitudes_k = (np.logaddexp(0, x.astype(np.float64)) for x in (q, np.repeat(k, 2, axis=1)))
    distances = (np.arange(7) - np.arange(2, 7)[:, None])[..., None] * 10000 ** (-np.arange(8) / 8)
    cosines = np.cos(distances + np.repeat(np.maximum(phase, -2 * np.pi), 2, axis=0)[:, None, None])
    scores = np.einsum("bhqc,bhkc,hqkc->bhqk", magnitudes_q, magnitudes_k, cosines) / np.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(result, weights @ np.repeat(v, 2, axis=1), rtol=0, atol=2e-6)


def test_angles_are_those_of_rope_twice_as_wide():
    cos, sin = ENCODING.cos_sin([0, 3, 2**20])
    wide = Rotary(head_dim=16, layout="half").cos_sin([0, 3, 2**20])
    np.testing.assert_array_equal((cos, sin), wide)
    magnitudes = np.full((3, 8), 2.0, np.float32)
    tokens = np.log(np.expm1(magnitudes))
    np.testing.assert_allclose(
        RotaryEmbedding(ENCODING)(tokens, positions=[0, 3, 2**20]), np.hstack([2 * cos, 2 * sin]), rtol=0, atol=3e-7
    )


def test_phases_are_bounded():
    x = drawn(2, 5, 8)
    for given, bound in ((0.5, 0), (-7, -2 * np.pi)):
        found, wanted = (with_phase(ENCODING, np.full((2, 8), phase))(x, x)[1] for phase in (given, bound))
        np.testing.assert_array_equal(found, wanted)


def test_large_tokens_do_not_overflow():
    result = RotaryEmbedding(ENCODING)(np.full((1, 8), 3e38, np.float32))
    np.testing.assert_array_equal(result[:, :8], np.full((1, 8), np.float32(3e38)))
    assert (RotaryEmbedding(ENCODING)(np.full((1, 8), -50, np.float32))[:, :8] > 0).all()


def test_what_does_not_fit_is_refused():
    layer, x = RotaryEmbedding(ENCODING), drawn(3, 2, 5, 8)
    with rejects(ValueError, "k", "must have the 2 heads"):
        layer(x, x[:, :1])
    with rejects(ValueError, "k", "(..., heads, length, head_dim)"):
        layer(x[0, 0], x[0, 0])
    with rejects(ValueError, "seq_axis", "-2 or -3"):
        layer(x, x, seq_axis=0)
    with rejects(ValueError, "position", "those of keys"):
        MultiHeadAttention(32, 4, position=ENCODING)
    with rejects(ValueError, "head_dim"):
        MultiHeadAttention(32, 2, position=ENCODING)
    with rejects(ValueError, "weights", "called 'phase'"):
        Placed(ENCODING, range(5), range(5))
    with rejects(ValueError, "k", "must have the 2 heads"):
        attend(x, x[:, :1], x[:, :1], position=Placed(ENCODING, range(5), range(5), {"phase": np.zeros((2, 8))}))
    attention, tokens = MultiHeadAttention(16, 2, position=ENCODING), drawn(3, 4, 16)
    with rejects(ValueError, "cache", "(3, 2, 2, 16)"):
        attention(tokens, tokens, tokens, None, 2, cache=(x[:, :, :2], x[:, :, :2]))


def test_the_transformer_gives_attention_the_same_tokens():
    model = Transformer(vocabulary=9, max_len=5, num_hiddens=16, num_heads=2, position=ENCODING)
    weights = model.initial(seed=0) | model.constants() | {"decoder.position.phase": -3 * np.abs(drawn(2, 8))}
    q, k = drawn(3, 2, 2, 8), drawn(3, 2, 5, 8)
    of_model = attention_position(model, weights, "decoder", range(3, 5), range(5))
    wanted = Placed(ENCODING, range(3, 5), range(5), {"phase": weights["decoder.position.phase"]})
    np.testing.assert_array_equal(attend(q, k, k, position=of_model), attend(q, k, k, position=wanted))
