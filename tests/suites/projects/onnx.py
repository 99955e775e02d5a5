"""ONNX: its operator `RotaryEmbedding`, in the reference implementation."""

from posenc_suites import Project, replace

PROJECT = Project(
    "onnx/onnx",
    "f7546912001bc31e92a238b17068a21b373d882e",
    "numpy",
    tests=("tests/python/backend_reference_test.py",),
    paths=(),
    options=("-k", "rotary"),
    replaced="`RotaryEmbedding` of `onnx.reference`",
    requires=("onnx", "parameterized"),
)


def shim():
    from onnx.reference.ops import op_rotary_embedding

    from posenc_core import rotate

    def run(self, x, cos, sin, position_ids=None, interleaved=None, rotary_embedding_dim=None, num_heads=None):
        heads = x if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)
        if position_ids is not None:
            cos, sin = cos[position_ids], sin[position_ids]
        rotated = rotate(heads, cos[:, None], sin[:, None], layout="interleaved" if interleaved else "half")
        return (rotated if x.ndim == 4 else rotated.swapaxes(1, 2).reshape(x.shape),)

    replace(op_rotary_embedding.RotaryEmbedding, _run=run)
