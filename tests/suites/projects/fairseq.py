"""fairseq: RoPE, the sinusoids of relative positions, and those of tensor2tensor."""

from posenc_suites import Project, replace

PROJECT = Project(
    "facebookresearch/fairseq",
    "3d262bb25690e4eb2e7d3c1309b1e9c406ca4b99",
    "torch",
    tests=(
        "tests/test_rotary_positional_embedding.py",
        "tests/test_positional_encoding.py",
        "tests/test_espnet_multihead_attention.py",
    ),
    replaced="`RotaryPositionalEmbedding`, `RelPositionalEncoding`, `SinusoidalPositionalEmbedding.get_embedding`",
    requires=("bitarray", "hydra-core", "omegaconf", "regex", "sacrebleu", "scikit-learn"),
)


def prepare():
    import dataclasses
    from functools import partial
    from unittest import mock

    dataclass = dataclasses.dataclass

    def hashable(cls=None, /, **options):  # Python 3.11 asks it of defaults
        if cls is None:
            return partial(hashable, **options)
        return dataclass(cls, **options | ({"unsafe_hash": True} if cls.__module__.startswith("fairseq") else {}))

    with mock.patch.object(dataclasses, "dataclass", hashable):
        import fairseq.modules  # noqa: F401


def shim():
    import torch
    from fairseq.modules import positional_encoding, rotary_positional_embedding, sinusoidal_positional_embedding

    from posenc_backends.torch import PositionalEncoding, RotaryEmbedding, apply_rotary_transformers
    from posenc_core import Rotary, Sinusoidal

    class RotaryPositionalEmbedding(torch.nn.Module):
        def __init__(self, dim, base=10000, precision=torch.half):
            super().__init__()
            self.rope = RotaryEmbedding(Rotary(head_dim=dim, layout="half", base=base))

        def forward(self, x, seq_len: int = 0):
            cos, sin = self.rope.cos_sin(torch.arange(seq_len, device=x.device), columns="channels")
            return cos[:, None, None], sin[:, None, None]

    def apply_rotary_pos_emb(q, k, cos, sin, offset: int = 0):
        cos, sin = (table[offset : offset + len(q), :, 0].transpose(0, 1) for table in (cos, sin))
        q, k = (x.permute(1, 2, 0, 3) for x in (q, k))
        return tuple(x.permute(2, 0, 1, 3) for x in apply_rotary_transformers(q, k, cos, sin))

    class RelPositionalEncoding(torch.nn.Module):
        def __init__(self, max_len, d_model):
            super().__init__()
            self.layer = PositionalEncoding(d_model, max_len=max_len)
            self.extend_pe(torch.zeros(1, max_len))

        def extend_pe(self, x):
            if not hasattr(self, "pe") or self.pe.shape[1] < 2 * x.shape[1] - 1:
                self.pe = self.layer.rows(range(x.shape[1] - 1, -x.shape[1], -1))[None]

        def forward(self, x):
            return self.layer.rows(range(len(x) - 1, -len(x), -1))[:, None].to(x)

    def get_embedding(num_embeddings, embedding_dim, padding_idx=None):
        layer = PositionalEncoding(embedding_dim, encoding=Sinusoidal(dim=embedding_dim, convention="tensor2tensor"))
        rows = layer.rows(range(num_embeddings))
        if padding_idx is not None:
            rows[padding_idx] = 0
        return rows

    replace(
        rotary_positional_embedding,
        RotaryPositionalEmbedding=RotaryPositionalEmbedding,
        apply_rotary_pos_emb=apply_rotary_pos_emb,
    )
    replace(positional_encoding, RelPositionalEncoding=RelPositionalEncoding)
    replace(sinusoidal_positional_embedding.SinusoidalPositionalEmbedding, get_embedding=staticmethod(get_embedding))
