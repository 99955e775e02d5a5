"""Flax: RoPE and sinusoids of its Gemma."""

from posenc_suites import Project, replace

PROJECT = Project(
    "google/flax",
    "18f8f311c275d57f46d95e41b15aa97b454754c0",
    "jax",
    tests=("examples/gemma/positional_embeddings_test.py",),
    paths=("examples/gemma",),
    replaced="`apply_rope`, `add_positional_embedding` of the example Gemma",
    requires=("absl-py",),
)


def shim():
    import positional_embeddings

    from posenc_backends.jax import PositionalEncoding, RotaryEmbedding
    from posenc_core import Linear, Rotary, Sinusoidal

    def apply_rope(inputs, positions, head_dim, max_wavelength=10_000, scale_factor=1.0):
        scaling = Linear(factor=scale_factor) if scale_factor != 1 else None
        encoding = Rotary(head_dim=head_dim, layout="half", base=max_wavelength, scaling=scaling)
        return RotaryEmbedding(encoding)(inputs, positions=positions, seq_axis=1)

    def add_positional_embedding(input_embedding, position, max_wavelength=10_000):
        dim = input_embedding.shape[-1]
        encoding = Sinusoidal(dim=dim, convention="tensor2tensor", base=max_wavelength)
        return input_embedding + PositionalEncoding(dim, encoding=encoding).rows([position])

    replace(positional_embeddings, apply_rope=apply_rope, add_positional_embedding=add_positional_embedding)
