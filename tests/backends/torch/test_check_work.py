"""The work of a `check` of a right function: its calls and compilations, which its time follows from."""

import torch
from torch._dynamo.utils import counters

from posenc_backends.check import check
from posenc_core import Rotary

ROTARY = Rotary(head_dim=64, layout="half")
MOST_CALLS, MOST_GRAPHS = 100, 2  # graphs: for the first length, and for all others


def test_a_right_function_is_called_and_compiled_few_times():
    calls, frequencies = [], torch.from_numpy(ROTARY.frequencies())

    def rope(q, k, positions):
        if not torch.compiler.is_compiling():
            calls.append(q.shape)
        angles = positions[..., None] * frequencies
        cos, sin = (f(angles if positions.ndim == 1 else angles[:, None]).float() for f in (torch.cos, torch.sin))

        def rotated(x):
            first, second = x.float().chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

        return rotated(q), rotated(k)

    torch.compiler.reset()
    before = counters["stats"]["unique_graphs"]
    result = check(rope, ROTARY, framework="torch")
    assert (result.status, result.remarks) == (0, ())
    assert counters["stats"]["unique_graphs"] - before == MOST_GRAPHS
    assert 50 <= len(calls) <= MOST_CALLS
