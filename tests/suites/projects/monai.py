"""MONAI: sinusoids of two and three axes."""

from posenc_suites import Project, replace

PROJECT = Project(
    "Project-MONAI/MONAI",
    "d388d1c6fec8cb3a0eebee5b5a0b9776ca59ca83",
    "torch",
    tests=("tests/networks/blocks/test_patchembedding.py",),
    options=("-k", "TestPatchEmbeddingBlock"),
    replaced="`build_sincos_position_embedding`",
    requires=("parameterized", "einops"),
)


def shim():
    import torch
    from monai.networks.blocks import pos_embed_utils

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Sinusoidal

    def build_sincos_position_embedding(grid_size, embed_dim, spatial_dims=3, temperature=10000.0):
        if embed_dim % (2 * spatial_dims):
            raise AssertionError(f"Embed dimension must be divisible by {2 * spatial_dims}")
        sizes = (grid_size,) * spatial_dims if isinstance(grid_size, int) else grid_size
        dim = embed_dim // spatial_dims
        layer = PositionalEncoding(dim, encoding=Sinusoidal(dim=dim, convention="concatenated", base=temperature))
        height, width, *depth = (axis.flatten() for axis in torch.meshgrid(*map(torch.arange, sizes), indexing="ij"))
        rows = torch.cat([layer.rows(axis) for axis in (width, height, *depth)], -1)[None]
        return torch.nn.Parameter(rows, requires_grad=False)

    replace(pos_embed_utils, build_sincos_position_embedding=build_sincos_position_embedding)
