"""`check(…, qk_norm=…)`: functions that normalize queries and keys beside their rotation, right and wrong."""

from functools import partial

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core import QKNorm, Rotary, normalize_and_rotate, rotate

from ..errors import rejects

ROTARY = Rotary(head_dim=8, layout="half")
RNG = np.random.default_rng(4)
HEAD = {name: RNG.uniform(0.5, 2, 8).astype(np.float32) for name in ("q_weight", "k_weight")}
ROW = {name: RNG.uniform(0.5, 2, 8 * n).astype(np.float32) for name, n in (("q_weight", 4), ("k_weight", 2))}
NORM, GEMMA = QKNorm(head_dim=8), QKNorm(head_dim=8, offset=1.0)
OLMO2, HUNYUAN = QKNorm(head_dim=8, num_heads=4, num_kv_heads=2), QKNorm(head_dim=8, order="rope_first")
NANOCHAT = QKNorm(head_dim=8, order="rope_first", weight=False)
FEW = {"longest": 300, "gradient": False}


def tables(positions):
    return [table if positions.ndim == 1 else table[:, None] for table in ROTARY.cos_sin(positions)]


def function(norm, weights, *, one_rounding=True, **changes):
    """Return QK-norm and RoPE by the core, with these settings in place of those of the norm."""
    settings = {"epsilon": norm.epsilon, "offset": norm.offset, "order": norm.order}
    settings |= {"head_axis": None if norm.num_heads is None else -3, **changes}

    def one(x, weight, positions):
        if one_rounding:
            return normalize_and_rotate(x, *tables(positions), layout="half", weight=weight, **settings)
        still = np.ones((1, 4), np.float32), np.zeros((1, 4), np.float32)
        normalized = normalize_and_rotate(x, *still, layout="half", weight=weight, **settings)
        return rotate(normalized, *tables(positions), layout="half")

    def rope(q, k, positions):
        return one(q, weights.get("q_weight"), positions), one(k, weights.get("k_weight"), positions)

    return rope


@pytest.mark.parametrize(
    ("norm", "weights"),
    [(NORM, HEAD), (GEMMA, HEAD), (OLMO2, ROW), (HUNYUAN, HEAD), (NANOCHAT, {})],
    ids=["Qwen3", "Gemma 3", "OLMo 2", "HunYuan", "nanochat"],
)
def test_the_core_conforms(norm, weights):
    result = check(function(norm, weights), ROTARY, qk_norm=norm, parameters=weights, longest=300, gradient=False)
    assert result.status == 0, str(result)
    assert result.precision in ("exact", "rounded once")


def test_models_round_half_precision_after_the_norm():
    result = check(function(NORM, HEAD, one_rounding=False), ROTARY, qk_norm=NORM, parameters=HEAD, **FEW)
    assert (result.status, result.precision) == (0, "rounded several times"), str(result)
    assert repr(NORM) in str(result)
    assert result.to_dict()["qk_norm"] == NORM.to_dict()


def by_formula(q, k, positions, normalize):
    return tuple(rotate(normalize(x), *tables(positions), layout="half") for x in (q, k))


def layer_norm(x):
    x = x.astype(np.float32) - x.astype(np.float32).mean(-1, keepdims=True)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def of_sums(x):
    return (x / np.sqrt((x.astype(np.float32) ** 2).sum(-1, keepdims=True) + np.float32(1e-6))).astype(x.dtype)


def outside(x):
    return (x / (np.sqrt((x.astype(np.float32) ** 2).mean(-1, keepdims=True)) + np.float32(1e-6))).astype(x.dtype)


def in_bfloat16(x):
    normalized = x / np.sqrt((x.astype(np.float32) ** 2).mean(-1, keepdims=True) + np.float32(1e-6))
    bits = normalized.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


PLAIN = QKNorm(head_dim=8, weight=False)
WRONG = [
    (function(NORM, HEAD, order="rope_first"), NORM, HEAD, "norm after the rotation"),
    (function(HUNYUAN, HEAD, order="norm_first"), HUNYUAN, HEAD, "norm before the rotation"),
    (function(NORM, HEAD, epsilon=0.0), NORM, HEAD, "epsilon missing"),
    (function(NORM, HEAD, epsilon=1e-5), NORM, HEAD, "wrong epsilon"),
    (function(NORM, HEAD, offset=1.0), NORM, HEAD, "offset of the weight"),
    (function(GEMMA, HEAD, offset=0.0), GEMMA, HEAD, "offset of the weight missing"),
    (function(NORM, {}), NORM, HEAD, "weight ignored"),
    (function(NORM, {"q_weight": HEAD["k_weight"], "k_weight": HEAD["q_weight"]}), NORM, HEAD, "weights swapped"),
    (function(PLAIN, {}, head_axis=-3), PLAIN, {}, "norm of all heads"),
    (function(OLMO2, {}, head_axis=None), QKNorm(head_dim=8, num_heads=4, weight=False), {}, "norm of each head"),
    (partial(by_formula, normalize=lambda x: x), PLAIN, {}, "norm missing"),
    (partial(by_formula, normalize=layer_norm), PLAIN, {}, "layer norm"),
    (partial(by_formula, normalize=of_sums), PLAIN, {}, "sum of squares"),
    (partial(by_formula, normalize=outside), PLAIN, {}, "epsilon outside the root"),
    (partial(by_formula, normalize=in_bfloat16), PLAIN, {}, "bfloat16 norm"),
]


@pytest.mark.parametrize(("wrong", "norm", "weights", "name"), WRONG, ids=[name for *_, name in WRONG])
def test_mistakes_have_names(wrong, norm, weights, name):
    result = check(wrong, ROTARY, framework="numpy", qk_norm=norm, parameters=weights, takes=(), **FEW)
    assert (result.status, [one.name for one in result.mistakes]) == (1, [name]), str(result)


def test_what_cannot_be_checked_is_refused():
    with rejects(ValueError, "qk_norm", "head_dim"):
        check(function(NORM, HEAD), ROTARY, qk_norm=QKNorm(head_dim=16))
    with rejects(TypeError, "qk_norm", "1e-06"):
        check(function(NORM, HEAD), ROTARY, qk_norm=1e-6)
    with rejects(ValueError, "parameters", "q_weight"):
        check(function(NORM, HEAD), ROTARY, qk_norm=NORM)
