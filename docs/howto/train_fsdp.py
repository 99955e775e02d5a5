"""Take a step of training with FSDP, and compare with a single process."""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from posenc_backends.torch import MultiHeadAttention, RotaryEmbedding
from posenc_core import Rotary


class Decoder(nn.Module):
    """Two blocks of attention that share one table."""

    def __init__(self):
        super().__init__()
        rotary = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
        self.blocks = nn.ModuleList(
            [MultiHeadAttention(16, 2, position=rotary) for _ in range(2)]
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x, x, x, causal=True)
        return x


def step(model, tokens):
    """Take a step, and return the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(tokens).square().mean().backward()
    optimizer.step()
    return model


distributed.init_process_group("gloo")  # "nccl" on GPUs
rank, world_size = distributed.get_rank(), distributed.get_world_size()
mesh = init_device_mesh("cpu", (world_size,))

torch.manual_seed(0)  # the same model and the same batch in each process
alone, sharded = Decoder(), Decoder()
sharded.load_state_dict(alone.state_dict())
batch = torch.randn(2 * world_size, 32, 16)

for block in sharded.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(sharded, mesh=mesh)
step(sharded, batch.chunk(world_size)[rank])
step(alone, batch)

pairs = zip(sharded.parameters(), alone.parameters(), strict=True)
for part, whole in pairs:
    torch.testing.assert_close(part.full_tensor(), whole)
print(f"rank {rank}: the same")
distributed.destroy_process_group()
