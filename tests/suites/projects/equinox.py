"""Equinox: its layer of RoPE, which pairs the two halves."""

from posenc_suites import Project, replace

PROJECT = Project(
    "patrick-kidger/equinox",
    "9336d820b2ef66b360fc6cb3611b3da5cefbb14d",
    "jax",
    tests=("tests/test_nn.py",),
    options=(
        "-k",
        "rope",
    ),
    replaced="`RotaryPositionalEmbedding`",
    requires=("jaxtyping", "wadler-lindig"),
)


def shim():
    import equinox
    import jax.numpy as jnp

    from posenc_backends.jax import RotaryEmbedding
    from posenc_core import Rotary

    theirs = equinox.nn.RotaryPositionalEmbedding

    def precompute_freqs_cis(embedding_size, end, theta, dtype):
        rope = RotaryEmbedding(Rotary(head_dim=embedding_size, layout="half", base=theta))
        return tuple(table.astype(dtype) for table in rope.cos_sin(range(end)))

    def call(self, x, *, key=None):
        if x.shape[-1] != self.embedding_size:
            raise ValueError(f"x.shape[-1] must match self.embedding_size, but {x.shape[-1]} != {self.embedding_size}")
        rope = RotaryEmbedding(Rotary(head_dim=self.embedding_size, layout="half", base=self.theta))
        return rope(x).astype(jnp.result_type(x, jnp.zeros((), self.dtype)))

    replace(theirs, precompute_freqs_cis=staticmethod(precompute_freqs_cis), __call__=call)
