"""The scoreboard says why the fused rotation of Paddle has no row."""

import paddle
import pytest
from paddle.incubate.nn.functional import fused_rotary_position_embedding


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="there is a kernel for CUDA")
def test_the_fused_rotation_has_no_kernel_for_the_cpu():
    with pytest.raises(RuntimeError, match="kernel `fused_rotary_position_embedding` is not registered"):
        fused_rotary_position_embedding(paddle.zeros([1, 2, 1, 8]))
