"""The error bound of attention under a mixed policy, `posenc_backends.conformance.tooling.MIXED`, derived."""

import numpy as np
import pytest

from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.errors import DIGITS
from posenc_backends.conformance.tooling import MIXED, arange_like
from posenc_backends.keras import MultiHeadAttention, PositionalEncoding

LENGTH, HEADS, WIDTH = 53, 2, 4
CAUSAL = np.tri(LENGTH, dtype=bool)
GOLDEN_CASES = {
    golden_case["name"]: golden_case for golden_case in golden("modes") if golden_case["layer"] == "MultiHeadAttention"
}
KINDS = (
    "no position",
    "Rotary, head_dim 4, layout half",
)  # the worst cases: all other encodings round as often or less


def heads(x):
    return x.reshape(2, LENGTH, HEADS, WIDTH).transpose(0, 2, 1, 3)


def rotations():
    """Return the rotation matrix of every position, `(length, WIDTH, WIDTH)`."""
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(2) / 2)
    cos, sin = (np.apply_along_axis(np.diag, 1, f(angles)) for f in (np.cos, np.sin))
    return np.block([[cos, -sin], [sin, cos]])


def rotated(x, error, unit):
    """Return the rotated numbers and their errors, which the rotation mixes and to which it adds one rounding."""
    result = (rotations() @ x[..., None])[..., 0]
    mixed = (np.abs(rotations()) @ error[..., None])[..., 0]
    return result, mixed + unit * (np.abs(result) + mixed)


def attended(golden_case, unit):
    """Return the result in float64, and its error bound if numbers are rounded by `unit` of their size.

    A score that is off by e changes the mean o of values v by at most Σ w (exp(e) - 1) |v - o| / Σ w exp(-e): the sum
    of w (v - o) is 0.
    """
    tokens = arange_like(2, LENGTH, 8).astype(float)
    matrices = {name: np.array(matrix) for name, matrix in golden_case["matrices"].items()}
    q, k, v = (heads(tokens @ matrices[name]) for name in ("W_q", "W_k", "W_v"))
    q_error, k_error, v_error = (unit * np.abs(x) for x in (q, k, v))
    if golden_case["encoding"]:
        (q, q_error), (k, k_error) = rotated(q, q_error, unit), rotated(k, k_error, unit)
    scores = np.where(CAUSAL, q @ k.swapaxes(-1, -2) / 2, -np.inf)  # 2 is the square root of the width
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    score_error = (q_error @ np.abs(k).swapaxes(-1, -2) + (np.abs(q) + q_error) @ k_error.swapaxes(-1, -2)) / 2
    mean = weights @ v
    moved = np.einsum("bhij,bhijc->bhic", weights * np.expm1(score_error), np.abs(v[:, :, None] - mean[:, :, :, None]))
    mean_error = (
        moved / (weights * np.exp(-score_error)).sum(axis=-1, keepdims=True)
        + (weights * np.exp(2 * score_error)) @ v_error
    )
    mean_error += unit * (np.abs(mean) + mean_error)
    mean, mean_error = (x.transpose(0, 2, 1, 3).reshape(2, LENGTH, 8) for x in (mean, mean_error))
    result, error = mean @ matrices["W_o"], mean_error @ np.abs(matrices["W_o"])
    return result, error + unit * (np.abs(result) + error)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_limit_of_mixed_attention_is_its_worst_case(dtype):
    worst = []
    for kind in KINDS:
        golden_case = GOLDEN_CASES[f"MultiHeadAttention, {kind}, float32"]
        result, error = attended(golden_case, 2.0 ** -DIGITS[dtype])
        np.testing.assert_allclose(result[:, golden_case["rows"]], golden_case["result"], rtol=0, atol=1e-7)
        last_place = 2.0 ** (np.floor(np.log2(np.abs(golden_case["result"]).max())) + 1 - DIGITS[dtype])
        worst.append(error[:, golden_case["rows"]].max() / last_place)
    assert MIXED - 0.2 < max(worst) <= MIXED


def test_the_dropout_of_a_layer_has_its_policy():
    layers = PositionalEncoding(8, 0.5, dtype="mixed_float16"), MultiHeadAttention(8, 2, 0.5, dtype="mixed_float16")
    assert {layer.dropout.dtype_policy.name for layer in layers} == {"mixed_float16"}
