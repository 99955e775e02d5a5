"""OpenNMT-py: both kinds of sinusoids."""

from posenc_suites import Project, replace, skip_init

PROJECT = Project(
    "OpenNMT/OpenNMT-py",
    "97111d97551c24857076a4102eabdb468b35cff4",
    "torch",
    tests=("onmt/tests/test_embeddings.py",),
    replaced="`PositionalEncoding`",
)


def prepare():
    skip_init("onmt", "onmt.modules")  # which import what is not tested here


def shim():
    import torch
    from onmt.modules import embeddings

    from posenc_backends.torch import PositionalEncoding as Layer
    from posenc_core import Sinusoidal

    class PositionalEncoding(torch.nn.Module):
        def __init__(self, dim, enc_type, max_len=5000):
            super().__init__()
            convention = {"SinusoidalInterleaved": "interleaved", "SinusoidalConcat": "tensor2tensor"}[enc_type]
            self.scale = dim**0.5
            self.layer = Layer(dim, max_len=max_len, encoding=Sinusoidal(dim=dim, convention=convention))

        def forward(self, emb, step=None):
            return self.layer(emb * self.scale, start=step or 0)

    replace(embeddings, PositionalEncoding=PositionalEncoding)
