"""Each benchmark of a backend runs once at a small size, untimed: its results must be right."""

import importlib
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPES = {"prefill": (1, 3, 19, 16), "decode": (2, 3, 1, 16)}
KNOWN_TO_FAIL = {"fused operator"}  # Paddle's operator has no CPU kernel


@pytest.fixture
def rotation(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import rotation

    return rotation


@pytest.fixture
def measured_room(request):
    """The name of the backend; skip backends that are not benchmarked."""
    backend = request.config.getoption("--backend")
    if not (BENCHMARKS / "implementations" / f"{backend}.py").exists():
        pytest.skip("This backend is not benchmarked.")
    return backend


@pytest.mark.parametrize(("script", "sizes"), [("additive", ((2, 5, 6),)), ("biases", (2, 7))])
def test_every_variant_of_other_benchmarks_runs(script, sizes, measured_room, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from harness import measured

    results = [measured(case, rounds=0) for case in importlib.import_module(script).cases(measured_room, *sizes)]
    assert len(results) >= 3
    assert not any(result["failed"] for result in results)


@pytest.mark.parametrize(  # each shape and each dtype, not all of both: eager JAX compiles every operation for each
    ("shape", "dtype"),
    [("prefill", "float32"), ("decode", "float32"), ("decode", "bfloat16"), ("prefill", "float16")],
)
def test_every_variant_of_a_rotation_agrees_with_ours(shape, dtype, measured_room, rotation, monkeypatch):
    from harness import measured

    if measured_room == "torch":  # trace without code generation, which takes seconds per case
        import implementations.torch
        import torch

        monkeypatch.setattr(implementations.torch, "COMPILERS", {"compiled": partial(torch.compile, backend="eager")})
    for case in rotation.cases(measured_room, {shape: SHAPES[shape]}):
        if f" {dtype}," in case.name:
            result = measured(case, rounds=0)
            assert result["differences"]
            assert {*result["failed"]} <= KNOWN_TO_FAIL
