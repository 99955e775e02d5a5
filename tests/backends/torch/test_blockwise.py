"""`attend_by_block` in PyTorch: memory, also of gradients, and symbolic lengths."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import posenc_backends.torch  # noqa: F401 - registers the namespace
from posenc_core import attend, attend_by_block

PEAK = """
import resource, sys
import torch
import posenc_backends.torch
from posenc_core import T5Bias, attend_by_block, causal
from posenc_core.encodings import Placed

torch.set_num_threads(1)

def call(n):
    x, table = (torch.randn(shape, requires_grad=sys.argv[1] == "gradient") for shape in ((1, 1, n, 8), (32, 1)))
    position = Placed(T5Bias(num_heads=1), range(n), range(n), {"table": table})
    result = attend_by_block(x, x, x, position=position, mask=causal, block=256)
    if sys.argv[1] == "gradient":
        result.sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = call(1024)
print(call(8192) - before)
"""


@pytest.mark.parametrize("what", ["result", "gradient"])
def test_memory_grows_with_the_length_and_not_with_its_square(what):
    peak = subprocess.run([sys.executable, "-c", PEAK, what], check=True, capture_output=True, text=True).stdout
    assert int(peak) < 128 * 2**10  # KiB; the scores alone are 256 MiB, and gradients keep several of their size


def test_a_symbolic_length_is_rejected():
    x = torch.randn(1, 2, 12, 4)
    torch._dynamo.mark_dynamic(x, 2)
    torch.compiler.reset()
    with pytest.raises(Exception, match="must have lengths that are known when code is traced"):
        torch.compile(lambda x: attend_by_block(x, x, x, block=6), fullgraph=True)(x)


def test_second_derivatives_and_vmap():
    x = torch.randn(
        1, 2, 5, 2, dtype=torch.float64, requires_grad=True
    )  # each number is a row of the second derivative
    assert torch.autograd.gradgradcheck(lambda x: attend_by_block(x, x, x, block=2), x)
    rows = torch.randn(3, 1, 2, 7, 4)
    got = torch.vmap(lambda x: attend_by_block(x, x, x, block=3))(rows)
    wanted = torch.stack([attend(x, x, x) for x in rows])
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), atol=1e-6)
    slopes = torch.func.grad(lambda x: attend_by_block(x, x, x, block=3).sum())(rows[0])
    (expected,) = torch.autograd.grad(attend(leaf := rows[0].clone().requires_grad_(), leaf, leaf).sum(), leaf)
    np.testing.assert_allclose(slopes.numpy(), expected.numpy(), atol=1e-5)
