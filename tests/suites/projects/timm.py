"""timm: the rotation of images, and Swin's relative positions, in whole models."""

from posenc_suites import Project, replace

PROJECT = Project(
    "huggingface/pytorch-image-models",
    "aa4b5850c1543fa488abf260f18390eda46cf85d",
    "torch",
    tests=("tests/test_models.py",),
    options=(
        "-k",
        "(backward or forward_features) and (eva02_tiny_patch14_224 or rope_224 or swin_tiny_patch4_window7_224)",
    ),
    replaced="`apply_rot_embed_cat`, `RotaryEmbeddingCat.get_embed`, Swin's `_get_rel_pos_bias`",
    requires=("timm", "torchvision"),
)


def shim():
    import torch
    from timm.layers import pos_embed_sincos
    from timm.models import swin_transformer

    from posenc_backends.torch import AttentionBias, apply_rotary_transformers
    from posenc_core import SwinBias

    def apply_rot_embed_cat(x, emb, half=False):
        sin, cos = (table[None] if table.ndim == 2 else table for table in emb.chunk(2, -1))
        layout = "half" if half else "interleaved"
        return apply_rotary_transformers(x, None, cos, sin, layout=layout, columns=layout)[0]

    def relative_position_bias(self):
        layer = AttentionBias(SwinBias(num_heads=self.num_heads, window=self.window_size))
        tables = {name: self.relative_position_bias_table for name, _ in layer.named_parameters()}
        tokens = range(self.window_area)
        return torch.func.functional_call(layer, tables, (torch.zeros(1, self.num_heads, *[len(tokens)] * 2),))

    replace(pos_embed_sincos, apply_rot_embed_cat=apply_rot_embed_cat)
    replace(swin_transformer.WindowAttention, _get_rel_pos_bias=relative_position_bias)
