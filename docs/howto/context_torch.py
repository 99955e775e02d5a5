"""Split a sequence between two processes."""

import torch
from torch import distributed

from posenc_backends.torch import MultiHeadAttention
from posenc_core import Rotary, shard


def gathered(x, axis):
    """Return the parts of all processes, concatenated."""
    parts = [torch.empty_like(x) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=axis)


distributed.init_process_group("gloo")
rank, world_size = distributed.get_rank(), distributed.get_world_size()
torch.manual_seed(0)  # the same layer and the same sequence in both
rotary = Rotary(head_dim=8, layout="half")
layer = MultiHeadAttention(16, num_heads=2, position=rotary)
tokens = torch.randn(1, 64, 16)

own = shard(torch.arange(64), rank, world_size, order="zigzag")
x = tokens[:, own]  # the tokens of this process
keys, at = gathered(x, 1), gathered(own, 0)
result = layer(x, keys, keys, positions=own, key_positions=at, causal=True)

whole = layer(tokens, tokens, tokens, causal=True)
torch.testing.assert_close(result, whole[:, own])
print(f"rank {rank}: the same")
distributed.destroy_process_group()
