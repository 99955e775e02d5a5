"""Each case of the benchmark of rotation runs once at small sizes: what is measured is right. Nothing is timed."""

from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHAPES = {"prefill": (1, 3, 19, 16), "decode": (2, 3, 1, 16)}
KNOWN_TO_FAIL = {"fused operator"}  # Paddle's has no kernel for CPUs


@pytest.fixture
def rotation(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import rotation

    return rotation


@pytest.mark.parametrize(  # each shape and each dtype, not all of both: eager JAX compiles every operation for each
    ("shape", "dtype"),
    [("prefill", "float32"), ("decode", "float32"), ("decode", "bfloat16"), ("prefill", "float16")],
)
def test_every_form_of_a_rotation_agrees_with_ours(shape, dtype, request, rotation, monkeypatch):
    room = request.config.getoption("--backend")
    if not (BENCHMARKS / "forms" / f"{room}.py").exists():
        pytest.skip("a room to test with, not to measure")
    from harness import measured

    if room == "torch":  # records, and generates no code: that takes seconds for each case
        import forms.torch
        import torch

        monkeypatch.setattr(forms.torch, "COMPILERS", {"compiled": partial(torch.compile, backend="eager")})
    for case in rotation.cases(room, {shape: SHAPES[shape]}):
        if f" {dtype}," in case.name:
            result = measured(case, rounds=0)
            assert result["differences"]
            assert {*result["failed"]} <= KNOWN_TO_FAIL
