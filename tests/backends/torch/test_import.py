"""The import of the backend adds little to that of PyTorch: compiler and exporter are loaded where code needs them."""

import json
import subprocess
import sys

import pytest

SLOW = (
    "torch._dynamo", "torch._inductor", "torch._export", "torch.fx.experimental.symbolic_shapes", "torch.onnx", "sympy",
    "triton",
)  # fmt: skip


def modules_after(code):
    """Return the names of the modules of a new process that has run this code."""
    told = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    return {*json.loads(subprocess.check_output([sys.executable, "-c", told], text=True))}


def test_import_and_eager_calls_load_no_compiler():
    code = """if True:
        import torch
        import posenc_backends.torch as backend
        from posenc_core import Alibi, Rotary

        q = torch.ones(1, 2, 3, 4, requires_grad=True)
        rope = backend.RotaryEmbedding(Rotary(head_dim=4, layout="half"))
        rope(q, q, start=2)[0].sum().backward()
        rope(q, positions=torch.tensor([0.5, 1.0, 2.0]))
        backend.AttentionBias(Alibi(num_heads=2))(torch.ones(1, 2, 3, 3))
        cos, sin = torch.ones(3, 2), torch.zeros(3, 2)
        backend.apply_rotary(q, q, cos, sin, layout="half")
        backend.apply_rotary_transformers(q, q, cos[None], sin[None], columns="pairs")"""
    added = modules_after(code) - modules_after("import torch")
    assert "posenc_backends.torch" in added
    assert not added & {*SLOW}


@pytest.mark.parametrize(
    "first",
    [
        "import torch._dynamo",
        "import posenc_backends.torch",
        "import posenc_backends.torch, importlib.util; importlib.util.find_spec('torch._dynamo')",
    ],
    ids=["compiler", "posenc", "posenc, and a look for the compiler"],
)
def test_the_compiler_knows_our_marks_and_substitutes_whichever_is_imported_first(first):
    code = f"""if True:
        import torch
        {first}
        import torch._dynamo, posenc_backends.torch
        from posenc_backends.torch.rotation import compiled, dynamo
        from posenc_core import rotate

        assert compiled.is_transformed._dynamo_marked_constant
        assert dynamo.uncompiled._torchdynamo_disable
        from torch._dynamo.trace_rules import lookup
        assert "Polyfilled" in lookup(rotate).__name__"""
    assert "torch._dynamo" in modules_after(code)
