"""MLX-VLM: the rotation of its layers of RoPE."""

from posenc_suites import Project, skip_init

PROJECT = Project(
    "Blaizzy/mlx-vlm",
    "9b13f522a7f1d214f426c67bb292c9e1065e9108",
    "mlx",
    tests=("mlx_vlm/tests/test_rope_utils.py",),
    replaced="`mx.fast.rope`, which its layers call",
)


def prepare():
    skip_init("mlx_vlm", "mlx_vlm.models")  # which import what is not tested here


def shim():
    from fast_rope import replace_fast_rope

    replace_fast_rope()
