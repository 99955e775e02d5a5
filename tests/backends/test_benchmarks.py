"""Each case of the benchmarks of a backend runs once at small sizes and agrees with ours; nothing is timed."""

import importlib
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPES = {"prefill": (1, 3, 19, 16), "decode grouped": (2, 4, 1, 16)}
KNOWN_TO_FAIL = {"fused operator"}  # Paddle's operator has no CPU kernel


@pytest.fixture
def rotation(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import rotation

    return rotation


@pytest.fixture
def measured_backend(request):
    """The name of the backend, if it is one to measure."""
    backend = request.config.getoption("--backend")
    if not (BENCHMARKS / "implementations" / f"{backend}.py").exists():
        pytest.skip("There are no benchmarks of this backend.")
    return backend


@pytest.mark.parametrize(("script", "sizes"), [("additive", ((2, 5, 6),)), ("biases", (2, 7))])
def test_every_implementation_of_other_benchmarks_runs(script, sizes, measured_backend, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from harness import measure

    results = [measure(case, rounds=0) for case in importlib.import_module(script).cases(measured_backend, *sizes)]
    assert len(results) >= 3
    assert not any(result["failed"] for result in results)


@pytest.mark.parametrize(  # each shape and each dtype, not all of both: eager JAX compiles every operation for each
    ("shape", "dtype"),
    [("prefill", "float32"), ("decode grouped", "float32"), ("decode grouped", "bfloat16"), ("prefill", "float16")],
)
def test_every_implementation_of_a_rotation_agrees_with_ours(shape, dtype, measured_backend, rotation, monkeypatch):
    from harness import measure

    if measured_backend == "torch":  # captures graphs without code generation, which takes seconds for each case
        import implementations.torch
        import torch

        monkeypatch.setattr(implementations.torch, "COMPILERS", {"compiled": partial(torch.compile, backend="eager")})
    for case in rotation.cases(measured_backend, {shape: SHAPES[shape]}):
        if f" {dtype}," in case.name:
            result = measure(case, rounds=0)
            assert result["differences"]
            assert {*result["failed"]} <= KNOWN_TO_FAIL
