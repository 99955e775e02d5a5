"""Tables for other programs, against what their code makes of them, as recorded, and against exact numbers.

`recorded_rotations.json`: the rotated tokens are of vLLM's `RotaryEmbedding.forward_native` as flashinfer's tests have
it (flashinfer 0.6.18, which also tests its own kernels by it), of the unfused path of `apply_rotary_pos_emb`
(TransformerEngine 2.20), and of the loops of ggml's rotation on a processor (llama.cpp, 2026), given `arguments`.
"""

import json
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import posenc_core as p

RECORDED = json.loads((Path(__file__).parent / "recorded_rotations.json").read_text(encoding="utf-8"))
ROWS = 5
TOKENS = (((np.arange(ROWS * 8) * 37) % 101 - 50) / 50).astype(np.float32).reshape(ROWS, 8)
HALF = p.Rotary(head_dim=8, layout="half")
YARN = p.Rotary(head_dim=8, layout="half", scaling=p.YaRN(factor=4.0, original_max_position_embeddings=64))
KINDS = ("vllm", "flashinfer", "transformer_engine", "onnx", "ggml")


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['kind']} {p.Encoding.from_dict(case['encoding'])}")
def test_other_programs_rotate_as_we_do(case):
    encoding = p.Encoding.from_dict(case["encoding"])
    given = encoding.as_cache(case["kind"], ROWS)
    assert given.keys() == case["arguments"].keys()
    for name, value in given.items():
        wanted = case["arguments"][name]
        if isinstance(value, np.ndarray):
            assert value.dtype == np.float32
            np.testing.assert_array_equal(value.ravel(), np.array(wanted, np.float32))
        else:
            assert value == wanted
    rows = encoding.rows(np.arange(ROWS))
    ours = p.rotate(TOKENS, rows["cos"], rows["sin"], layout=encoding.layout, placement=encoding.pairing.placement)
    np.testing.assert_allclose(np.array(case["rotated"]), ours, rtol=0, atol=2.5e-7)
    assert np.abs(ours - TOKENS).max() > 1


@pytest.mark.parametrize(
    ("kind", "arrays"),
    [
        ("vllm", {"cos_sin_cache": (300, 4)}),
        ("flashinfer", {"cos_sin_cache": (300, 4)}),
        ("onnx", {"cos_cache": (300, 2), "sin_cache": (300, 2)}),
        ("transformer_engine", {"freqs": (300, 1, 1, 4)}),
    ],
)
def test_shapes(kind, arrays):
    cache = replace(HALF, rotary_dim=4).as_cache(kind, 300)
    assert {name: value.shape for name, value in cache.items() if isinstance(value, np.ndarray)} == arrays


@pytest.mark.parametrize("encoding", [HALF, YARN, replace(YARN, direction="inverse")], ids=repr)
def test_cosine_and_sine_are_the_tables_of_the_encoding(encoding):
    cos, sin = encoding.cos_sin(range(5000))
    for kind in ("vllm", "flashinfer"):
        cache = encoding.as_cache(kind, 5000)["cos_sin_cache"]
        np.testing.assert_array_equal(cache, np.concatenate([cos, sin], axis=-1))
    onnx = encoding.as_cache("onnx", 5000)
    np.testing.assert_array_equal(onnx["cos_cache"], cos)
    np.testing.assert_array_equal(onnx["sin_cache"], sin)
    assert onnx["rotary_embedding_dim"] == (0 if 2 * encoding.pairs == encoding.head_dim else 2 * encoding.pairs)


def test_spread_pairs_have_columns_for_the_whole_head():
    for encoding in (
        p.Rotary(head_dim=8, layout="half", rotary_dim=4, placement="spread"),
        p.Rotary(head_dim=8, layout="half", scaling=p.Proportional(partial_rotary_factor=0.5)),
    ):
        cache = encoding.as_cache("vllm", 9)
        cos, sin = np.split(cache["cos_sin_cache"], 2, axis=-1)
        assert cache["rotary_dim"] == 8
        assert (cos[:, 2:] == 1).all()
        assert not sin[:, 2:].any()
        np.testing.assert_array_equal(cos[:, :2], encoding.rows(np.arange(9))["cos"])
        assert not encoding.as_cache("transformer_engine", 9)["freqs"][..., [2, 3, 6, 7]].any()
        divisors = encoding.as_cache("ggml", 9)["freq_factors"]
        assert (divisors[2:] == np.float32(1e30)).all()


def test_angles_are_exact_less_whole_turns():
    """Angles as TransformerEngine computes them lose all digits far out; ours do not."""
    rows, base = 131072, 500000
    angles = p.Rotary(head_dim=16, layout="half", base=base).as_cache("transformer_engine", rows)["freqs"]
    assert np.abs(angles).max() <= np.float32(np.pi)
    with mp.workdps(50):
        for position in (0, 1, 7, 4097, 65521, rows - 1):
            for pair in range(8):
                exact = position * mp.power(base, -mp.mpf(pair) / 8)
                nearest = exact - 2 * mp.pi * mp.nint(exact / (2 * mp.pi))
                found = mp.mpf(float(angles[position, 0, 0, pair]))
                assert abs(found - nearest) <= np.spacing(np.float32(abs(nearest))) / 2
                assert angles[position, 0, 0, pair] == angles[position, 0, 0, pair + 8]
    theirs = np.arange(rows, dtype=np.float32)[:, None] * (1 / base ** (np.arange(8) / 8)).astype(np.float32)
    exact = np.cos(angles[:, 0, 0, :8].astype(np.float64))
    assert np.abs(np.cos(theirs.astype(np.float64)) - exact).max() > 1e-3
    np.testing.assert_allclose(np.cos(theirs[:64].astype(np.float64)), exact[:64], rtol=0, atol=3e-6)


def test_angles_of_a_model_that_was_trained_with_float32():
    encoding = p.Rotary(head_dim=4, layout="interleaved", precision="float32")
    angles = encoding.as_cache("transformer_engine", 3000)["freqs"][:, 0, 0]
    wanted = np.arange(3000, dtype=np.float32)[:, None] * np.float32([1, 0.01])
    np.testing.assert_array_equal(angles, np.repeat(wanted, 2, axis=-1))


def test_divisors_of_ggml():
    frequencies = (0.5, 0.02, 0.001, 0.0)
    given = p.Rotary(head_dim=8, layout="half", frequencies=frequencies).as_cache("ggml", 9)
    np.testing.assert_array_equal(given["freq_factors"], np.float32([2, 5, 10, 1e30]))
    assert given["freq_base"] == 10000
    assert YARN.as_cache("ggml", 9)["attn_factor"] == YARN.attention_factor


LEARNED, XPOS = p.LearnedRotary(head_dim=8, layout="half"), p.XPos(head_dim=8, layout="half")
AXES = p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))
M_ROPE = p.MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
TWO_AXES = p.MultimodalRotary(head_dim=8, layout="half", sections=(2, 2), arrangement=(0, 1, 0, 1))


@pytest.mark.parametrize(
    ("encoding", "kinds", "message"),
    [
        (AXES, KINDS, "has one row per position, got AxialRotary("),
        (M_ROPE, KINDS, "has one row per position, got MultimodalRotary("),
        (TWO_AXES, KINDS, "has one row per position, got MultimodalRotary("),
        (XPOS, KINDS, "has one table for queries and keys, got XPos("),
        (LEARNED, KINDS, "needs frequencies that are known, got LearnedRotary("),
        (replace(HALF, layout="interleaved_to_half"), KINDS, "`layout` must be 'half' or 'interleaved'"),
        (replace(HALF, rotary_dim=4, placement="trail"), KINDS, "`placement` must be 'lead' or 'spread'"),
        (YARN, ("transformer_engine",), "`attention_factor` must be 1 for 'transformer_engine'"),
        (replace(YARN, rotary_dim=4, placement="spread"), ("ggml",), "`attention_factor` must be 1 for 'ggml'"),
    ],
    ids=lambda value: "" if isinstance(value, tuple) else str(value),
)
def test_refusals(encoding, kinds, message):
    for kind in kinds:
        with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
            encoding.as_cache(kind, 4)
        assert message in str(error.value)
        assert kind in str(error.value)
        assert len(str(error.value)) <= 300


@pytest.mark.parametrize(
    ("kind", "max_len", "message"),
    [
        ("tensorrt", 4, "`kind` must be one of 'vllm', 'flashinfer', 'transformer_engine', 'onnx', 'ggml'"),
        ("vllm", 0, "`max_len` must be at least 1, got 0."),
        ("vllm", 4.0, "`max_len` must be an integer, got 4.0."),
    ],
)
def test_bad_arguments(kind, max_len, message):
    with pytest.raises((ValueError, TypeError), match=message):
        HALF.as_cache(kind, max_len)


def test_frequencies_of_one_length():
    scaling = p.DynamicNTK(factor=2.0, original_max_position_embeddings=16)
    encoding = replace(HALF, scaling=scaling)
    with pytest.raises(ValueError, match=r"`max_len` must be at most 16, .* got 17; use `encoding.at\(17\)`"):
        encoding.as_cache("vllm", 17)
    longer = encoding.at(64).as_cache("vllm", 64)["cos_sin_cache"]
    np.testing.assert_array_equal(longer, np.concatenate(encoding.cos_sin(range(64), 64), axis=-1))
