"""The kernel as a folder of its own: loaded by Hugging Face's `kernels`, and tested by its own tests."""

import ast
import json
import runpy
import shutil
import sys
from pathlib import Path

import kernels
import pytest
import torch

from posenc_backends.torch import apply_rotary, apply_rotary_transformers

ROOT = Path(__file__).parents[2]
METADATA = {"id": "_posenc_rotary_cpu_0", "name": "posenc-rotary", "version": 0, "license": "MIT", "digest": None,
            "backend": {"type": "cpu"}, "python-depends": []}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The generated folder, built as `kernel-builder` does for a kernel of Python alone."""
    folder = tmp_path_factory.mktemp("hub") / "posenc-rotary"
    runpy.run_path(str(ROOT / "hub_kernel" / "generate.py"))["generate"](folder)
    shutil.copytree(folder / "torch-ext" / "posenc_rotary", folder / "build" / "torch-cpu")
    (folder / "build" / "torch-cpu" / "metadata.json").write_text(json.dumps(METADATA))
    return folder


@pytest.fixture(scope="module")
def kernel(folder):
    return kernels.get_local_kernel(folder)


def test_nothing_is_imported_but_pytorch_triton_and_python(folder):
    nodes = [node for path in (folder / "torch-ext").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    assert {name.partition(".")[0] for name in names} - sys.stdlib_module_names == {"torch", "triton"}


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_results_are_ours(kernel, layout):
    q, k = (torch.randn(2, heads, 5, 12).bfloat16() for heads in (3, 1))
    cos, sin = torch.randn(9, 4), torch.randn(9, 4)
    for given in ({"positions": torch.tensor([[3, 1, 9, 1, 5], [8, 0, 2, 6, 5]])}, {"start": 3}):
        ours = apply_rotary(q, k, cos, sin, layout=layout, **given)
        for one, other in zip(kernel.apply_rotary(q, k, cos, sin, layout=layout, **given), ours, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    with pytest.raises(ValueError, match="exclude each other"):
        kernel.apply_rotary(q, k, cos, sin, start=1, positions=torch.arange(5))


def test_the_layer_is_pure_and_rotates_as_transformers_does(kernel):
    layer = kernel.layers.apply_rotary_transformers
    assert {*vars(layer)} <= {"forward", "can_torch_compile", "__module__", "__doc__", "__annotations__", *dir(object)}
    q, angles = torch.randn(2, 5, 3, 8), torch.rand(2, 5, 4).repeat(1, 1, 2)
    given = q, q, angles.cos(), angles.sin(), 2
    for one, other in zip(layer()(*given), apply_rotary_transformers(*given), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_its_own_tests_pass(folder, kernel, monkeypatch):
    monkeypatch.setitem(sys.modules, "posenc_rotary", kernel)
    tests = runpy.run_path(str(folder / "tests" / "test_rotary.py"))
    tests["test_results_are_those_of_complex_numbers"]("interleaved", torch.float32)
    tests["test_the_layer_has_a_gradient"]()
    tests["test_packed_sequences_begin_at_the_first_row"]()
