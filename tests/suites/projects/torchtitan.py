"""torchtitan: RoPE of cosines and sines and of complex numbers, with Llama's scaling and YaRN."""

from posenc_suites import Project, replace

PROJECT = Project(
    "pytorch/torchtitan",
    "b5bcd76c66d0acb1a08b176d9639425bc55e0b2a",
    "torch",
    tests=("tests/unit_tests/test_rope.py",),
    replaced="the tables and the rotation of `ComplexRoPE` and `CosSinRoPE`",
    requires=("spmd-types", "torchdata", "datasets", "tyro"),
)


def shim():
    import torch
    from torchtitan.models.common import rope

    from posenc_backends.torch import RotaryEmbedding, apply_rotary_transformers
    from posenc_core import Llama3, Rotary, YaRN, rotate

    def scaling_of(config):
        if config.scaling == "llama":
            return Llama3(
                factor=config.scaling_factor,
                low_freq_factor=config.low_freq_factor,
                high_freq_factor=config.high_freq_factor,
                original_len=config.original_max_position_embeddings,
            )
        if config.scaling == "yarn" and config.rope_factor > 1:
            return YaRN(
                factor=config.rope_factor,
                original_len=config.original_seq_len,
                beta_fast=config.beta_fast,
                beta_slow=config.beta_slow,
                truncate=config.truncate,
                attention_factor=1.0,
            )
        return None

    def tables(config, columns):
        encoding = Rotary(head_dim=config.dim, layout="half", base=config.theta, scaling=scaling_of(config))
        return RotaryEmbedding(encoding).cos_sin(range(config.max_context_length), columns=columns)

    def rotate_complex(query, key, rope_cache):
        cos, sin = rope_cache.real, rope_cache.imag
        return tuple(rotate(x, cos, sin, layout="interleaved") for x in (query, key))

    def rotate_halves(query, key, rope_cache):
        cos, sin = rope_cache.transpose(0, 1).chunk(2, -1)
        rotated = apply_rotary_transformers(query[None], key[None], cos, sin, unsqueeze_dim=2)
        return tuple(x[0] for x in rotated)

    def complex_cache(self):
        return torch.complex(*tables(self.config, "pairs"))

    def cache(self):
        if self.config.scaling == "llama":
            raise NotImplementedError("Cos/sin RoPE does not support Llama scaling.")
        return torch.cat(tables(self.config, "channels"), -1)

    replace(rope.ComplexRoPE, _precompute_cache=complex_cache, apply_rotary_emb=staticmethod(rotate_complex))
    replace(rope.CosSinRoPE, _precompute_cache=cache, apply_rotary_emb=staticmethod(rotate_halves))
