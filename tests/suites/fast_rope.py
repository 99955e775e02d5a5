"""The rotation of MLX by posenc, for the shims of the projects that call it."""


def replace_fast_rope():
    """Put it behind `mx.fast.rope`, which `nn.RoPE` and the layers of models call."""
    import mlx.core as mx
    from posenc_suites import replace

    from posenc_backends.mlx import RotaryEmbedding
    from posenc_core import Linear, Rotary

    theirs = mx.fast.rope

    def rope(a, dims, *, traditional, base=None, scale=1.0, offset=0, freqs=None, stream=None):
        floating = mx.issubdtype(a.dtype, mx.floating)
        if a.ndim < 3 or not floating or (base is None) == (freqs is None):  # which it refuses
            return theirs(a, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)
        encoding = Rotary(
            head_dim=a.shape[-1],
            rotary_dim=dims,
            layout="interleaved" if traditional else "half",
            base=base or 10000,
            frequencies=None if freqs is None else [scale / frequency for frequency in freqs.flatten().tolist()],
            scaling=Linear(factor=1 / scale) if scale != 1 and freqs is None else None,
        )
        return RotaryEmbedding(encoding)(a, start=offset)

    replace(mx.fast, rope=rope)
