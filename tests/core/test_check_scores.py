"""`check` of biases, scores and products: half precision, and the smallest call that fails."""

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core import rotate
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Alibi, AxialRotary, ReRoPE, Rotary, ShawBias

ROPE = Rotary(head_dim=8, layout="half")
RE_ROPE = ReRoPE(rotary=ROPE, window=16)
SHAW = ShawBias(num_heads=2, head_dim=8, max_distance=6)
DRAWN = {
    name: np.float32(np.random.default_rng(0).normal(0, 0.2, one.shape)) for name, one in SHAW.parameters().items()
}
NEAR = {"takes": ("float16",), "longest": 4200}


@pytest.fixture(autouse=True)
def few_random_calls(monkeypatch):
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 4)


def products(*, tokens=np.float32, results=None, positions=np.int64):
    """Return products at the positions of ReRoPE, written out, with these dtypes on the way."""

    def at(x, where):
        cos, sin = (table.astype(tokens) for table in ROPE.cos_sin(where))
        if where.ndim > 1:
            cos, sin = cos[:, None], sin[:, None]
        first, second = np.split(x.astype(tokens), 2, axis=-1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def function(q, k, queries, keys):
        rounded = queries.astype(positions).astype(np.float64), keys.astype(positions).astype(np.float64)
        near = np.einsum("bhqd,bhkd->bhqk", at(q, rounded[0]), at(k, rounded[1]), dtype=np.float32)
        still = [np.full(where.shape, first) for where, first in zip(rounded, (16, 0), strict=True)]
        far = np.einsum("bhqd,bhkd->bhqk", at(q, still[0]), at(k, still[1]), dtype=np.float32)
        distances = rounded[0][..., None] - rounded[1][..., None, :]
        distances = distances[:, None] if distances.ndim > 2 else distances
        found = np.where(distances < 0, 0, np.where(distances < 16, near, far))
        return found.astype(results or q.dtype)

    return function


def test_products_in_half_precision_are_judged_by_their_roundings():
    once = check(products(), RE_ROPE, **NEAR)
    assert (once.status, once.precision) == (0, "exact"), once
    assert {dtype for _, dtype, _ in once.answers} == {"float32", "float16"}


def test_rotations_in_the_dtype_of_tokens_round_products_several_times():
    def function(q, k, *positions):
        return products(tokens=q.dtype.type)(q, k, *positions)

    result = check(function, RE_ROPE, **NEAR)
    assert (result.status, result.precision) == (0, "rounded several times"), result
    assert check(function, RE_ROPE, **NEAR, allow="rounded once").status == 1


def test_positions_rounded_to_half_precision_are_named():
    def function(q, k, *positions):
        return products(positions=q.dtype.type)(q, k, *positions)

    assert check(function, RE_ROPE, **NEAR).names == ("float16 positions",)


def test_products_of_half_precision_may_come_back_in_float32():
    result = check(products(results=np.float32), RE_ROPE, **NEAR)
    assert result.status == 0, result
    assert "float16 comes back in float32" in str(result)


def test_a_refusal_of_half_precision_is_stated():
    def function(q, k, *positions):
        if q.dtype != np.float32:
            raise TypeError("float32 alone")
        return products()(q, k, *positions)

    result = check(function, RE_ROPE, longest=200)
    assert result.status == 0
    assert "not checked, float16, from 0" in str(result)


def test_scores_in_half_precision_are_judged():
    def scores(q, k, queries, keys):
        wide = (q.astype(np.float32), k.astype(np.float32))
        return SHAW.scores(SHAW.constants(0) | DRAWN, queries, keys, AttentionInputs(*wide, None)).astype(q.dtype)

    def narrow(q, k, queries, keys):
        table = {name: np.round(one * 32) / 32 if q.dtype == np.float16 else one for name, one in DRAWN.items()}
        return SHAW.scores(SHAW.constants(0) | table, queries, keys, AttentionInputs(q, k, None)).astype(q.dtype)

    assert check(scores, SHAW, parameters=DRAWN, **NEAR).precision == "exact"
    wrong = check(narrow, SHAW, parameters=DRAWN, **NEAR)
    assert wrong.status == 1
    assert {one.calls[0] for one in wrong.mistakes} == {"float16, from elsewhere"}


def test_rows_of_a_batch_may_have_positions_of_their_own():
    def first_row(q, k, *positions):
        return products()(q, k, *(one[0] if one.ndim > 1 else one for one in positions))

    def refusing(q, k, queries, keys):
        if queries.ndim > 1:
            raise ValueError("one position for all rows")
        return products()(q, k, queries, keys)

    right = check(products(), RE_ROPE, **NEAR)
    assert "each row its own" in {name for name, _, _ in right.answers}
    assert check(first_row, RE_ROPE, **NEAR).names == ("positions of the first row",)
    refused = check(refusing, RE_ROPE, **NEAR)
    assert refused.status == 0
    assert "not checked, each row its own" in str(refused)


def test_scores_of_rows_with_positions_of_their_own_are_judged():
    def scores(q, k, queries, keys):
        rows = zip(q, k, *(np.broadcast_to(at, (len(q), at.shape[-1])) for at in (queries, keys)), strict=True)
        of_row = [
            SHAW.scores(SHAW.constants(0) | DRAWN, *at, AttentionInputs(one[None], other[None], None))
            for one, other, *at in rows
        ]
        return np.concatenate(of_row)

    right = check(scores, SHAW, parameters=DRAWN, takes=(), longest=200)
    assert right.status == 0, right
    assert "each row its own" in {name for name, _, _ in right.answers}


SPECS = {"bias": Alibi(num_heads=2), "products": RE_ROPE}


def bias(queries, keys):
    """Return the bias of ALiBi, wrong at the distance 7 from the fourth query on."""
    found = SPECS["bias"].bias(queries, keys)
    found[:, 3:][:, np.abs(queries[:, None] - keys)[3:] == 7] -= 1
    return found


def wrong_products(q, k, queries, keys):
    found = products()(q, k, queries, keys)
    found[:, :, queries[:, None] - keys == 7] += 1
    return found


@pytest.mark.parametrize(("function", "queries", "keys"), [(bias, 4, 11), (wrong_products, 1, 8)])
def test_the_smallest_call_of_pairs_that_fails_can_be_pasted(function, queries, keys, monkeypatch):
    monkeypatch.setattr("posenc_backends.check.run.MOST_HYPOTHESES", 100)
    form, made = {bias: "bias", wrong_products: "products"}[function], []
    result = check(function, SPECS[form], form=form, takes=(), longest=200)
    exec(result.smallest, {function.__name__: lambda *given: made.append(given)})  # noqa: S102
    ((*tokens, at, to),) = made
    assert [x.shape for x in tokens] == [(1, 1, len(positions), 8) for positions in (at, to)][: len(tokens)]
    assert len(at) == queries
    assert len(to) <= keys
    right = result.encoding.bias(at, to) if form == "bias" else products()(*tokens, at, to)
    assert not np.allclose(function(*tokens, at, to), right)


def test_the_smallest_call_of_several_axes_has_one_position():
    spec = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))

    def function(x, positions):
        cos, sin = (table if table.ndim == 2 else table[:, None] for table in spec.cos_sin(positions))
        sin = np.where(positions[0] == 7, -1, 1)[..., None] * sin if positions.ndim == 2 else sin
        return rotate(x, cos, sin, layout="half")

    result, made = check(function, spec, form="turn", takes=(), longest=200), []
    exec(result.smallest, {"function": lambda x, positions: made.append((x.shape, positions.tolist()))})  # noqa: S102
    assert made == [((1, 1, 1, 8), [[7], [7]])]
