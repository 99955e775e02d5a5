import re
from pathlib import Path

import numpy as np
import pytest

from posenc_backends import NAMES
from posenc_core import Rotary, rotate

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "README.md").read_text("utf-8"), re.DOTALL)


def test_the_five_lines_of_the_readme(on, request):
    """Run the block of the framework under test, or the one that needs no framework."""
    name = request.config.getoption("--backend")
    wanted = f"posenc_backends.{name} " if name in NAMES else "import numpy as np"
    (block,) = (block for block in BLOCKS if wanted in block)
    variables: dict = {}
    exec(compile(block, "README.md", "exec"), variables)  # noqa: S102
    cos, sin = Rotary(head_dim=64, layout="half", base=500000).cos_sin(range(100, 116))
    rotated = rotate(np.ones((1, 8, 16, 64)), cos, sin, layout="half")
    got = on.backend.to_numpy(variables["q"]) if name in NAMES else variables["q"]
    np.testing.assert_allclose(got, rotated, rtol=0, atol=2e-7)


def test_the_config_of_the_readme():
    (block,) = (block for block in BLOCKS if "load_rope" in block)
    variables: dict = {}
    exec(compile(block, "README.md", "exec"), variables)  # noqa: S102
    assert variables["rotary"].head_dim == 128
    assert variables["rotary"].frequencies()[-1] * 8 == pytest.approx(500000 ** (-126 / 128))
