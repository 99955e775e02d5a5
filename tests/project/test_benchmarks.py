"""The harness of the benchmarks: rounds, ratios, checks, comparisons, and growth that is counted; nothing is timed."""

import json
from pathlib import Path

import numpy as np
import pytest

from posenc_core import encodings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def implementations(**calls):
    from harness import Implementation

    return {name: Implementation(call, None if name == "memcpy" else np.asarray) for name, call in calls.items()}


def test_ratios_are_taken_within_each_round():
    from harness import ratios

    found = ratios({"memcpy": [1.0, 2.0, 4.0], "posenc": [3.0, 6.0, 12.0], "other": [2.0, 12.0, 24.0]})
    assert found["ratios"] == {"posenc": [3, 3, 3], "other": [4, 6, 6]}
    assert found["ours over"] == {"posenc": {"memcpy": [3, 3, 3], "other": [0.5, 0.5, 1]}}
    assert (found["yardstick"], found["rounds"], found["seconds of the yardstick"]) == ("memcpy", 3, 2)


def test_the_order_differs_between_rounds(monkeypatch):
    import harness

    monkeypatch.setattr(harness, "_repeats", lambda call, clock: 1)
    called = []
    times = harness.time_interleaved({name: lambda name=name: called.append(name) for name in "abc"}, 12)
    rounds = ["".join(called[i : i + 3]) for i in range(0, 36, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 3
    assert [len(one) for one in times.values()] == [12, 12, 12]
    assert len(harness.time_interleaved({"a": lambda: None}, 12, seconds=0)["a"]) == 5
    monkeypatch.setattr(harness, "LONG", 0)
    assert len(harness.time_interleaved({"a": lambda: None}, 12, seconds=0)["a"]) == 3


def test_short_calls_are_repeated_until_they_take_long_enough(monkeypatch):
    import harness

    monkeypatch.setattr(harness, "_seconds", lambda call, repeats, clock: 1e-5 + 1e-4 / repeats)
    repeats = harness._repeats(lambda: None, "wall")
    assert harness.LEAST <= repeats * (1e-5 + 1e-4 / repeats) < 2 * harness.LEAST


def test_results_of_others_are_compared_with_ours():
    from harness import Case, Implementation, check

    found = implementations(
        memcpy=lambda: None, posenc=lambda: [1.0, 2.0], near=lambda: [1.0, 2.5], broken=lambda: 1 / 0
    )
    working, differences, failed = check(Case("a case", lambda: found, within=0.5))
    assert [*working] == ["memcpy", "posenc", "near"]
    assert differences == {"near": 0.5}
    assert failed == {"broken": "ZeroDivisionError: division by zero"}
    with pytest.raises(ValueError, match=r"a case: near is 0\.5 off posenc, more than 0\.25\."):
        check(Case("a case", lambda: found, within=0.25))
    for wrong in ([1.0, float("nan")], [1.0, 2.0, 3.0]):
        other = found | {"near": Implementation(lambda wrong=wrong: wrong, np.asarray)}
        with pytest.raises(ValueError, match=r"near is (nan|inf) off"):
            check(Case("a case", lambda other=other: other, within=9))
    known = found | {"near": Implementation(lambda: [1.0, 9.0], np.asarray, within=np.inf)}
    assert check(Case("a case", lambda: known))[1] == {"near": 7}


def test_a_norm_is_the_same_by_the_kernel_and_by_operators():
    import qk_norm
    from harness import check

    assert [check(case)[2] for case in qk_norm.cases("numpy", {"tiny": (1, 2, 3, 8)})] == [{}] * 4


def test_an_error_in_ours_ends_the_benchmark():
    from harness import Case, check

    with pytest.raises(ZeroDivisionError):
        check(Case("a case", lambda: implementations(memcpy=lambda: None, posenc=lambda: 1 / 0)))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_memcpy_copies_all_bytes_in_one_thread_or_two(threads, monkeypatch):
    import harness
    import machine

    monkeypatch.setenv(machine.VARIABLE, threads)
    copied = []
    monkeypatch.setattr(harness.np, "copyto", lambda target, source: copied.append(source.nbytes))
    harness.memcpy(2**22).call()
    assert copied == [2**22 // int(threads)] * int(threads)


def result(**ratios):
    case = {"threads": 1, "name": "prefill", "ratios": ratios}
    return {"benchmark": "rotation", "machine": {"cores": 2}, "versions": {"numpy": "2"}, "cases": [case]}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], "slower"),
        ([1.0, 1.1, 1.2], [1.15, 1.4, 1.5], "same"),  # quartiles overlap
        ([1.0, 1.0, 1.0], [1.04, 1.04, 1.04], "same"),  # too little
        ([1.3, 1.4, 1.5], [1.0, 1.1, 1.2], "faster"),
    ],
)
def test_slower_means_quartiles_that_do_not_overlap(before, after, verdict, tmp_path, monkeypatch, capsys):
    import compare

    for name, three in (("before.json", before), ("after.json", after)):
        (tmp_path / name).write_text(json.dumps(result(posenc=three, other=[9, 9, 9])), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["compare.py", str(tmp_path / "before.json"), str(tmp_path / "after.json")])
    with pytest.raises(SystemExit) as ended:
        compare.main()
    assert ended.value.code == (verdict == "slower")
    printed = capsys.readouterr().out
    assert verdict in printed
    assert ("1 of 1 got slower." if verdict == "slower" else "None of 1 got slower.") in printed


def test_other_differences_are_listed():
    import compare

    old, new = result(posenc=[1, 1, 1], gone=[1, 1, 1]), result(posenc=[1, 1, 1]) | {"machine": {"cores": 8}}
    assert compare.differences(old, new) == ["cores: 2, then 8", "only before: threads 1, prefill: gone"]
    with pytest.raises(ValueError, match="of one benchmark, got rotation and growth"):
        compare.changes(old, new | {"benchmark": "growth"})


@pytest.mark.parametrize(
    ("name", "axis", "products", "steps"),
    [
        ("convolution", "length", 1, 0),
        ("convolution", "width", 2, 0),
        ("recurrence", "length", 1, 1),
        ("recurrence", "width", 2, 0),
        ("self-attention", "length", 2, 0),
        ("self-attention", "width", 1, 0),
    ],
)
def test_layers_cost_what_the_text_says(name, axis, products, steps):
    from growth import counts

    (found,) = (one for one in counts() if (one["name"], one["axis"]) == (name, axis))
    assert found["products grow by"] == pytest.approx(products, abs=0.02)
    assert found["steps grow by"] == pytest.approx(steps, abs=0.01)


def test_sequence_layers_compute_their_formulas():
    from sequence_layers import convolution, recurrence, self_attention

    x, a, b, c = (np.random.default_rng(seed).normal(size=size) for seed, size in enumerate([(5, 3), *[(3, 3)] * 3]))
    padded = np.pad(x, ((1, 1), (0, 0)))
    np.testing.assert_allclose(convolution(x, a, b, c), padded[:-2] @ a + padded[1:-1] @ b + padded[2:] @ c)
    state = np.zeros(3)
    for token, found in zip(x, recurrence(x, a, b), strict=True):
        state = np.tanh(token @ a + state @ b)
        np.testing.assert_allclose(found, state)
    weights = np.exp(x @ x.T / np.sqrt(3))
    np.testing.assert_allclose(self_attention(x), weights / weights.sum(-1, keepdims=True) @ x, rtol=1e-6)


def test_every_encoding_of_tokens_and_of_scores_is_measured():
    from growing import curves

    kinds = encodings.Additive | encodings.RotaryEncoding | encodings.Scoring
    wanted = {name for name in encodings.NAMES if issubclass(getattr(encodings, name), kinds)}
    assert wanted <= {one.name for one in curves()}


@pytest.mark.parametrize(
    ("kind", "name", "axis"),
    [("rotation", "Rotary", "length"), ("addition", "Sinusoidal", "length"), ("bias", "Alibi", "heads")],
)
def test_memory_grows_as_it_should(kind, name, axis):
    from growing import curves
    from growth import measure_curve

    (one,) = (one for one in curves() if (one.kind, one.name, one.axis) == (kind, name, axis))
    found = measure_curve(one, largest=2**17 if axis == "length" else 16, rounds=0)  # longer than a block
    assert found["bytes grow by"] == pytest.approx(one.memory, abs=0.1)
