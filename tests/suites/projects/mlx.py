"""MLX: RoPE and ALiBi of `mlx.nn`, and `mx.fast.rope`."""

from posenc_suites import Project

PROJECT = Project(
    "ml-explore/mlx",
    "846d176227a0ac13d2667e58d2bb68b322109ab0",
    "mlx",
    tests=("python/tests/test_nn.py", "python/tests/test_fast.py"),
    paths=("python/tests",),
    options=("-k", "rope or alibi"),
    replaced="`mx.fast.rope`, and so `nn.RoPE`; `nn.ALiBi`",
)


def shim():
    from fast_rope import replace_fast_rope
    from mlx import nn

    from posenc_backends.mlx import AttentionBias
    from posenc_core import Alibi

    class ALiBi(nn.Module):
        def __call__(self, attention_scores, offset=0, mask=None):
            layer = AttentionBias(Alibi(num_heads=attention_scores.shape[1]))
            scores = layer(attention_scores, start=offset)
            return scores if mask is None else scores + mask

    replace_fast_rope()
    nn.ALiBi = ALiBi
