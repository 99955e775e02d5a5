"""Arrays on a device other than the CPU: those of the suite, tables, and calls that ask the device for nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_backends.conformance.cases import backend_under_test
from posenc_backends.torch import RotaryEmbedding, apply_rotary, apply_rotary_transformers
from posenc_core import MultimodalRotary, Rotary
from posenc_core.scaling import YaRN

PRETEND = Path(__file__).with_name("pretend_device.py")
HAS_GPU = torch.cuda.is_available()
on_gpu = pytest.mark.skipif(not HAS_GPU, reason="PyTorch finds no GPU here.")
SCALED = Rotary(head_dim=64, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=512))
SECTIONS = MultimodalRotary(head_dim=64, layout="half", sections=(8, 12, 12))


def pretended(what):
    """Return what the program prints that lets PyTorch pretend to have a device."""
    done = subprocess.run([sys.executable, str(PRETEND), what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_arrays_of_the_suite_lie_on_the_device():
    suite = pretended("suite")
    assert suite["errors"] == {}
    assert {*suite["read"]} == {"pretend:0"}
    assert suite["read"]["pretend:0"] > 200


def test_no_call_reads_from_the_device():
    counts = pretended("reads")
    assert counts.pop("a read") == counts.pop("a copy") == 1  # which shows that they are seen
    assert len(counts) == 8
    assert {*counts.values()} == {0}, counts


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("torch", "gpu", "`device` must be one that PyTorch finds here, got 'gpu': "),
        ("torch", "cuda:99", "`device` must be one that PyTorch finds here, got 'cuda:99': "),
        ("torch", "meta", "`device` must be one that computes, got 'meta'."),
        ("numpy", "cuda", "`device` goes with the backend torch, got 'cuda' for numpy; leave it out."),
    ],
)
def test_a_device_that_is_not_there_is_refused(name, device, message):
    with pytest.raises(ValueError, match=message):
        backend_under_test(name, device)
    assert torch.get_default_device().type == "cpu"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("posenc_backends.conformance", ["torch", "--device", "gpu"]),
        ("pytest", ["tests/backends", "--backend", "torch", "--device", "gpu", "-q"]),
    ],
)
def test_the_commands_say_so_in_one_sentence(module, arguments):
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode
    assert "`device` must be one that PyTorch finds here, got 'gpu': " in done.stderr
    assert "Traceback" not in done.stderr


@on_gpu
@pytest.mark.parametrize("encoding", [SCALED, SECTIONS], ids=lambda encoding: type(encoding).__name__)
def test_tables_on_a_gpu_are_the_same_bytes(encoding):
    there = RotaryEmbedding(encoding, max_len=300).to("cuda")
    with torch.device("cuda"):
        made_there = RotaryEmbedding(encoding, max_len=300)
    there(torch.ones(1, 1, 1, 64, device="cuda"), start=400, **_positions(encoding))  # grows
    for layer in (there, made_there):
        for name, table in layer.constants.items():
            assert table.is_cuda
            wanted = encoding.constants(len(table))[name]
            assert table.cpu().numpy().tobytes() == np.asarray(wanted).tobytes()


def _positions(encoding):
    return {} if encoding.num_axes == 1 else {"positions": np.full((encoding.num_axes, 1), 400)}


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_calls_on_a_gpu_launch_one_kernel_and_wait_for_nothing(dtype):
    """Count what reaches the GPU; `set_sync_debug_mode` raises an error where the host would wait."""
    q, k = torch.ones(2, 4, 3, 64, device="cuda", dtype=dtype), torch.ones(2, 2, 3, 64, device="cuda", dtype=dtype)
    rows = torch.tensor([3, 0, 9], device="cuda")
    layer = RotaryEmbedding(SCALED, max_len=16).to("cuda")
    cos, sin = layer.tables
    own = [table[None, :3].repeat(2, 1, 2) for table in (cos, sin)]
    layer(q, k, positions=rows)
    calls = {
        "rows": lambda: apply_rotary(q, k, cos, sin, layout="half", start=5),
        "positions": lambda: apply_rotary(q, k, cos, sin, layout="half", positions=rows),
        "starts": lambda: apply_rotary(q, k, cos, sin, layout="half", start=rows[:2]),
        "packed": lambda: apply_rotary(q, k, cos, sin, layout="half", cu_seqlens=rows),
        "transformers": lambda: apply_rotary_transformers(q, k, *own),
        "a layer": lambda: layer(q, k, start=5),
    }
    for call in calls.values():
        call()  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        counts = {name: _events(call) for name, call in calls.items()}
        layer(q, k, positions=rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert counts == {name: {"kernels": 1, "copies": 0} for name in calls}


def _events(call):
    """Return how many kernels and how many copies a call starts."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        call()
    names = [event.name for event in profiled.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    copies = sum(name.startswith("Mem") for name in names)
    return {"kernels": len(names) - copies, "copies": copies}
