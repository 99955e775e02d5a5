"""Peers, as the benchmark of rotation calls them, return what ours do; at small sizes, and nothing is timed."""

from functools import partial
from pathlib import Path

import pytest
import torch

SHAPES = {"prefill": (1, 3, 19, 16), "decode": (2, 3, 1, 16)}
NAMES = {
    "half": {"transformers", "diffusers"},
    "interleaved": {"transformers", "torchtune", "rotary-embedding-torch", "x-transformers", "diffusers"},
}


@pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning")  # of `torch.compile` itself
@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_peer_is_measured_and_agrees(shape, dtype, layout, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import implementations.torch
    from harness import measure
    from rotation import cases

    monkeypatch.setattr(implementations.torch, "COMPILERS", {"compiled": partial(torch.compile, backend="eager")})
    for case in cases("torch", {shape: SHAPES[shape]}):
        if f"{dtype}, {layout}," in case.name:
            result = measure(case, rounds=0)
            assert NAMES[layout] <= {*result["differences"]}
            assert not result["failed"]
