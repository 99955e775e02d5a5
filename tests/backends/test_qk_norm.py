"""`MultiHeadAttention(qk_norm=…)` beside what the golden numbers of attention and of its modes say."""

import numpy as np
import pytest

from posenc_core import Alibi, QKNorm, Rotary, SelfExtend, normalize_and_rotate

from ..errors import rejects

ROTARY = Rotary(head_dim=4, layout="half")
HALF = ("torch", "keras", "jax", "mxnet")  # whose projections compute in float16 on a CPU
TOKENS = np.random.default_rng(9).normal(size=(2, 5, 8)).astype(np.float32)


@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
def test_keys_are_those_of_normalize_and_rotate(on, backend, order):
    """Rounded once where tokens have half precision; the cache shows them."""
    dtype = "float16" if backend.__name__.rpartition(".")[2] in HALF else "float32"
    norm = QKNorm(head_dim=4, order=order, epsilon=0.5)
    layer = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, position=ROTARY, qk_norm=norm), dtype)
    layer = on.testing.with_projections(layer, dict.fromkeys(("W_q", "W_k", "W_v", "W_o"), np.eye(8, dtype=np.float32)))
    x = on.testing.cast(backend.from_numpy(TOKENS), dtype)
    keys = backend.to_numpy(layer(x, x, x, start=0, cache=()).cache[0])
    heads = TOKENS.astype(dtype).reshape(2, 5, 2, 4).swapaxes(1, 2)
    wanted = normalize_and_rotate(heads, *ROTARY.cos_sin(range(5)), layout="half", order=order, epsilon=0.5)
    assert keys.dtype == wanted.dtype
    ulp = np.spacing(np.abs(wanted).max(-1, keepdims=True))
    assert (np.abs(keys - wanted) <= ulp * (4 if dtype == "float32" else 1)).all()
    assert np.mean(keys != wanted) < (0.5 if dtype == "float32" else 0.01)  # the rounding of float32 decides few ties


@pytest.mark.parametrize(
    ("norm", "options", "error", "words"),
    [
        (0.1, {}, TypeError, ("0.1",)),
        (QKNorm(head_dim=8), {}, ValueError, ("head_dim", "4")),
        (QKNorm(head_dim=4, num_heads=2), {"num_kv_heads": 1}, ValueError, ("num_kv_heads", "1")),
        (QKNorm(head_dim=4, order="rope_first"), {"position": None}, ValueError, ("`position`", "rope_first")),
        (
            QKNorm(head_dim=4, order="rope_first"),
            {"position": SelfExtend(rotary=ROTARY, window=2, group_size=2)},
            ValueError,
            ("position", "rope_first"),
        ),
        (QKNorm(head_dim=4, order="rope_first"), {"position": Alibi(num_heads=2)}, ValueError, ("rope_first",)),
    ],
)
def test_what_does_not_fit_is_refused(backend, norm, options, error, words):
    with rejects(error, "qk_norm", *words):
        backend.MultiHeadAttention(8, 2, **{"position": ROTARY, **options}, qk_norm=norm)


def test_rows_of_a_call_need_a_rotation_before_attention(on, backend):
    layer = on.testing.eval_mode(backend.MultiHeadAttention(8, 2, qk_norm=QKNorm(head_dim=4)))
    x = backend.from_numpy(TOKENS)
    with rejects(ValueError, "cos_sin", "None"):
        layer(x, x, x, cos_sin=(x, x))
