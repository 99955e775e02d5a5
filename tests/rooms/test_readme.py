import re
from pathlib import Path

import numpy as np
import pytest

from posenc_backends import NAMES
from posenc_core import Rotary, rotate

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "README.md").read_text("utf-8"), re.DOTALL)


def test_the_five_lines_of_the_readme(room, request):
    name = request.config.getoption("--backend")
    if name not in NAMES:
        pytest.skip("the README shows frameworks")
    (block,) = (block for block in BLOCKS if f"posenc_backends.{name} " in block)
    found: dict = {}
    exec(compile(block, "README.md", "exec"), found)  # noqa: S102
    cos, sin = Rotary(head_dim=64, layout="half", base=500000).cos_sin(range(100, 116))
    wanted = rotate(np.ones((1, 8, 16, 64), np.float32), cos, sin, layout="half")
    np.testing.assert_array_equal(room.to_numpy(found["q"]), wanted)
