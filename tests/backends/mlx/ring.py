"""Average the gradients of a layer in a ring of processes, each with a part of the batch, and print the parameters."""

import json

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from posenc_backends.mlx import MultiHeadAttention
from posenc_core import T5Bias


def gradients(x):
    """Return the gradients of a layer that is the same in each process, by name."""
    mx.random.seed(0)
    layer = MultiHeadAttention(8, 2, position=T5Bias(num_heads=2))
    _, found = nn.value_and_grad(layer, lambda x: (layer(x, x, x, causal=True) ** 2).mean())(x)
    return found


if __name__ == "__main__":
    group = mx.distributed.init(strict=True, backend="ring")
    x = mx.random.normal((4, 5, 8), key=mx.random.key(1))
    own = mx.split(x, group.size())[group.rank()]
    averaged = tree_flatten(nn.average_gradients(gradients(own)))
    print(json.dumps({name: array.tolist() for name, array in averaged}))  # noqa: T201
