"""Split a sequence among devices. On a CPU, XLA_FLAGS simulates several."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from posenc_backends.jax import MultiHeadAttention, RotaryEmbedding
from posenc_core import Rotary, shard

ranks = len(jax.devices())
mesh = Mesh(np.array(jax.devices()), ("sequence",))
rotary = Rotary(head_dim=8, layout="half")
tokens = jax.random.normal(jax.random.key(0), (1, 64, 16))

# Under jit the sequence is one array, and positions count through it.
key = jax.random.key(1)
layer = MultiHeadAttention(16, num_heads=2, position=rotary, key=key)
x = jax.device_put(tokens, NamedSharding(mesh, Spec(None, "sequence")))
result = jax.jit(lambda x: layer(x, x, x, causal=True))(x)
whole = layer(tokens, tokens, tokens, causal=True)
np.testing.assert_allclose(result, whole, rtol=0, atol=1e-5)

# In shard_map a function sees its own part, and needs the positions of it.
rope = RotaryEmbedding(rotary)
parts = [
    shard(np.arange(64), rank, ranks, order="zigzag") for rank in range(ranks)
]
order = np.concatenate(parts)
rotate = jax.shard_map(
    lambda q, positions: rope(q, positions=positions),
    mesh=mesh,
    in_specs=(Spec(None, "sequence"), Spec("sequence")),
    out_specs=Spec(None, "sequence"),
)
q = tokens[:, :, :8]
np.testing.assert_allclose(
    rotate(q[:, order], order), rope(q)[:, order], atol=1e-5
)
print(f"{ranks} devices: the same")
