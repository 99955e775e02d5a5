"""The page for those who come from another library: each pair of calls gives the same result."""

import re
from pathlib import Path

import diffusers  # noqa: F401  # before timm, which it looks for
import numpy as np
import pytest
import torch

import posenc_backends.torch
import posenc_core
from posenc_core import Rotary

from ..pages import blocks
from .importing import lone

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "migrate.md").read_text(encoding="utf-8")
BEGINNING, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
ROWS = re.findall(r"^\| ([^|`]+) \| `([^|]+)` \| `([^|]+)` \|$", PAGE, re.MULTILINE)
PAIRS = {section.splitlines()[0]: [block.content for block in blocks(section)] for section in SECTIONS}
UNIMPORTABLE = {  # packages whose `__init__` asks for what this environment lacks
    "torchtune": ("torchtune.modules.position_embeddings", ("RotaryPositionalEmbeddings",)),
    "timm": ("timm.layers.pos_embed_sincos", ("RotaryEmbeddingCat", "apply_rot_embed_cat")),
}


@pytest.mark.parametrize("library", [name for name, found in PAIRS.items() if found])
def test_both_give_the_same(library):
    module, names = UNIMPORTABLE.get(library, ("posenc_core", ()))
    found = {name: getattr(lone(module), name) for name in names}
    (first,) = blocks(BEGINNING)
    for code in (first.content, *PAIRS[library]):
        here = re.sub(rf"^from {library}\.\S+ import .*\n", "", code) if names else code
        exec(compile(here, "migrate.md", "exec"), found)  # noqa: S102
    torch.testing.assert_close(found["ours"], found["theirs"], rtol=0, atol=5e-5)
    assert not torch.equal(found["ours"], found.get("flux", found["q"]))
    if "steps" in found:
        torch.testing.assert_close(torch.from_numpy(found["our_steps"]), found["steps"], rtol=0, atol=5e-5)


class Formulas:
    """What libraries that are not installed here compute of `q`, in float64, by formulas written by hand."""

    def __init__(self, base):
        self.frequencies = base ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)

    def halves(self, x, start=0):
        angles = torch.arange(start, start + x.shape[-2])[:, None] * self.frequencies
        first, second = x.double().chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def complex_pairs(self, x):
        angles = torch.arange(x.shape[-2])[:, None] * self.frequencies
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    def timing(self, positions):
        angles = positions[:, None] * 10000 ** -(torch.arange(32, dtype=torch.float64) / 31)
        return torch.cat([angles.sin(), angles.cos()], -1)


def mlx(q):
    arrays, nn = pytest.importorskip("mlx.core"), pytest.importorskip("mlx.nn")
    return torch.from_numpy(np.array(nn.RoPE(64, traditional=True)(arrays.array(q.numpy()), offset=100)))


FORMULAS = {
    "flash-attention": lambda q: Formulas(10000).halves(q).transpose(1, 2),
    "litgpt": Formulas(10000).halves,
    "torchtitan, Meta's Llama": lambda q: Formulas(10000).complex_pairs(q).transpose(1, 2),
    "MaxText": lambda q: Formulas(500000).halves(q).transpose(1, 2),
    "MLX": mlx,
    "fairseq": lambda q: Formulas(10000).timing(torch.arange(2, 18)),
    "AllenNLP": lambda q: q[:, 0] + Formulas(10000).timing(torch.arange(16)),
}


@pytest.mark.parametrize(("library", "ours"), [(library, ours) for library, _, ours in ROWS])
def test_a_row_is_the_formula_of_the_library(library, ours):
    q = torch.randn(2, 8, 16, 64)
    cos, sin = map(torch.from_numpy, Rotary(head_dim=64, layout="half").cos_sin(range(16)))
    names = {name: getattr(posenc_core, name) for name in ("Rotary", "Sinusoidal", "rotate")}
    names |= {"q": q, "t": q.transpose(1, 2), "x": q[:, 0], "cos": cos, "sin": sin}
    found = eval(ours, vars(posenc_backends.torch) | names)
    theirs = FORMULAS[library](q)
    torch.testing.assert_close(torch.as_tensor(found).double(), theirs.double(), rtol=0, atol=5e-5)


def test_each_formula_has_a_row():
    assert [library for library, _, _ in ROWS] == [*FORMULAS]
