"""MLX LM: the rotation of every model."""

from posenc_suites import Project

PROJECT = Project(
    "ml-explore/mlx-lm",
    "d78bf58e217c904ec282ed8da9b947491f78c022",
    "mlx",
    tests=("tests/test_models.py",),
    replaced="`mx.fast.rope`, which its models and its scalings call",
    requires=("transformers",),
)


def shim():
    from fast_rope import replace_fast_rope

    replace_fast_rope()
