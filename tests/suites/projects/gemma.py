"""Gemma: RoPE on a proportion of the pairs."""

from posenc_suites import Project, replace

PROJECT = Project(
    "google-deepmind/gemma",
    "7691fd4e7f26c9ec5db38110dddb3addfab4d767",
    "jax",
    tests=("gemma/gm/math/_positional_embeddings_test.py",),
    replaced="`apply_rope`",
    requires=("etils", "jaxtyping", "kauldron"),
)


def shim():
    from gemma import gm
    from gemma.gm.math import _positional_embeddings

    from posenc_backends.jax import RotaryEmbedding
    from posenc_core import Linear, Proportional, Rotary

    def apply_rope(inputs, positions, *, base_frequency, scale_factor=1.0, rope_proportion=1.0):
        scaling = Linear(factor=scale_factor) if scale_factor != 1 else None
        if rope_proportion != 1:
            scaling = Proportional(factor=scale_factor, partial_rotary_factor=rope_proportion)
        encoding = Rotary(head_dim=inputs.shape[-1], layout="half", base=base_frequency, scaling=scaling)
        return RotaryEmbedding(encoding)(inputs, positions=positions, seq_axis=1)

    gm.math  # noqa: B018  # which is imported when it is asked for
    replace(_positional_embeddings, apply_rope=apply_rope)
