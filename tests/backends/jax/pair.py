"""One of two processes that train a layer on a mesh of both: `python -m tests.backends.jax.pair PORT RANK`."""

import json
import sys

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from posenc_backends.jax import MultiHeadAttention
from posenc_core import LearnedRotary

X = np.random.default_rng(0).normal(size=(4, 6, 16)).astype(np.float32)


def gradients(x):
    """Return the sums of squares of the gradients of a layer, by a program."""
    layer = MultiHeadAttention(16, 2, position=LearnedRotary(head_dim=8, layout="half"), key=jax.random.key(0))

    def loss(layer, x):
        return (layer(x, x, x, causal=True) ** 2).mean()

    found = jax.jit(lambda x: [jnp.sum(g**2) for g in jax.tree.leaves(jax.grad(loss)(layer, x))])(x)
    return [float(each) for each in found]


def main(port, rank):
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(rank))
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), Spec("data"))
    own = X[2 * int(rank) :][:2]
    x = jax.make_array_from_process_local_data(rows, own, X.shape)
    print(json.dumps(gradients(x)))  # noqa: T201


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    main(*sys.argv[1:])
