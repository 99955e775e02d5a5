"""The rotary encoding of the page on encodings, with a base for each head: `Rotary` for each, in every backend."""

import numpy as np
import pytest

from posenc_core import Rotary

from ..pages import FOLDER, blocks

PAGE = FOLDER.with_name("howto") / "encoding.md"


@pytest.fixture(scope="module")
def encoding():
    cells = [block.content for block in blocks(PAGE.read_text(encoding="utf-8")) if block.kind == "python"]
    found = {}
    for cell in (cells[0], next(cell for cell in cells if "class HeadRotary" in cell)):
        exec(compile(cell, PAGE, "exec"), found)  # noqa: S102
    return found["HeadRotary"](head_dim=8, layout="half", bases=(100.0, 10000.0))


@pytest.mark.parametrize("start", [0, 100])
def test_each_head_has_its_base(on, to_backend, encoding, start):
    x = np.random.default_rng(start).normal(size=(2, 2, 5, 8)).astype(np.float32)
    rotated = on.backend.to_numpy(on.backend.RotaryEmbedding(encoding)(to_backend(x), start=start))
    for head, base in enumerate(encoding.bases):
        plain = on.backend.RotaryEmbedding(Rotary(head_dim=8, layout="half", base=base))
        wanted = on.backend.to_numpy(plain(to_backend(x[:, head]), start=start))
        np.testing.assert_allclose(rotated[:, head], wanted, rtol=0, atol=1e-6)
