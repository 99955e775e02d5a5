"""The benchmark of JAX on a GPU runs on a processor, so that a lent machine meets no broken script."""

import json
import sys
from pathlib import Path


def test_it_runs_with_its_smallest_shapes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import gpu_jax

    monkeypatch.setattr(sys, "argv", ["gpu_jax.py", "--device", "cpu", "--rounds", "1", "-o", str(tmp_path / "x.json")])
    monkeypatch.setattr(gpu_jax, "CALLS", 1)
    monkeypatch.setattr(gpu_jax, "product", lambda *each: zip(*each, strict=False))  # one case, as compiling takes long
    gpu_jax.main()
    cases = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["cases"]
    assert [case["of the pass"].keys() for case in cases] == [{"pass", "rotation", "gradient"}]
