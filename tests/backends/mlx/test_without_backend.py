"""Functions of the core on arrays of MLX in a program that imports no backend."""

import subprocess
import sys

PROGRAM = """
import mlx.core as mx
import numpy as np
from posenc_core import Rotary, rerotate, resize_bias_table, resize_table

table = np.arange(36, dtype=np.float32).reshape(9, 4)
for function in (
    lambda x: resize_table(x, size=(4, 5)),
    lambda x: resize_bias_table(x, window=(3, 3)),
    lambda x: rerotate(x, range(9), range(1, 10), rotary=Rotary(head_dim=4, layout="half")),
):
    np.testing.assert_array_equal(np.array(function(mx.array(table))), function(table))
"""


def test_arrays_are_resized_and_rotated_without_the_backend():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
