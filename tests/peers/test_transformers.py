"""Our rotation in models of transformers: by an entry of their mapping of kernels, and in place of their function."""

import importlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers

from posenc_backends.torch import apply_rotary_transformers, rotary_kernel
from posenc_backends.torch.huggingface.apply_rotary import form_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "transformers.md"
MODELS = Path(transformers.__file__).parent / "models"
MARK = '@use_kernel_forward_from_hub("rotary_pos_emb")'
MARKED = sorted(
    f"transformers.models.{path.parent.name}.{path.stem}"
    for path in MODELS.glob("*/modeling_*.py")
    if MARK in path.read_text(encoding="utf-8")
)
OTHER_FORMS = {
    "gpt_oss": ("half", "pairs", 1),
    "nanochat": ("half", "half", -1),
    "openai_privacy_filter": ("interleaved", "pairs", 1),
}
ROUNDED = 2**-6  # three roundings to bfloat16 of numbers below 4, ours one


def layer_of(function):
    """Return the layer that `kernels` makes of a function."""

    class Layer(torch.nn.Module):
        def forward(self, *arguments):
            return function(*arguments)

    return Layer()


def test_all_functions_that_may_be_replaced_are_found():
    assert len(MARKED) == 120
    assert {*OTHER_FORMS} < {name.split(".")[2] for name in MARKED}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MARKED)
def test_the_kernel_rotates_as_each_function_that_it_may_replace(name, dtype):
    original = layer_of(importlib.import_module(name).apply_rotary_pos_emb)
    form = form_of(type(original))
    assert form == OTHER_FORMS.get(name.split(".")[2], ("half", "half", 1))
    torch.manual_seed(0)
    q, k, angles = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16), torch.randn(2, 5, 8)
    angles = angles if form.columns == "pairs" else torch.cat([angles, angles], dim=-1)
    given = [array.to(dtype) for array in (q.clamp(-2, 2), k.clamp(-2, 2), angles.cos(), angles.sin())]
    found = rotary_kernel.load().forward(original, *given)
    for one, other in zip(found, original(*given), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0, atol=0 if dtype == torch.float32 else ROUNDED)


@pytest.mark.parametrize(("name", "width"), [("Llama", 8), ("Phi", 4)])  # which rotates half of its channels
def test_a_model_trains_the_same_with_one_entry_of_the_mapping(name, width, kernelized):
    seen, difference = kernelized[name]
    assert seen[-2:] == [[1, 4, 10, width]] * 2  # of two layers; before that, the function is asked for its form
    assert difference == 0


@pytest.fixture(scope="module")
def kernelized():
    """What came to us in each model, and what differed."""
    return json.loads(with_kernels("compare", "Llama", "Phi"))


def test_the_page_runs():
    with_kernels("page", str(PAGE))


def with_kernels(*arguments):
    """Return what `kernelized.py` prints, in a process where transformers finds the package `kernels`."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.peers.kernelized", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("family", "width", "form"),
    [
        ("GPTNeoX", 2, {}),
        ("Glm", 4, {"layout": "interleaved"}),
        ("Cohere", 8, {"layout": "interleaved", "columns": "interleaved"}),
    ],
)
def test_a_model_trains_the_same_with_our_function_in_place_of_its_own(family, width, form, monkeypatch):
    """The first two rotate a part of the channels."""
    folder = {"GPTNeoX": "gpt_neox"}.get(family, family.lower())
    modeling = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"vocab_size": 11, "pad_token_id": 0, "max_position_embeddings": 64}
    sizes |= {} if family == "GPTNeoX" else {"num_key_value_heads": 2}
    sizes |= {"head_dim": 8} if family == "Glm" else {}

    def trained():
        torch.manual_seed(0)
        model = getattr(modeling, f"{family}ForCausalLM")(getattr(transformers, f"{family}Config")(**sizes)).train()
        model = model.eval() if family == "GPTNeoX" else model  # whose dropout is random
        ids = torch.arange(10)[None]
        result = model(input_ids=ids, labels=ids)
        result.loss.backward()
        return [result.logits, *(parameter.grad for parameter in model.parameters())]

    wanted, shapes = trained(), []

    def ours(q, k, cos, *rest):
        shapes.append((q.shape[-1], cos.shape[-1]))
        return partial(apply_rotary_transformers, **form)(q, k, cos, *rest)

    monkeypatch.setattr(modeling, "apply_rotary_pos_emb", ours)
    for one, other in zip(trained(), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert shapes == [(8, width)] * 2
