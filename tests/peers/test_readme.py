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
from x_transformers import x_transformers

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


def transformers_in_float64(x, positions):
    rope = LlamaRotaryEmbedding(LlamaConfig(hidden_size=64, num_attention_heads=1)).double()
    cos, sin = rope(x.double(), positions[None])
    return Answer(x, cos[0, :, :32], sin[0, :, :32])


def x_transformer_in_float64(x, positions):
    angles, _ = x_transformers.RotaryEmbedding(dim=64).double()(positions)
    return Answer(x, angles[0].cos()[:, ::2], angles[0].sin()[:, ::2])


ASKED = {
    "transformers": transformers,
    "rotary-embedding-torch": lucidrains(dim=64),
    "x-transformers": x_transformer(dim=64),
    "torchtune": torchtune(lone("torchtune.modules.position_embeddings").RotaryPositionalEmbeddings),
    "keras-hub": keras(RotaryEmbedding),
    "diffusers": diffuser("interleaved"),
}
FREQUENCIES = 1 / 10000 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)
BEST = {  # float64, where a library has a setting that takes it
    "transformers": transformers_in_float64,
    "rotary-embedding-torch": lucidrains(dim=64, custom_freqs=FREQUENCIES),
    "x-transformers": x_transformer_in_float64,
    "torchtune": ASKED["torchtune"],
    "keras-hub": keras(RotaryEmbedding, dtype="float64"),
    "diffusers": diffuser("interleaved", freqs_dtype=torch.float64),
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
    (library, _, release), framework, error, best, *biases = row[0].partition(" "), *row[1:]
    assert version(library).startswith(f"{release}.")
    assert any(re.match(rf"{NAMES[framework]}(data)?\b", one) for one in requires(library))
    assert error_of(ASKED[library]) == pytest.approx(float(error), rel=0.5)
    if best.startswith("0.5 ulp: "):
        assert error_of(BEST[library]) <= 2**-24  # half a unit in the last place of a float32 below 1
    else:
        assert error_of(BEST[library]) == pytest.approx(float(best), rel=0.5)
    assert biases == [where(library, formula) for formula in FORMULAS.values()]


def error_of(ask):
    """The largest error of a cosine at the position, rounded to float32 if it is more precise."""
    cos = torch.as_tensor(ask(torch.zeros(1, 1, 1, 64), torch.tensor([POSITION])).cos).detach().float()
    exact, _ = Rotary(head_dim=64, layout="half").cos_sin([POSITION])
    return np.abs(cos.numpy() - exact).max()
