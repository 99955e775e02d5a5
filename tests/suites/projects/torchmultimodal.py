"""TorchMultimodal: sinusoids of time steps, and of two and three axes."""

from posenc_suites import Project, replace

PROJECT = Project(
    "facebookresearch/multimodal",
    "3c2a85a39aafaec6b5b15df9cb05ffe1cbd026aa",
    "torch",
    tests=(
        "tests/modules/layers/test_position_embedding.py",
        "tests/models/masked_auto_encoder/test_position_embeddings.py",
    ),
    replaced="`SinusoidalPositionEmbeddings`, `get_1d_sin_cos_embeddings`",
)


def shim():
    import torch
    from torchmultimodal.models.masked_auto_encoder import position_embeddings
    from torchmultimodal.modules.layers import position_embedding

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Sinusoidal

    class SinusoidalPositionEmbeddings(torch.nn.Module):
        def __init__(self, embed_dim=128):
            super().__init__()
            encoding = Sinusoidal(dim=embed_dim, convention="tensor2tensor")
            self.layer = PositionalEncoding(embed_dim, encoding=encoding)

        def forward(self, t):
            return self.layer.rows(t)

    def get_1d_sin_cos_embeddings(embed_dim, positions):
        encoding = Sinusoidal(dim=embed_dim, convention="concatenated")
        return PositionalEncoding(embed_dim, encoding=encoding).rows(positions)

    replace(position_embedding, SinusoidalPositionEmbeddings=SinusoidalPositionEmbeddings)
    replace(position_embeddings, get_1d_sin_cos_embeddings=get_1d_sin_cos_embeddings)
