"""`check` of gradients through a norm of queries and keys, which tokens or all heads of a token share."""

import numpy as np
import pytest
import torch

from posenc_backends.check import check
from posenc_core import QKNorm, Rotary, normalize_and_rotate

ROTARY = Rotary(head_dim=8, layout="half")


@pytest.mark.parametrize("heads", [{}, {"num_heads": 4, "num_kv_heads": 2}], ids=["of heads", "of rows"])
@pytest.mark.parametrize("is_detached", [False, True], ids=["right", "detached"])
def test_the_gradient_passes_through_the_norm(heads, is_detached):
    norm, rng = QKNorm(head_dim=8, **heads), np.random.default_rng(0)
    weights = {name: rng.uniform(0.5, 2, one.shape).astype(np.float32) for name, one in norm.parameters().items()}
    options = {"layout": "half", "head_axis": -3 if heads else None}

    def rope(q, k, positions):
        cos, sin = (torch.from_numpy(table) for table in ROTARY.cos_sin(positions.numpy()))
        cos, sin = (table if positions.ndim == 1 else table[:, None] for table in (cos, sin))
        results = []
        for x, name in ((q, "q_weight"), (k, "k_weight")):
            result = normalize_and_rotate(x, cos, sin, weight=torch.from_numpy(weights[name]), **options)
            results.append(result.detach() + 0 * x if is_detached else result)
        return tuple(results)

    result = check(rope, ROTARY, framework="torch", qk_norm=norm, parameters=weights, longest=40, takes=())
    assert [one.name for one in result.mistakes] == ["wrong gradient"] * is_detached, result
