"""`posenc train dates` writes the attention to an example; `tests/backends/test_training.py` has the rest."""

import json

import numpy as np

from posenc_backends.cli.main import main


def test_the_attention_to_an_example_is_written(tmp_path):
    path = tmp_path / "dates.json"
    command = ["train", "dates", "--backend", "torch", "--steps", "1", "--target", "0", "--json", str(path)]
    assert main(command) == 0
    weights = np.array(json.loads(path.read_text(encoding="utf-8"))["attention"])
    assert weights.shape == (4, 10, 25)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=2e-3)
