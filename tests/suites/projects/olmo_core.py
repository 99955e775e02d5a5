"""OLMo-core: RoPE in halves and in complex numbers, with its scalings."""

from posenc_suites import Project, replace

PROJECT = Project(
    "allenai/OLMo-core",
    "fa6c5014c9f6e9ee789da2d9c20d5126fee8df0d",
    "torch",
    tests=("src/test/nn/rope_test.py",),
    paths=("src",),
    replaced="`RotaryEmbedding`, `ComplexRotaryEmbedding`",
    requires=("omegaconf", "rich", "cached-path", "bettermap", "importlib-resources"),
)


def shim():
    import torch
    from olmo_core.nn import rope

    from posenc_backends.torch import RotaryEmbedding
    from posenc_core import Linear, Llama3, Rotary, YaRN, from_cu_seqlens

    def scaling_of(config):
        name = type(config).__name__.removesuffix("RoPEScalingConfig")
        if name == "YaRN":
            return YaRN(
                factor=config.factor,
                beta_fast=config.beta_fast,
                beta_slow=config.beta_slow,
                original_len=config.old_context_len,
            )
        if name == "Stepwise":
            return Llama3(
                factor=config.factor,
                low_freq_factor=1 / (1 - config.low_freq_proportion),
                high_freq_factor=1 / config.high_freq_proportion,
                original_len=config.old_context_len,
            )
        return Linear(factor=config.factor) if name == "PI" else None

    class Layer(torch.nn.Module):
        layout = "half"

        def __init__(
            self,
            *,
            head_size,
            theta=500_000,
            full_precision=True,
            cache=None,
            scaling=None,
            partial_rotary_factor=1.0,
        ):
            super().__init__()
            self.full_precision = full_precision
            encoding = Rotary(
                head_dim=head_size,
                rotary_dim=int(head_size * partial_rotary_factor),
                layout=self.layout,
                base=getattr(scaling, "new_theta", theta),
                scaling=scaling_of(scaling),
            )
            self.rope = RotaryEmbedding(encoding)
            self.factor = getattr(scaling, "attention_rescale_factor", 1.0)

        def forward(self, q, k, head_first=True, start_pos=None, cu_doc_lens=None, **_):
            if cu_doc_lens is not None and start_pos is not None:
                raise RuntimeError("'cu_doc_lens' and 'start_pos' are mutually exclusive")
            axis = 2 if head_first else 1
            length = k.shape[axis]
            if cu_doc_lens is not None:
                positions = torch.as_tensor(from_cu_seqlens(cu_doc_lens)).reshape(len(k), length)
                q, k = self.rope(q, k, positions=positions, seq_axis=axis)
            elif start_pos is not None:
                q, k = self.rope(q, k, start=start_pos, seq_axis=axis)
            else:
                q, k = self.rope(q, start=length - q.shape[axis], seq_axis=axis), self.rope(k, seq_axis=axis)
            return q * self.factor, k * self.factor

    class ComplexLayer(Layer):
        layout = "interleaved"

    replace(rope, RotaryEmbedding=Layer, ComplexRotaryEmbedding=ComplexLayer)
