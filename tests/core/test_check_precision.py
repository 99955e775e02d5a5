"""The classes of precision of `check`, its properties beside numbers, and the smallest call that fails."""

import json
import threading
import time
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from posenc_backends.check import budget, check
from posenc_backends.check.precision_classes import CLASSES, worst_class
from posenc_core import Rotary

from .corpus import bfloat16

HALF = Rotary(head_dim=16, layout="half")
FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)


def tables(positions, dtype=np.float64):
    angles = positions.astype(dtype)[..., None] * FREQUENCIES.astype(dtype)
    angles = angles if positions.ndim == 1 else angles[:, None]
    return np.cos(angles), np.sin(angles)


def rotated(x, cos, sin):
    first, second = x[..., :8], x[..., 8:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def exact(x, positions):
    return rotated(x, *tables(positions))


def once(x, positions):
    cos, sin = (np.float32(table) for table in tables(positions))
    return rotated(x.astype(np.float32), cos, sin).astype(x.dtype)


def several(x, positions):
    return rotated(x, *(table.astype(x.dtype) for table in tables(positions)))


def in_float32(x, positions):
    return rotated(x, *tables(positions, np.float32))


def in_float16(x, positions):
    return rotated(x, *tables(np.minimum(positions, 60000).astype(np.float16)))


def wrong(x, positions):
    return exact(x, positions + 1)


CLASS_OF = {
    "exact": exact,
    "rounded once": once,
    "rounded several times": several,
    "float32 angles": in_float32,
    "half-precision angles": in_float16,
    "wrong": wrong,
}


@pytest.mark.parametrize("name", CLASSES)
def test_an_implementation_of_each_class_has_it(name):
    result = check(CLASS_OF[name], HALF, longest=60000)
    assert (result.precision, result.status) == (name, int(name in CLASSES[3:])), result
    assert result.to_dict()["class"] == name
    assert json.dumps(result.to_dict(), allow_nan=False)


def at_positions_in(dtype, angles=np.float64):
    """Return a rotation whose positions, and angles, are rounded to these dtypes; frequencies are exact."""

    def rope(x, positions):
        rounded = (
            (positions.astype(dtype).astype(np.float64)[..., None] * FREQUENCIES).astype(angles).astype(np.float64)
        )
        rounded = rounded if positions.ndim == 1 else rounded[:, None]
        return rotated(x, np.cos(rounded), np.sin(rounded))

    return rope


def test_float32_positions_are_right_up_to_two_to_the_24_and_named_past_it():
    assert check(at_positions_in(np.float32), HALF, longest=2**24 + 1).precision == "exact"
    result = check(at_positions_in(np.float32), HALF, longest=2**24 + 7)
    assert (result.names, result.precision) == (("float32 positions",), "float32 angles"), result
    result = check(at_positions_in(np.float32), HALF, longest=2**31)
    assert result.names == ("float32 positions",), result


def exact_however_far(x, positions):
    with mpmath.workdps(50):
        turns = [int(2**96 * mpmath.mpf(10000) ** (-mpmath.mpf(i) / 8) / (2 * mpmath.pi)) for i in range(8)]
    angles = (positions.astype(object)[..., None] * turns % 2**96).astype(np.float64) * (2 * np.pi / 2**96)
    angles = angles if positions.ndim == 1 else angles[:, None]
    return rotated(x, np.cos(angles), np.sin(angles))


def test_exact_positions_are_exact_up_to_two_to_the_31():
    result = check(exact_however_far, HALF, longest=2**31)
    assert result.precision == "exact", result
    assert ("far", "float32") in {answer[:2] for answer in result.answers}


def test_positions_and_angles_in_float32_are_both_named():
    assert set(check(at_positions_in(np.float32, np.float32), HALF, longest=2**31).names) == {
        "float32 angles",
        "float32 positions",
    }


def test_positions_in_half_precision_keep_their_names_at_far_positions():
    names = check(lambda x, positions: at_positions_in(np.float16)(x, positions % 2**15), HALF, longest=2**15).names
    assert names == ("float16 positions",)
    assert check(lambda x, positions: exact(x, bfloat16(positions)), HALF, longest=2**31).names == (
        "bfloat16 positions",
    )


def test_a_class_is_allowed_with_those_above_it_alone():
    for name in ("rounded once", "float32 angles"):
        result = check(CLASS_OF[name], HALF, longest=9000)
        for allowed in CLASSES[:-1]:
            status = int(CLASSES.index(name) > CLASSES.index(allowed))
            assert replace(result, allow=allowed).status == status, (name, allowed)
    assert check(in_float32, HALF, longest=9000, allow="exact").status == 1


def test_the_first_position_that_is_off_is_the_first():
    result = check(in_float32, HALF)
    first = result.first_off
    positions = np.arange(first + 1)
    off = [np.abs(a - b).max(axis=-1) for a, b in zip(tables(positions, np.float32), tables(positions), strict=True)]
    assert np.flatnonzero(np.hypot(*off) >= 1e-3)[0] <= first  # of tables; that of tokens is a little later
    assert np.max(off, axis=0)[:first].max() < 2e-3
    assert f"off by 1e-3 from position {first} on" in str(result)
    allowed = check(in_float32, HALF, allow="float32 angles")
    assert str(allowed).startswith(f"conforms (float32 angles, off by 1e-3 from position {first} on)")


def test_a_mistake_is_worse_than_every_class():
    assert worst_class(["exact", "rounded once"], []) == "rounded once"
    assert worst_class(["exact"], ["float32 angles", "bfloat16 tables"]) == "half-precision angles"
    assert worst_class(["exact"], ["float32 angles", "layout swapped"]) == "wrong"


def promoted(x, positions):
    return exact(x.astype(np.float32), positions)


def in_place(x, positions):
    x[:] = exact(x, positions)
    return x


def counting_down(x, positions):
    result = exact(x, positions)
    positions -= 1
    return result


def no_batch_of_three(x, positions):
    return exact(x, positions) if x.shape[0] < 3 else exact(x, positions + 1)


def even_lengths(x, positions):
    return exact(x, positions) if x.shape[2] % 2 == 0 or x.shape[2] < 70 else exact(x, positions - 1)


def heads_of_four(x, positions):
    return exact(x, positions) if x.shape[1] in (1, 2, 3, 4) else rotated(x, *tables(positions * 0))


def contiguous(x, positions):
    return exact(np.ascontiguousarray(x) if x.flags.c_contiguous else x.base.reshape(x.shape), positions)


def refusing_heads(x, positions):
    if x.shape[1] > 4:
        raise ValueError("too many heads")
    return exact(x, positions)


class Shared:
    """A scratch array that calls share, as buffers of a module are."""

    def __call__(self, x, positions):
        self.scratch = tables(positions)
        time.sleep(0.005)
        return rotated(x, *self.scratch)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (promoted, ("wrong dtype",)),
        (in_place, ("arguments changed",)),
        (counting_down, ("arguments changed",)),
        (no_batch_of_three, ("positions off by one",)),
        (even_lengths, ("positions off by one",)),
        (heads_of_four, ("positions ignored", "not rotated")),
        (refusing_heads, ("fails at some sizes",)),
        (Shared(), ("not thread-safe", "fails at some sizes")),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_what_a_few_calls_of_one_size_do_not_show_is_found(function, names):
    result = check(function, HALF)
    assert result.status == 1, result
    assert set(result.names) & set(names), result


def test_a_view_is_asked_for():
    result = check(contiguous, HALF)
    assert result.status == 1, result
    assert result.names == ("strides ignored",)
    assert result.mistakes[0].calls[0] == "a view"


def test_the_smallest_call_that_fails_can_be_pasted():
    result = check(no_batch_of_three, HALF)
    draws = []
    exec(result.smallest, {"no_batch_of_three": lambda q, positions: draws.append((q.shape, positions.tolist()))})  # noqa: S102
    ((shape, positions),) = draws
    assert (shape, len(positions)) == ((3, 1, 1, 16), 1)
    assert f"np.array({positions})" in str(result)


def test_two_threads_are_compared_only_if_one_is_right():
    names = []

    def rope(x, positions):
        names.append(threading.current_thread().name)
        return wrong(x, positions)

    check(rope, HALF)
    assert set(names) == {threading.current_thread().name}


def test_a_right_implementation_is_checked_in_few_calls():
    calls = []
    assert check(lambda x, positions: calls.append(positions.size) or exact(x, positions), HALF).status == 0
    assert len(calls) <= 100
    assert sum(calls) <= 20_000


def test_a_search_ends_after_as_many_hypotheses_on_any_machine_and_shows_its_progress(monkeypatch):
    lines = []
    monkeypatch.setattr(budget, "SHOWN_EVERY", 0.0)
    monkeypatch.setattr("posenc_backends.check.run.MOST_HYPOTHESES", 40)
    result = check(lambda x, positions: exact(x, positions) + 1, HALF, progress=lines.append)
    assert (result.status, result.names) == (1, ("differs, cause unknown",))
    cut_off = "the search for the mistake ended after 40 hypotheses"
    assert result.cut_off == cut_off
    assert str(result).startswith(f"does not conform: differs, cause unknown (cut off: {cut_off}); Rotary(")
    assert lines[:2] == [f"searching for the mistake: {tried} hypotheses tried, of at most 40" for tried in (1, 2)]


def test_a_slow_function_is_called_as_often_as_a_fast_one(monkeypatch):
    """A clock that runs away changes neither the verdict nor the number of calls."""
    clock, calls = {"now": 0.0}, {"fast": 0, "slow": 0}

    def counted(name, x, positions):
        clock["now"] += 1000 * (name == "slow")
        calls[name] += 1
        return exact(x, positions) + (len(positions) == 2)  # one of the random calls

    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    fast, slow = (check(lambda x, positions, name=name: counted(name, x, positions), HALF) for name in calls)
    assert str(fast) == str(slow)
    assert fast.status == 1
    assert calls["fast"] == calls["slow"]


@pytest.mark.parametrize(
    "source", ["search.mistakes_of_encoding", "search.mistakes_of_state", "diagnosis.wrong_factors"]
)
def test_what_a_hypothesis_raises_is_dropped(monkeypatch, source):
    def raising(*_):
        yield from ()
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("posenc_backends.check.run.MOST_HYPOTHESES", 200)
    monkeypatch.setattr(f"posenc_backends.check.{source}", raising)
    result = check(lambda x, positions: exact(x, positions) + 1, HALF, longest=100)
    assert (result.status, result.names) == (1, ("differs, cause unknown",))


def test_filters_of_warnings_are_as_before():
    def slow(x, positions):
        time.sleep(0.002 * len(positions) * (threading.current_thread() is not threading.main_thread()))
        return exact(x, positions)

    before = list(warnings.filters)
    assert check(slow, HALF).status == 0
    assert warnings.filters == before


@pytest.mark.parametrize("is_wrong", [lambda positions: len(positions) != 17, lambda positions: positions[0] > 60000])
def test_compiled_code_is_asked_at_another_length_and_far(monkeypatch, is_wrong):
    def compiled(function, framework):
        return lambda x, positions: function(x, positions - int(is_wrong(positions)))

    monkeypatch.setattr("posenc_backends.check.properties.compiled", compiled)
    assert check(exact, HALF).names == ("wrong when compiled",)
    assert check(exact, HALF, longest=100).names == ()


def test_a_framework_whose_compiler_is_not_called_says_so(monkeypatch):
    assert check(exact, HALF, longest=100).remarks == ()
    monkeypatch.setattr("posenc_backends.check.properties.NOT_COMPILED", {"numpy": "not asked: compiled code"})
    assert check(exact, HALF, longest=100).remarks == ("not asked: compiled code",)


def test_compiled_code_may_return_nan_past_the_end_of_a_table_and_nothing_else(monkeypatch):
    for value, names in ((np.nan, ()), (0.0, ("wrong when compiled",))):

        def compiled(function, framework, value=value):
            return lambda x, positions: function(x, positions) if positions[0] < 2048 else np.full_like(x, value)

        monkeypatch.setattr("posenc_backends.check.properties.compiled", compiled)
        result = check(exact, HALF)
        assert result.names == names
        assert any("it returns NaN at positions 4090 … 4102" in remark for remark in result.remarks) == (not names)
    for part, names in ((slice(4096, None), ()), (slice(None, 4096), ("wrong when compiled",))):  # of the positions

        def compiled_in_part(function, framework, part=part):
            return lambda x, positions: np.where(
                np.isin(positions, np.arange(5000)[part])[..., None] & (positions[0] > 4000),
                np.nan,
                function(x, positions),
            )

        monkeypatch.setattr("posenc_backends.check.properties.compiled", compiled_in_part)
        result = check(exact, HALF, longest=5000)
        assert result.names == names
        assert any("it returns NaN at positions 4096 … 4102" in remark for remark in result.remarks) == (not names)
    monkeypatch.setattr("posenc_backends.check.properties.compiled", lambda *_: lambda x, _: np.full_like(x, np.nan))
    assert check(exact, HALF).names == ("wrong when compiled",)
