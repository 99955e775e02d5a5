"""torchtune: RoPE of text and of images."""

from posenc_suites import Project, replace

PROJECT = Project(
    "meta-pytorch/torchtune",
    "bd2a0fc7c31430972728494fa01aaeeb0ebf1ba1",
    "torch",
    tests=(
        "tests/torchtune/modules/test_position_embeddings.py",
        "tests/torchtune/modules/test_attention.py",
        "tests/torchtune/modules/test_transformer_decoder.py",
        "tests/torchtune/models/llama3_1/test_position_embeddings.py",
        "tests/torchtune/models/phi3/test_phi3_position_embeddings.py",
    ),
    replaced="the four layers of RoPE: Llama, Llama 3.1, Phi-3, images",
    requires=("torchtune", "torchao", "expecttest"),
)


def shim():
    import torch
    from torchtune.models.llama3_1 import _position_embeddings as llama3_1
    from torchtune.models.phi3 import _position_embeddings as phi3
    from torchtune.modules import position_embeddings

    from posenc_backends.torch import RotaryEmbedding
    from posenc_core import AxialRotary, Llama3, Rotary, grid

    class RotaryPositionalEmbeddings(torch.nn.Module):
        layout = "interleaved"

        def __init__(self, dim, max_seq_len=4096, base=10_000, **scaling):
            super().__init__()
            self.max_seq_len = max_seq_len
            self.encoding = Rotary(head_dim=dim, layout=self.layout, base=base, scaling=self.scaling(**scaling))
            self.rope_init()

        def scaling(self):
            return None

        def rope_init(self):
            self.rope = RotaryEmbedding(self.encoding, max_len=self.max_seq_len, seq_axis=1, auto_expand=False)

        def forward(self, x, *, input_pos=None):
            return self.rope(x, positions=input_pos)

    class Llama3ScaledRoPE(RotaryPositionalEmbeddings):
        def scaling(self, scale_factor=8, low_freq_factor=1, high_freq_factor=4, old_context_len=8192):
            return Llama3(
                factor=scale_factor,
                low_freq_factor=low_freq_factor,
                high_freq_factor=high_freq_factor,
                original_len=old_context_len,
            )

    class Phi3RotaryPositionalEmbeddings(RotaryPositionalEmbeddings):
        layout = "half"

    class VisionRotaryPositionalEmbeddings(torch.nn.Module):
        def __init__(self, patch_size, tile_size, dim, base=10_000, append_cls_token=True):
            super().__init__()
            self.base, self.dim = base, dim
            patches = torch.from_numpy(grid(tile_size // patch_size, tile_size // patch_size)).flip(-1) + 1
            cls = torch.zeros(1, 2, dtype=patches.dtype)
            self.positions = torch.cat([patches, cls] if append_cls_token else [cls, patches])
            self.rope_init()

        def rope_init(self):
            encoding = AxialRotary(
                head_dim=self.dim, layout="interleaved", axes_dims=(self.dim // 2,) * 2, base=self.base
            )
            self.rope = RotaryEmbedding(encoding, seq_axis=1)

        def forward(self, x, **_):
            return self.rope(x, positions=self.positions.repeat(x.shape[1] // len(self.positions), 1))

    replace(
        position_embeddings,
        RotaryPositionalEmbeddings=RotaryPositionalEmbeddings,
        VisionRotaryPositionalEmbeddings=VisionRotaryPositionalEmbeddings,
    )
    replace(llama3_1, Llama3ScaledRoPE=Llama3ScaledRoPE)
    replace(phi3, Phi3RotaryPositionalEmbeddings=Phi3RotaryPositionalEmbeddings)
