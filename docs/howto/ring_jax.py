"""Ring attention in `shard_map`: each device has a part of the keys."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

from posenc_backends.jax import RotaryEmbedding
from posenc_core import (
    Rotary,
    attend,
    attention_state,
    causal,
    merge_states,
    shard,
)

ranks = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("ring",))
tokens = Spec(None, None, "ring")


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(tokens,) * 3, out_specs=tokens)
def ring_attention(q, k, v):
    """Return attention of this device's queries to the keys of all."""
    rank = jax.lax.axis_index("ring")
    own = shard(jnp.arange(64), rank, ranks, order="zigzag")
    send = [(each, (each + 1) % ranks) for each in range(ranks)]
    q, k = rope(q, k, positions=own)
    state, at = None, own
    for _ in range(ranks):
        new = attention_state(q, k, v, mask=causal(own, at))
        state = new if state is None else merge_states(state, new)
        k, v, at = (jax.lax.ppermute(x, "ring", send) for x in (k, v, at))
    return state.result


def whole(q, k, v):
    """Return the same on one device."""
    return attend(*rope(q, k), v, is_causal=True)


rope = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=64)
keys = jax.random.split(jax.random.key(0), 3)
qkv = [jax.random.normal(key, (1, 2, 64, 8)) for key in keys]
parts = [shard(np.arange(64), n, ranks, order="zigzag") for n in range(ranks)]
order = np.concatenate(parts)
zigzag = [x[:, :, order] for x in qkv]
np.testing.assert_allclose(
    ring_attention(*zigzag), whole(*qkv)[:, :, order], rtol=0, atol=1e-5
)


def loss(attention, *qkv):
    """Return a number to differentiate."""
    return jnp.sum(attention(*qkv) ** 2)


got = jax.grad(partial(loss, ring_attention), argnums=(0, 1, 2))(*zigzag)
wanted = jax.grad(partial(loss, whole), argnums=(0, 1, 2))(*qkv)
for ours, theirs in zip(got, wanted, strict=True):
    np.testing.assert_allclose(ours, theirs[:, :, order], rtol=0, atol=1e-4)
print(f"{ranks} devices: the same")
