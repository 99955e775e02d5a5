"""The table of the README that compares libraries: each cell, in the installed version."""

import re
from importlib.metadata import files, requires, version
from pathlib import Path

import numpy as np
import pytest
import torch
from keras_hub.layers import RotaryEmbedding
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from posenc_core import Rotary

from .importing import lone
from .libraries import Answer, diffuser, keras, lucidrains, torchtune, x_transformer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in README.partition("| | framework |")[2].partition("\n\n")[0].splitlines()[2:]
]
POSITION = 131071
NAMES = {"PyTorch": "torch", "Keras": "keras"}
FORMULAS = {  # the code of a bias, by its name
    "ALiBi": re.compile(r"(?:class|def) \w*alibi", re.IGNORECASE),
    "T5 bias": re.compile(r"relative_position_(?:to_)?bucket\b"),
}


def transformers(x, positions):
    cos, sin = LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=1))(x, positions[None])
    return Answer(x, cos[0, :, :32], sin[0, :, :32])


ASKED = {
    "transformers": transformers,
    "rotary-embedding-torch": lucidrains(dim=64),
    "x-transformers": x_transformer(dim=64),
    "torchtune": torchtune(lone("torchtune.modules.position_embeddings").RotaryPositionalEmbeddings),
    "keras-hub": keras(RotaryEmbedding),
    "diffusers": diffuser("interleaved"),
}


def where(library, formula):
    """Where a library has the code of a bias."""
    found = [path for path in files(library) if path.suffix == ".py" and formula.search(path.read_text("utf-8"))]
    if not found:
        return "no"
    return "inside models" if all("models" in path.parts for path in found) else "yes"


def test_all_libraries_are_measured():
    assert [row[0].partition(" ")[0] for row in ROWS] == ["posenc", *ASKED]


@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row[0])
def test_a_row_is_true(row):
    (library, _, release), framework, error, *biases = row[0].partition(" "), *row[1:]
    assert version(library).startswith(f"{release}.")
    assert any(re.match(rf"{NAMES[framework]}(data)?\b", one) for one in requires(library))
    cos = torch.as_tensor(ASKED[library](torch.zeros(1, 1, 1, 64), torch.tensor([POSITION])).cos)
    exact, _ = Rotary(head_dim=64, layout="half").cos_sin([POSITION])
    assert np.abs(cos.detach().numpy() - exact).max() == pytest.approx(float(error), rel=0.5)
    assert biases == [where(library, formula) for formula in FORMULAS.values()]
