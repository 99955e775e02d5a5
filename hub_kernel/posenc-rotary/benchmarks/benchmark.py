"""Run by `kernels benchmark`."""

import torch
from kernels.benchmark import Benchmark


class RotaryBenchmark(Benchmark):
    """The rotation of a prompt of 4,096 tokens, with 32 heads of queries and 8 of keys."""

    seed: int = 42

    def setup(self) -> None:
        """Make tokens and tables."""
        self.q, self.k = (
            torch.randn(1, heads, 4096, 128, device=self.device, dtype=torch.bfloat16) for heads in (32, 8)
        )
        angles = torch.rand(1, 4096, 64, device=self.device).repeat(1, 1, 2)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.out = torch.empty_like(self.q)

    def benchmark_base(self) -> None:
        """Call the kernel."""
        self.out, _ = self.kernel.apply_rotary_transformers(self.q, self.k, self.cos, self.sin)

    def verify_base(self) -> torch.Tensor:
        """Return what the operators of transformers give."""
        first, second = self.q.float().chunk(2, -1)
        turned = self.q.float() * self.cos[:, None] + torch.cat((-second, first), -1) * self.sin[:, None]
        return turned.to(self.q.dtype)
