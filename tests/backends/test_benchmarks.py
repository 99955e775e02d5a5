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


@pytest.mark.parametrize(("script", "sizes"), [("additive", ((2, 5, 6),)), ("biases", (2, 7)), ("attention", ((3,),))])
def test_every_implementation_of_other_benchmarks_runs(script, sizes, measured_backend, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from harness import measure

    if measured_backend not in getattr(importlib.import_module(script), "OPERATORS", [measured_backend]):
        pytest.skip("This benchmark is for other backends.")
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


@pytest.fixture
def gpu(measured_backend, monkeypatch):
    """The benchmark of a GPU, with graphs that are captured without code generation."""
    if measured_backend != "torch":
        pytest.skip("Only PyTorch is measured on a GPU.")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu
    import torch

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    return gpu


@pytest.mark.parametrize(  # each layout and each way, not all of both
    ("way", "layout"), [("prefill", "half"), ("training", "interleaved"), ("packed", "half"), ("decode", "interleaved")]
)
def test_every_implementation_on_a_device_agrees_with_ours(way, layout, gpu):
    found = [case for case in gpu.cases("cpu", gpu.TINY) if case.name.startswith(way) and f", {layout}, " in case.name]
    assert len(found) == (6 if way == "training" else 3)
    for case in found[1::2]:
        result = gpu.measure(case, gpu.Device("cpu"), rounds=0)
        assert {"posenc.apply_rotary, compiled", "posenc.apply_rotary_transformers"} <= {*result["differences"]}
        assert not result["failed"]


def test_a_device_is_timed_in_rounds(gpu):
    case = next(gpu.cases("cpu", gpu.TINY))
    result = gpu.measure(case, gpu.Device("cpu"), rounds=3, calls=2)
    assert (result["yardstick"], result["rounds"]) == ("copy", 3)
    assert {*result["ratios"]} == {*result["differences"], "posenc.apply_rotary"}
    assert {*result["microseconds of a call"]} == {*result["launches"]} == {"copy", *result["ratios"]}
    gigabytes = 2 * 2 * 5 * 6 * 8 / result["seconds of the yardstick"] / 1e9
    assert gpu.bandwidth(result, gpu.TINY) == pytest.approx(gigabytes)


def test_a_peer_that_fails_on_import_is_named(gpu, monkeypatch):
    from implementations import torch_gpu

    def broken(given):
        raise ImportError("libcuda is not there")

    monkeypatch.setattr(torch_gpu, "PEERS", {"json": broken, "a peer that nobody has": broken})
    assert torch_gpu.missing() == {"a peer that nobody has": "is not installed"}
    result = gpu.measure(next(gpu.cases("cpu", gpu.TINY)), gpu.Device("cpu"), rounds=0)
    assert result["failed"] == {"json": "ImportError: libcuda is not there"}


def test_without_a_gpu_it_says_so_in_one_sentence(gpu, monkeypatch, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("There is a GPU.")
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    with pytest.raises(SystemExit, match=r"^This benchmark needs a GPU that PyTorch finds, and there is none: .*\.$"):
        gpu.main()
    monkeypatch.setattr("sys.argv", ["gpu.py", "--check", "--device", "cpu"])
    gpu.main()
    assert capsys.readouterr().out == "none: tiny sizes on the processor\n"
