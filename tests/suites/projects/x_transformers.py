"""x-transformers: RoPE, ALiBi, the buckets of T5 and sinusoids, inside whole models."""

from posenc_suites import Project, replace

PROJECT = Project(
    "lucidrains/x-transformers",
    "9252ed7838021ee61e6c5be0930b3a9a88efdf06",
    "torch",
    tests=("tests/test_x_transformers.py",),
    options=(
        "-k",
        "rotary or alibi or rel or pos or kv_cache",
    ),
    replaced="`RotaryEmbedding`, `apply_rotary_pos_emb`, `AlibiPositionalBias.forward`, T5's buckets",
    requires=("einx", "loguru", "torch-einops-utils"),
)


def shim():
    import torch
    from x_transformers import x_transformers

    from posenc_backends.torch import AttentionBias, RotaryEmbedding, apply_rotary_transformers
    from posenc_core import Alibi, Linear, Rotary, T5Bias

    class Tables(torch.nn.Module):
        def __init__(
            self, dim, use_xpos=False, scale_base=512, interpolation_factor=1.0, base=10000, base_rescale_factor=1.0
        ):
            super().__init__()
            base *= base_rescale_factor ** (dim / (dim - 2))
            scaling = Linear(factor=interpolation_factor) if interpolation_factor != 1 else None
            self.rope = RotaryEmbedding(Rotary(head_dim=dim, layout="interleaved", base=base, scaling=scaling))

        def forward_from_seq_len(self, seq_len):
            return self(torch.arange(seq_len))

        def forward(self, t, offset=0):
            t = t[None] if t.ndim == 1 else t
            return torch.stack(self.rope.cos_sin(t, columns="channels"), -1), 1.0

    def apply_rotary_pos_emb(t, freqs, scale=1):
        cos, sin = freqs[:, -t.shape[-2] :].unbind(-1)
        rotated = t if t.ndim == 4 else t[:, None]
        dims = cos.shape[-1]
        first = apply_rotary_transformers(
            rotated[..., :dims].contiguous(), None, cos, sin, layout="interleaved", columns="interleaved"
        )[0]
        return torch.cat([first, rotated[..., dims:]], -1).reshape(t.shape)

    theirs = x_transformers.RotaryEmbedding

    def make_rotary(dim, use_xpos=False, *args, **kwargs):
        return (theirs if use_xpos else Tables)(dim, use_xpos, *args, **kwargs)

    their_rotation = x_transformers.apply_rotary_pos_emb

    def rotate(t, freqs, scale=1):
        return (apply_rotary_pos_emb if freqs.ndim == 4 else their_rotation)(t, freqs, scale)

    def alibi(self, i, j):
        slopes = (*self.slopes.flatten().tolist(), *[0.0] * (self.total_heads - self.heads))
        return AttentionBias(Alibi(num_heads=self.total_heads, slopes=slopes)).bias(range(j - i, j), range(j))[0]

    def bucket(relative_position, causal=True, num_buckets=32, max_distance=128):
        sides = "past" if causal else "both"
        encoding = T5Bias(num_heads=1, num_buckets=num_buckets, max_distance=max_distance, sides=sides)
        return torch.from_numpy(encoding.bucket_of(relative_position)).long()

    replace(x_transformers, RotaryEmbedding=make_rotary, apply_rotary_pos_emb=rotate)
    replace(x_transformers.AlibiPositionalBias, forward=alibi)
    replace(x_transformers.RelativePositionBias, _relative_position_bucket=staticmethod(bucket))
