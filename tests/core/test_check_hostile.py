"""`check` ends with a verdict whatever a function does: what it returns, raises, writes into or remembers."""

import random
import warnings

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_backends.check.program import Program
from posenc_core import Rotary, rotate
from posenc_core.encodings import Alibi, Sinusoidal

from .corpus import shorten_search


class Stop(BaseException):
    """Neither an `Exception` nor the user's interrupt."""


class SpeechlessError(Exception):
    """An exception without a text."""

    def __str__(self):
        raise ValueError("no text")


class Evil(np.ndarray):
    """An array whose operators raise."""

    def __array_ufunc__(self, *_, **__):
        raise TypeError("no operators")

    __array_function__ = __array_ufunc__


ROTARY, TABLE, BIAS = Rotary(head_dim=8, layout="half"), Sinusoidal(dim=8), Alibi(num_heads=2)


def turn(x, positions):
    cos, sin = ROTARY.cos_sin(positions)
    return rotate(x, *((cos, sin) if positions.ndim == 1 else (cos[:, None], sin[:, None])), layout="half")


def add(x, positions):
    return (x + TABLE.table(positions)).astype(x.dtype)


RIGHT = {  # form: function and encoding
    "turn": (turn, ROTARY),
    "table of cosine and sine": (ROTARY.cos_sin, ROTARY),
    "table": (TABLE.table, TABLE),
    "addition": (add, TABLE),
    "bias": (BIAS.bias, BIAS),
}
CALLS = []  # those of the function that is checked


def _raise(error):
    raise error


def _recurse(*given):
    return _recurse(*given)


def _written(result):
    result[...] = np.nan
    return result


def _remembered(result):
    CALLS.append(result)
    return CALLS[0]


def _strict(result):
    np.seterr(all="raise")
    warnings.simplefilter("error")
    return result * np.float32(1e30)


def each(change):
    """Return a change of each array of a result."""
    return lambda result: tuple(map(change, result)) if isinstance(result, tuple) else change(result)


WRONG = {
    **{
        repr(one): lambda _, one=one: one for one in (None, "text", 1, 1j, {}, [], (None,), (1, 2, 3), object, Ellipsis)
    },
    "a generator": lambda result: (one for one in result),
    "a list of lists": each(lambda one: one.tolist()),
    "three arrays": lambda result: (np.ones(3),) * 3,
    "no axes": each(lambda one: np.float32(0)),
    "empty": each(lambda one: one[:0]),
    "transposed": each(lambda one: one.T),
    "one axis more": each(lambda one: one[..., None]),
    "complex": each(lambda one: one + 0j),
    "booleans": each(lambda one: one > 0),
    "objects": each(lambda one: one.astype(object)),
    "integers": each(lambda one: one.astype(np.int64)),
    "dates": each(lambda one: np.zeros(one.shape, "M8[s]")),
    "masked": each(np.ma.masked_all_like),
    "NaN": each(_written),
    "infinity": each(lambda one: one + np.inf),
    "huge": each(lambda one: one.astype(np.float64) * 1e300 + 1e300),
    "tiny": each(lambda one: one * 1e-40),
    "zeros": each(np.zeros_like),
    "read-only": each(lambda one: np.broadcast_to(one[..., :1], one.shape)),
    "random": each(lambda one: one + random.random()),
    "remembered": each(_remembered),
    "strict errors": each(_strict),
    **{
        f"raises {error!r}"[:30]: lambda _, error=error: _raise(error)
        for error in (
            ValueError(),
            SystemExit(3),
            Stop("now"),
            GeneratorExit(),
            SpeechlessError(),
            MemoryError(),
            StopIteration(),
        )
    },
    "recursion": _recurse,
    **{
        f"{what} in call {number}": lambda result, number=number, make=make: (
            make(result) if len(CALLS) == number else result
        )
        for number in (2, 5)
        for what, make in {
            "raises": lambda _: _raise(Stop()),
            "None": lambda _: None,
            "negative": each(np.negative),
        }.items()
    },
}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    CALLS.clear()
    shorten_search(monkeypatch, 30)
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 3)
    with np.errstate():
        yield


def verdict(function, spec):
    result = check(function, spec, framework="numpy", form=None, longest=40, takes=())
    assert result.status in (1, 2), result
    assert str(result).startswith(("does not conform: ", "failed; ")), result
    assert result.to_dict()["status"] == result.status
    return result


@pytest.mark.parametrize("form", RIGHT)
@pytest.mark.parametrize("name", WRONG)
def test_any_function_gets_a_verdict(form, name):
    function, spec = RIGHT[form]
    change = WRONG[name]

    def of(*given):
        if "in call" in name:
            CALLS.append(given)
        return change(function(*given))

    def of_two(x, y):
        return of(x, y)

    result = verdict(of_two if form in ("turn", "addition", "bias") else lambda x: of(x), spec)  # noqa: PLW0108
    assert result.failure is not None or result.mistakes


def test_zeros_are_not_called_a_sum_that_was_left_out():
    assert verdict(lambda x, positions: np.zeros_like(x), TABLE).names == ("differs, cause unknown",)


def test_numbers_of_a_subclass_are_read():
    assert check(lambda positions: TABLE.table(positions).view(Evil), TABLE, longest=40).status == 0


@pytest.mark.parametrize("change", [lambda x: x.fill(7), lambda x: x.resize(0, refcheck=False), lambda x: x.sort()])
def test_a_function_may_spoil_its_arguments(change):
    def spoiling(x, positions):
        result = turn(x, positions)
        for one in (x, positions):
            try:
                change(one)
            except ValueError:  # a view
                one[...] = 0
        return result

    assert "arguments changed" in verdict(spoiling, ROTARY).names


def test_a_program_that_is_not_waited_for_never_conforms(monkeypatch, tmp_path):
    """The call in half precision, which a program may refuse, takes longer than its limit."""
    command = ("python", "-c", "import time; time.sleep(60)")
    monkeypatch.setattr("posenc_backends.check.program.SECONDS", 0.1)
    result = check(Program(command=command, encoding=ROTARY, form="turn"), ROTARY, form="turn", longest=40)
    assert result.status == 2
    assert str(result).startswith("failed (cut off: a call took too long); Rotary(")
