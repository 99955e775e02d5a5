"""The page for those who come from another library: each pair of calls gives the same result."""

import re
from pathlib import Path

import diffusers  # noqa: F401  # before timm, which it looks for
import pytest
import torch

from ..pages import blocks
from .importing import lone

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "migrate.md").read_text(encoding="utf-8")
BEGINNING, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
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
