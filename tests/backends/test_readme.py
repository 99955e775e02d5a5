"""The README: its example in each framework, by the lines that its table replaces."""

import re
from pathlib import Path

import numpy as np

from posenc_core import Rotary, rotate

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TITLES = {
    "keras": "Keras",
    "jax": "JAX",
    "paddle": "Paddle",
    "mxnet": "MXNet 1.9.1",
    "mlx": "MLX",
    "numpy": "NumPy",
    "strict": "NumPy",
}


def code_for(name):
    """The example in a framework."""
    if name == "torch":
        return EXAMPLE
    layer, array = re.search(rf"^\| {TITLES[name]}[^|]*\| `(.*)` \| `(.*)` \|$", README, re.MULTILINE).groups()
    framework = array.partition(".")[0]
    replaced = {
        "import torch": f"import {framework}",
        "from posenc_backends.torch import RotaryEmbedding": layer,
        "torch.ones((1, 8, 16, 64))": array,
    }
    code = EXAMPLE
    for line, other in replaced.items():
        assert code.count(line) == 1
        code = code.replace(line, other)
    return code


def test_the_example_gives_the_same_numbers_in_every_framework(on, request):
    name = request.config.getoption("--backend")
    variables: dict = {}
    exec(compile(code_for(name), "README.md", "exec"), variables)  # noqa: S102
    cos, sin = Rotary(head_dim=64, layout="half", base=500000).cos_sin(range(100, 116))
    rotated = rotate(np.ones((1, 8, 16, 64)), cos, sin, layout="half")
    numbers = np.asarray if TITLES.get(name) == "NumPy" else on.backend.to_numpy
    np.testing.assert_allclose(numbers(variables["q"]), rotated, rtol=0, atol=2e-7)
    np.testing.assert_allclose(numbers(variables["k"]), rotated[:, :2], rtol=0, atol=2e-7)
