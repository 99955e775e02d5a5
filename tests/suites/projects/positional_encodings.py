"""positional-encodings: sinusoids of one, two and three axes."""

from posenc_suites import Project, replace

PROJECT = Project(
    "tatp22/multidim-positional-encoding",
    "efeb8d9d70e8184da50eae9fddd1bbda10896529",
    "keras",
    tests=("test_suite.py",),
    replaced="`PositionalEncoding1D`, `PositionalEncoding2D`, `PositionalEncoding3D` of PyTorch",
)


def shim():
    import math

    import torch
    from positional_encodings import torch_encodings

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Sinusoidal

    class Axes(torch.nn.Module):
        def __init__(self, channels, dtype_override=None):
            super().__init__()
            self.org_channels, self.dtype = channels, dtype_override
            dim = 2 * math.ceil(channels / (2 * self.axes))
            self.layer = PositionalEncoding(dim, encoding=Sinusoidal(dim=dim))
            self.cached_penc = None

        def forward(self, x):
            if x.ndim != self.axes + 2:
                raise RuntimeError(f"The input tensor has to be {self.axes + 2}d!")
            if self.cached_penc is not None and self.cached_penc.shape == x.shape:
                return self.cached_penc
            grid = torch.meshgrid(*map(torch.arange, x.shape[1:-1]), indexing="ij")
            rows = torch.cat([self.layer.rows(axis) for axis in grid], -1)[..., : x.shape[-1]]
            self.cached_penc = rows.to(x.device, self.dtype or x.dtype).expand(*x.shape[:-1], -1)
            return self.cached_penc

    replace(
        torch_encodings,
        **{
            f"PositionalEncoding{axes}D": type(f"PositionalEncoding{axes}D", (Axes,), {"axes": axes})
            for axes in (1, 2, 3)
        },
    )
