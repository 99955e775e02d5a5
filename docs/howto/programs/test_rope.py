"""Hold our RoPE to exact numbers."""

import pytest
from mine import rope


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_each_base(conforms, base):
    """The bases of Llama 2 and Llama 3."""
    conforms(
        lambda q, k, positions: rope(q, k, positions, base),
        f"Rotary(head_dim=64, layout='half', base={base})",
    )
