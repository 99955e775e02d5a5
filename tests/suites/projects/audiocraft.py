"""AudioCraft: RoPE and XPos, alone and in a model that streams."""

from posenc_suites import Project, replace, skip_init

PROJECT = Project(
    "facebookresearch/audiocraft",
    "896ec7c47f5e5d1e5aa1e4b260c4405328bf009d",
    "torch",
    tests=("tests/modules/test_rope.py",),
    replaced="`RotaryEmbedding`",
    requires=("einops", "xformers"),
)


def prepare():
    skip_init("audiocraft", "audiocraft.modules")  # which import what is not tested here


def shim():
    from audiocraft.modules import rope

    from posenc_backends.torch import RotaryEmbedding
    from posenc_core import Rotary, XPos

    class Layer(rope.RotaryEmbedding):
        def __init__(self, dim, max_period=10000.0, xpos=False, scale=1.0, **options):
            super().__init__(dim, max_period, xpos, scale, **options)
            encoding = (XPos if xpos else Rotary)(head_dim=dim, layout="interleaved", base=max_period)
            self.rope = RotaryEmbedding(encoding)

        def rotate(self, x, start=0, time_dim=1, invert_decay=False):
            if self.scale != 1:
                return super().rotate(x, start, time_dim, invert_decay)
            return self.rope(x, x, start=start, seq_axis=time_dim)[invert_decay]

    replace(rope, RotaryEmbedding=Layer)
