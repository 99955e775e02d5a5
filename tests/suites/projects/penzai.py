"""Penzai: RoPE along a named axis, in whole models of the kind of Llama."""

from posenc_suites import Project, replace

PROJECT = Project(
    "google-deepmind/penzai",
    "aac7808a3d1269ea9885094d78d2274d56fc7449",
    "jax",
    tests=("tests/models/transformer_llamalike_test.py",),
    replaced="`ApplyRoPE._apply_1d`",
    requires=("absl-py", "treescope", "jaxtyping"),
)


def shim():
    from penzai.nn import embeddings

    from posenc_backends.jax import RotaryEmbedding
    from posenc_core import Linear, Rotary

    def apply_1d(self, input_slice, position):
        scaling = Linear(factor=self.scale_factor) if self.scale_factor != 1 else None
        encoding = Rotary(head_dim=len(input_slice), layout="half", base=self.max_wavelength, scaling=scaling)
        return RotaryEmbedding(encoding)(input_slice[None], positions=position[None])[0]

    replace(embeddings.ApplyRoPE, _apply_1d=apply_1d)
