"""FoPE against the programs that have it, as recorded, and RoPE where it equals it.

`recorded_fope.json`: tokens rotated by `InternS1ProMoeTextFourierEmbedding` and `apply_rotary_pos_emb` or
`apply_rotary_pos_emb_sep` (the code beside the weights of Intern-S1-Pro, 2026), and by `FourierEmbedding` of the
authors (TsinghuaC3I/Fourier-Position-Embedding, bd94b20), in float32, with these matrices.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_core import FoPE, Rotary, fope_mixing
from posenc_core.analysis.curves import bounds_by_distance, plain_rope, rows
from posenc_core.analysis.differences import difference
from posenc_core.encodings import Encoding
from posenc_core.huggingface import load_rope
from posenc_core.rotation import rotate_pairs

from ...errors import rejects

RECORDED = json.loads((Path(__file__).parent / "recorded_fope.json").read_text(encoding="utf-8"))
SIZES = {"head_dim": 8, "layout": "half"}


def rotated(encoding, weights, x, positions):
    rows = encoding.mixed(weights, encoding.cos_sin(positions))
    if encoding.num_heads is not None:
        rows = [np.repeat(row, len(x) // encoding.num_heads, axis=0) for row in rows]
    return rotate_pairs(x, *rows, pairing=encoding.pairing)


@pytest.mark.parametrize(
    "case", RECORDED, ids=lambda case: f"{case['origin']}, {len(case['coefficients']['cos_coef'])}"
)
def test_programs_that_have_it_rotate_the_same(case):
    encoding = load_rope(case["config"]) if "config" in case else Encoding.from_dict(case["encoding"])
    weights = {
        name[:3] + "_mixing": fope_mixing(np.float32(matrix), encoding=encoding)
        for name, matrix in case["coefficients"].items()
    }
    assert {name: matrix.shape for name, matrix in weights.items()} == {
        name: parameter.shape for name, parameter in encoding.parameters().items()
    }
    for name in {"q", "k"} & case.keys():
        found = rotated(encoding, weights, np.float32(case[name]), case["positions"])
        wanted = np.array(case[f"rotated_{name}"])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_matrices_of_checkpoints_lose_no_digit(backend, to_backend, dtype):
    encoding = FoPE(**SIZES, num_terms=2, num_heads=2)
    stored = np.array([[[1 + 2**-10, 2**-12], [-(2**-14), 3]], [[0, 1], [0.5, 1]]], dtype)
    found = backend.to_numpy(fope_mixing(to_backend(stored), encoding=encoding))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, stored.astype(float) - np.eye(2))
    np.testing.assert_array_equal(
        fope_mixing(stored.astype(float) + 2**-40, encoding=encoding), found.astype(float) + 2**-40
    )


def test_matrices_that_do_not_fit_are_refused():
    with rejects(ValueError, "coefficients", "must have shape (2, 2)", "got (2, 3)"):
        fope_mixing(np.ones((2, 3)), encoding=FoPE(**SIZES, num_terms=2))
    with rejects(TypeError, "coefficients", "floating-point"):
        fope_mixing(np.eye(2, dtype=int), encoding=FoPE(**SIZES, num_terms=2))
    with rejects(TypeError, "encoding", "must be FoPE"):
        fope_mixing(np.eye(2), encoding=Rotary(**SIZES))


def test_matrices_of_zeros_leave_rope_where_pairs_turn():
    encoding, rotary = FoPE(**SIZES, length=1024), Rotary(**SIZES)
    zeros = {name: np.zeros(parameter.shape, np.float32) for name, parameter in encoding.parameters().items()}
    cos, sin = encoding.mixed(zeros, encoding.cos_sin(range(300)))
    for found, wanted in zip((cos, sin), rotary.cos_sin(range(300)), strict=True):
        np.testing.assert_array_equal(found[:, :3], wanted[:, :3])
    assert (cos[:, 3] == 1).all()
    assert (sin[:, 3] == 1).all()


@pytest.mark.parametrize(("length", "terms"), [(7, 1), (62, 1), (63, 2), (628, 2), (629, 3), (6283, 3), (6284, 4)])
def test_frequencies_that_complete_a_period_are_mixed(length, terms):
    assert FoPE(**SIZES, length=length).terms == terms
    assert FoPE(**SIZES, num_terms=terms).frequencies().tolist() == FoPE(**SIZES, length=length).frequencies().tolist()


@pytest.mark.parametrize(
    ("floor_sine", "direction", "sine"), [(1, "forward", 1), (1, "inverse", -1), (0, "forward", 0)]
)
def test_the_sine_below_the_floor(floor_sine, direction, sine):
    encoding = FoPE(**SIZES, num_terms=2, floor_sine=floor_sine, direction=direction)
    assert (encoding.cos_sin([0, 1, 2**20])[1][:, 2:] == sine).all()


def test_keys_of_configs():
    keys = {"head_dim": 8, "rope_scaling": {"fope_init_factor": 1, "num_inv_freq": 9}}
    assert load_rope(keys, layout="half") == FoPE(**SIZES, num_terms=4, std=0.5)
    with rejects(TypeError, "fope_sep_head", "True or False"):
        load_rope({**keys, "rope_scaling": {"fope_init_factor": 1, "fope_sep_head": 1}})
    with rejects(ValueError, "max_position_embeddings", "num_inv_freq"):
        load_rope({**keys, "rope_scaling": {"fope_init_factor": 1}})


def test_no_single_rotation_stands_for_it():
    encoding = FoPE(**SIZES, num_terms=2)
    with rejects(ValueError, "a", "matrices mix them"):
        difference(encoding, Rotary(**SIZES), positions=9)
    with rejects(ValueError, "rotary", "matrices mix them"):
        bounds_by_distance(encoding, 9)
    with rejects(ValueError, "kind", "table that is known"):
        encoding.as_cache("vllm", 9)
    assert plain_rope(encoding).frequencies().tolist() == [1.0, 0.1]
    np.testing.assert_array_equal(rows(encoding, 9)[:, 1::2], encoding.cos_sin(range(9))[1])
