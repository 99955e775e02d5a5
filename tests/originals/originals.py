"""How to make and call d2l's layers in each framework."""

import importlib
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from .importing import book


class Original:
    """d2l's layers on one framework; they take arrays of NumPy and give them.

    Attributes:
        framework: the module of d2l.
        epsilon: what the framework's layer normalization adds to the variance.
        odd: the error of a table with an odd number of columns, and what it says.
        lengths: the dtype of lengths that d2l's attention takes.
    """

    framework: ClassVar[str]
    epsilon: ClassVar[float] = 1e-5
    odd: ClassVar[tuple[str, str]]
    lengths: ClassVar[str] = "int32"

    def __init__(self, on):
        self.room, self.harness = on.room, on.harness
        self.book = book(self.framework)

    def native(self, numbers):
        """An array of the framework; None stays."""
        if numbers is None:
            return None
        array = np.asarray(numbers)
        return self.room.from_numpy(array.astype(np.float32 if array.dtype.kind == "f" else np.int32))

    def called(self, layer, *given):
        """What the layer gives."""
        return self.room.to_numpy(layer(*map(self.native, given)))

    def told(self, lengths):
        """Lengths as d2l's attention takes them; None stays."""
        return None if lengths is None else np.asarray(lengths, self.lengths)

    def ready(self, layer, *given):
        """The layer, not in training, with all of its parameters made, as a first call does."""
        self.called(layer, *given)
        return layer

    def table(self, num_hiddens, max_len):
        """The table of a `PositionalEncoding`, `(1, max_len, num_hiddens)`."""
        return np.asarray(self.room.to_numpy(self.book.PositionalEncoding(num_hiddens, 0, max_len).P))

    def added(self, x, max_len):
        """What a `PositionalEncoding` makes of tokens."""
        return self.called(self.book.PositionalEncoding(x.shape[-1], 0, max_len), x)

    def attention(self, num_heads, matrices):
        """A function of queries, keys, values and lengths: a `MultiHeadAttention` with these matrices, inputs × outputs."""
        width = len(matrices["W_o"])
        tokens = np.zeros((1, 1, width))
        layer = self.ready(self.book.MultiHeadAttention(*self.widths(width), num_heads, 0.0), *[tokens] * 3, None)
        self.harness.filled(layer, matrices)
        return lambda *given: self.called(layer, *given[:3], self.told(given[3]))

    def widths(self, width):
        """What the constructors say of the widths, before the number of heads."""
        return (width,)

    def encoder(self, vocabulary, width, ffn, num_heads, num_blks):
        """A `TransformerEncoder`."""
        return self.book.TransformerEncoder(vocabulary, *self.widths(width), ffn, num_heads, num_blks, 0.0)

    def encoded(self, encoder, tokens, lengths):
        """What the encoder makes of tokens, and the numbers that it has."""
        result = self.called(encoder, tokens, self.told(lengths))
        blocks = [
            {name: self.dense(getattr(block.attention, name))[0] for name in ("W_q", "W_k", "W_v", "W_o")}
            | {name: self.dense(getattr(block.ffn, name)) for name in ("dense1", "dense2")}
            for block in encoder.blks
        ]
        return result, self.embedding(encoder.embedding), blocks

    def embedding(self, layer):
        """The rows of an embedding."""
        return self.read(layer.weight)

    def dense(self, layer):
        """The matrix of a linear layer, inputs × outputs, and its bias, if it has one."""
        return self.read(layer.weight).T, None if layer.bias is None else self.read(layer.bias)

    def read(self, parameter):
        return self.room.to_numpy(parameter)

    def ours(self):
        """`PositionalEncoding` and `MultiHeadAttention` of the room, as d2l's encoder asks for its own."""

        def attention(*given):
            *_, width, num_heads, dropout, bias = given
            layer = self.room.MultiHeadAttention(width, num_heads, dropout, bias)
            layer.attention = SimpleNamespace(attention_weights=None)  # the encoder collects them
            return layer

        return {"PositionalEncoding": self.room.PositionalEncoding, "MultiHeadAttention": attention}


class Torch(Original):
    framework = "torch"
    odd = ("RuntimeError", "The expanded size of the tensor")

    def read(self, parameter):
        return parameter.detach().numpy()


class MXNet(Original):
    framework = "mxnet"
    odd = ("MXNetError", "is not broadcastable")
    lengths = "float32"

    def ready(self, layer, *given):
        return super().ready(self.harness.evaluated(layer), *given)

    def encoder(self, *sizes):
        return self.harness.evaluated(super().encoder(*sizes))

    def read(self, parameter):
        return parameter.data().asnumpy()


class Sized(Original):
    """d2l's layers say the widths of keys, queries, values and hidden units, and the encoder the axis that it normalizes."""

    def widths(self, width):
        return (width,) * 4


class TensorFlow(Sized):
    framework = "tensorflow"
    epsilon = 1e-3
    odd = ("ValueError", "could not broadcast")

    def table(self, num_hiddens, max_len):
        return self.book.PositionalEncoding(num_hiddens, 0, max_len).P

    def encoder(self, vocabulary, width, ffn, num_heads, num_blks):
        return self.book.TransformerEncoder(vocabulary, *self.widths(width), -1, ffn, num_heads, num_blks, 0.0)

    def embedding(self, layer):
        return self.read(layer.embeddings)

    def dense(self, layer):
        matrix, *bias = layer.get_weights()
        return matrix, bias[0] if bias else None


class Paddle(Sized):
    framework = "paddle"
    odd = ("ValueError", "shape")
    lengths = "float32"  # of Paddle 3; its page has integers

    def encoder(self, vocabulary, width, ffn, num_heads, num_blks):
        sizes = (*self.widths(width), width, width, ffn)
        return self.book.TransformerEncoder(vocabulary, *sizes, num_heads, num_blks, 0.0)

    def dense(self, layer):
        return self.read(layer.weight), None if layer.bias is None else self.read(layer.bias)


class JAX(Original):
    """Compiled as a whole: one by one, Flax's operations take ten times as long."""

    framework = "jax"
    epsilon = 1e-6
    odd = ("ValueError", "Incompatible types for broadcasting")

    def __init__(self, on):
        for name in ("flax.linen", "optax"):  # before the stand-ins, for which they look too
            importlib.import_module(name)
        super().__init__(on)
        self.jax = importlib.import_module("jax")

    def table(self, num_hiddens, max_len):
        layer = self.book.PositionalEncoding(num_hiddens, 0, max_len)
        tokens = self.native(np.zeros((1, 1, num_hiddens)))
        _, seen = self.jax.jit(partial(layer.apply, {}, mutable="intermediates"))(tokens)
        (table,) = seen["intermediates"]["P"]
        return np.asarray(table)

    def added(self, x, max_len):
        layer = self.book.PositionalEncoding(x.shape[-1], 0, max_len)
        return self.called(partial(layer.apply, {}), x)

    def called(self, layer, *given):
        return super().called(self.jax.jit(layer), *given)

    def attention(self, num_heads, matrices):
        layer = self.book.MultiHeadAttention(len(matrices["W_o"]), num_heads, 0.0)
        parameters = {"params": {name: {"kernel": self.native(matrix)} for name, matrix in matrices.items()}}

        def result(*given):
            attended, _ = layer.apply(parameters, *given)  # and the weights
            return attended

        return lambda *given: self.called(result, *given[:3], self.told(given[3]))

    def encoded(self, encoder, tokens, lengths):
        given = self.native(tokens), self.native(self.told(lengths))
        parameters = self.jax.jit(encoder.init)(self.jax.random.key(0), *given)["params"]
        result = self.jax.jit(encoder.apply)({"params": parameters}, *given)
        blocks = [
            {name: np.asarray(matrix["kernel"]) for name, matrix in block["attention"].items()}
            | {name: (np.asarray(one["kernel"]), np.asarray(one["bias"])) for name, one in block["ffn"].items()}
            for block in (parameters[f"blks_{index}"] for index in range(encoder.num_blks))
        ]
        return self.room.to_numpy(result), np.asarray(parameters["embedding"]["embedding"]), blocks

    def ours(self):
        """Flax would say `training` to layers, and keep the parameters of attention in a tree of its own."""

        def positional(*given):
            layer = self.room.PositionalEncoding(*given)
            return lambda x, training: layer(x)

        return {"PositionalEncoding": positional}


ORIGINALS = {kind.framework: kind for kind in (Torch, MXNet, TensorFlow, Paddle, JAX)}
