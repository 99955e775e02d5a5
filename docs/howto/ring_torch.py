"""Ring attention: each process has a part of the keys and sends it on."""

import torch
from torch import distributed

from posenc_backends.torch import RotaryEmbedding
from posenc_core import (
    Rotary,
    attend,
    attention_state,
    causal,
    merge_states,
    shard,
)


class SendOn(torch.autograd.Function):
    """Send a tensor to the next process, and its gradient back."""

    @staticmethod
    def forward(ctx, x, to, source):
        ctx.neighbours = to, source
        x = x.contiguous()
        received = torch.empty_like(x)
        sent = distributed.P2POp(distributed.isend, x, to)
        awaited = distributed.P2POp(distributed.irecv, received, source)
        for request in distributed.batch_isend_irecv([sent, awaited]):
            request.wait()
        return received

    @staticmethod
    def backward(ctx, gradient):
        to, source = ctx.neighbours
        return SendOn.apply(gradient, source, to), None, None


def ring_attention(q, k, v, rope, positions):
    """Return attention of this process's queries to the keys of all."""
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    neighbours = (rank + 1) % ranks, (rank - 1) % ranks
    q, k = rope(q, k, positions=positions)
    state, at = None, positions
    for step in range(ranks):
        new = attention_state(q, k, v, mask=causal(positions, at))
        state = new if state is None else merge_states(state, new)
        if step < ranks - 1:
            k, v = SendOn.apply(torch.stack((k, v)), *neighbours)
            at = SendOn.apply(at, *neighbours)
    return state.result


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(0)  # the same tokens in all processes
    rope = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
    q, k, v = (torch.randn(1, 2, 64, 8, requires_grad=True) for _ in "qkv")
    whole = attend(*rope(q, k), v, is_causal=True)
    gradients = torch.autograd.grad(whole.square().sum(), (q, k, v))

    own = shard(torch.arange(64), rank, ranks, order="zigzag")
    mine = [x.detach()[:, :, own].requires_grad_() for x in (q, k, v)]
    result = ring_attention(*mine, rope, own)
    torch.testing.assert_close(result, whole[:, :, own])
    result.square().sum().backward()
    for x, gradient in zip(mine, gradients, strict=True):
        torch.testing.assert_close(x.grad, gradient[:, :, own])
    print(f"rank {rank}: the same")
    distributed.destroy_process_group()
