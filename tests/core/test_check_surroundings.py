"""`check` of functions of every form from two threads, compiled, and at sizes that other calls do not have."""

import time

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_backends.check.sample_calls import KINDS
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import Alibi, Learned, Placed, QueryScale, ReRoPE, Rotary, ShawBias, Sinusoidal

ALIBI = Alibi(num_heads=2)
SHAW = ShawBias(num_heads=2, head_dim=8, max_distance=6)
RE_ROPE = ReRoPE(rotary=Rotary(head_dim=8, layout="half"), window=16)
SINUSOIDAL = Sinusoidal(dim=4)
SCALE = QueryScale(length=2, scale=0.1)
DRAWN = {
    name: np.float32(np.random.default_rng(0).normal(0, 0.2, one.shape)) for name, one in SHAW.parameters().items()
}


def scores(q, k, queries, keys):
    return SHAW.scores(SHAW.constants(0) | DRAWN, queries, keys, AttentionInputs(q, k, None))


def products(q, k, queries, keys):
    at = Placed(RE_ROPE, queries, keys)
    return np.where(keys > queries[:, None], 0, at.products(*at.rotate(q, k))).astype(np.float32)


def scale(x, positions):
    (factors,) = SCALE.rows(positions).values()
    return (x * (factors if positions.ndim == 1 else factors[:, None])).astype(x.dtype)


FORMS = {
    "bias": (ALIBI.bias, ALIBI, {}),
    "scores": (scores, SHAW, {"parameters": DRAWN}),
    "products": (products, RE_ROPE, {}),
    "table": (SINUSOIDAL.table, SINUSOIDAL, {}),
    "addition": (lambda x, positions: (x + SINUSOIDAL.table(positions)).astype(x.dtype), SINUSOIDAL, {}),
    "scale": (scale, SCALE, {}),
}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(autouse=True)
def few_random_calls(monkeypatch):
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 4)


def judged(form, function, **options):
    _, spec, parameters = FORMS[form]
    return check(function, spec, form=form, takes=(), **parameters, **options)


class Shared:
    """A function that keeps the positions of a call where all calls keep them."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *given):
        self.positions = given[-1]
        time.sleep(0.005)
        return self.function(*given[:-1], self.positions if self.positions.size == given[-1].size else given[-1] + 1)


def test_calls_from_two_threads_are_asked(form):
    function = FORMS[form][0]
    assert judged(form, function).names == ()
    assert judged(form, Shared(function)).names == ("not thread-safe",)


def test_compiled_code_is_asked(form, monkeypatch):
    function, asked = FORMS[form][0], []

    def compiled(_, framework):
        def program(*given):
            asked.append(len(given[-1]))
            return function(*given[:-1], given[-1] + (len(given[-1]) == 11))

        return program

    monkeypatch.setattr("posenc_backends.check.properties.compiled", compiled)
    assert judged(form, function).names == ("wrong when compiled",)
    assert asked == [17, 11]


def test_a_function_that_does_not_compile_may_say_so(form, monkeypatch):
    def compiled(function, framework):
        def program(*given):
            raise NotImplementedError("no such operation")

        return program

    monkeypatch.setattr("posenc_backends.check.properties.compiled", compiled)
    result = judged(form, FORMS[form][0])
    assert result.status == 0
    assert "not checked, compiled: it raised NotImplementedError: no such operation" in result.remarks[-1]


def test_functions_whose_angles_are_float32_are_asked_near(monkeypatch):
    frequencies = np.float32(10000.0 ** -(np.arange(8) / 8))

    def turn(x, positions, shift=0):
        angles = np.float32(positions + shift)[..., None] * frequencies
        cos, sin = (f(angles if positions.ndim == 1 else angles[:, None]) for f in (np.cos, np.sin))
        first, second = x[..., :8], x[..., 8:]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)

    spec, options = Rotary(head_dim=16, layout="half"), {"form": "turn", "takes": (), "allow": "float32 angles"}
    assert check(turn, spec, **options).status == 0
    shared = check(Shared(turn), spec, **options)
    assert "not thread-safe" in shared.names
    monkeypatch.setattr("posenc_backends.check.properties.compiled", lambda *_: lambda x, at: turn(x, at, shift=1))
    assert "wrong when compiled" in check(turn, spec, **options).names
    monkeypatch.setattr("posenc_backends.check.properties.compiled", lambda *_: turn)
    (remark,) = check(turn, spec, **options).remarks
    assert remark == "not asked: compiled code from position 4090 on, where the function is off by itself"


def test_the_rows_of_a_short_table_are_asked_as_well():
    spec = Learned(dim=4, length=20)
    table = np.random.default_rng(0).standard_normal((20, 4))
    right = lambda positions: table[positions]
    assert check(right, spec, parameters={"table": table}).names == ()
    assert check(Shared(right), spec, form="table", parameters={"table": table}).names == ("not thread-safe",)


def test_a_framework_of_one_thread_says_so(monkeypatch):
    monkeypatch.setattr("posenc_backends.check.properties.NO_THREADS", {"numpy": "not asked: two threads"})
    assert check(ALIBI.bias, ALIBI).remarks == ("not asked: two threads",)


@pytest.mark.parametrize("form", ["bias", "scores", "products"])
def test_pairs_of_positions_are_drawn_at_random(form, monkeypatch):
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 24)
    function = FORMS[form][0]
    result = judged(form, function)
    assert result.status == 0, result
    assert set(KINDS[:4]) <= {name for name, _, _ in result.answers}
    monkeypatch.setattr("posenc_backends.check.run.MOST_HYPOTHESES", 5)  # their names are not looked for
    consecutive = judged(form, lambda *given: function(*given[:-1], np.arange(len(given[-1])) + given[-1][0]))
    assert consecutive.status == 1, consecutive
    large = judged(form, lambda *given: function(*given[:-1], given[-1] - (len(given[-1]) > 60)))
    assert large.status == 1, large
    if form != "bias":
        strided = judged(form, lambda q, *given: function(q if q.flags.c_contiguous else -q, *given))
        assert strided.status == 1, strided
