"""How to make and call d2l's layers in each framework."""

import importlib
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .decoder import decoder, flax_decoder
from .importing import book
from .parts import PARTS
from .replacing import replace_layers

MATRICES = ("W_q", "W_k", "W_v", "W_o")


class Encoded(NamedTuple):
    """The result of an encoder, and its parameters.

    Attributes:
        result: shape `(batch, length, width)`.
        embedding: the rows of its embedding.
        blocks: for each block the matrices of attention, and matrix and bias of the two other layers, by name.
        weights: for each block those of attention, `(batch * heads, length, length)`.
    """

    result: Any
    embedding: Any
    blocks: Any
    weights: Any


class Decoded(NamedTuple):
    """The result of a decoder, and its parameters.

    Attributes:
        result: shape `(batch, length, vocabulary)`.
        embedding: the rows of its embedding.
        blocks: for each block the matrices of both attentions, `own` and `across`, and what `Encoded` has.
        last: the matrix and the bias of the last layer.
        weights: for each block those of both attentions, `(batch * heads, length, keys)`.
        held: where its numbers are.
    """

    result: Any
    embedding: Any
    blocks: Any
    last: Any
    weights: Any
    held: Any


class Original:
    """d2l's layers on one framework; they take arrays of NumPy and give them.

    Attributes:
        framework: the module of d2l.
        parts: the parts of a Transformer, as the module has them.
        epsilon: what the framework's layer normalization adds to the variance.
        odd: the error of a table with an odd number of columns, and what it says.
        lengths: the dtype of lengths that d2l's attention takes.
        least: the greatest weight of what d2l hides.
    """

    framework: ClassVar[str]
    epsilon: ClassVar[float] = 1e-5
    odd: ClassVar[tuple[str, str]]
    lengths: ClassVar[str] = "int32"
    least: ClassVar[float] = 0.0

    def __init__(self, on):
        self.backend, self.testing = on.backend, on.testing
        self.book = book(self.framework)
        self.parts = PARTS[self.framework](self.book)

    def replace_layers(self):
        """Return a context in which d2l uses our layers under its names."""
        return replace_layers(self.book, self.framework)

    def to_backend(self, numbers):
        """An array of the framework; None stays."""
        if numbers is None:
            return None
        array = np.asarray(numbers)
        return self.backend.from_numpy(array.astype(np.float32 if array.dtype.kind == "f" else np.int32))

    def called(self, layer, *given):
        """Return the result of the layer."""
        return self.backend.to_numpy(layer(*map(self.to_backend, given)))

    def valid_lens(self, lengths):
        """Lengths as d2l's attention takes them; None stays."""
        return None if lengths is None else np.asarray(lengths, self.lengths)

    def native_lengths(self, lengths):
        """Lengths as an array that d2l's attention takes."""
        return self.to_backend(self.valid_lens(lengths))

    def ready(self, layer, *given):
        """The layer, not in training, with all of its parameters made, as a first call does."""
        self.called(self.testing.eval_mode(layer), *given)
        return layer

    def table(self, num_hiddens, max_len):
        """The table of a `PositionalEncoding`, `(1, max_len, num_hiddens)`."""
        return np.asarray(self.backend.to_numpy(self.book.PositionalEncoding(num_hiddens, 0, max_len).P))

    def added(self, x, max_len):
        """Return the result of a `PositionalEncoding`."""
        return self.called(self.book.PositionalEncoding(x.shape[-1], 0, max_len), x)

    def attention(self, num_heads, matrices):
        """Return a `MultiHeadAttention` with these matrices (inputs × outputs): a function of q, k, v and lengths."""
        width = len(matrices["W_o"])
        tokens = np.zeros((1, 1, width))
        layer = self.ready(self.parts.attention(width, num_heads, 0.5), *[tokens] * 3, None)
        self.testing.with_projections(layer, matrices)
        return lambda *given: self.called(layer, *given[:3], self.valid_lens(given[3]))

    def applied(self, layer, *given):
        """Return the result of a part, not in training, and its parameters."""
        layer = self.testing.eval_mode(layer)
        return layer(*given), layer

    def encoder(self, *sizes):
        """A `TransformerEncoder` of a vocabulary, a width, a feed-forward width, heads, blocks, and dropout."""
        return self.testing.eval_mode(self.parts.encoder(*sizes))

    def drawn(self, table):
        """A table, `(1, length, width)`, as the page draws it: one with columns as curves, one as an image."""
        return table[0].T, table[0][None, None]

    def positions(self, num_hiddens, tokens):
        """Return the result of the page's code, and the table."""
        layer = self.testing.eval_mode(self.book.PositionalEncoding(num_hiddens, 0))
        return layer(self.to_backend(tokens)), layer.P

    def encoded(self, encoder, tokens, lengths):
        """Return the result of the encoder, and its parameters."""
        result, weights, held = self.run(encoder, self.to_backend(tokens), self.native_lengths(lengths))
        blocks = [
            self.matrices(self.part(block, "attention")) | self.ffn(self.part(block, "ffn"))
            for block in self.blocks(held, len(weights))
        ]
        result, *weights = map(self.backend.to_numpy, (result, *weights))
        return Encoded(result, self.embedding(self.part(held, "embedding")), blocks, weights)

    def decoder(self, sizes, arange_like=False):
        """A decoder of the parts, not in training."""
        return self.testing.eval_mode(decoder(self, sizes, arange_like))

    def decoded(self, decoder, sizes, tokens, memory, lengths):
        """Return the result of the decoder, and its parameters."""
        given = self.to_backend(memory), self.native_lengths(lengths), [None] * sizes.num_blks
        (result, _), weights, held = self.run(decoder, self.to_backend(tokens), list(given))
        blocks = [
            self.ffn(self.part(held, f"ffn_{i}"))
            | {"own": self.matrices(self.part(held, f"attention1_{i}"))}
            | {"across": self.matrices(self.part(held, f"attention2_{i}"))}
            for i in range(sizes.num_blks)
        ]
        embedding, last = self.embedding(self.part(held, "embedding")), self.dense(self.part(held, "dense"))
        seen = [tuple(map(self.backend.to_numpy, pair)) for pair in zip(*weights, strict=True)]
        return Decoded(self.backend.to_numpy(result), embedding, blocks, last, seen, held)

    def stepped(self, decoder, held, tokens, state):
        """The logits that follow tokens, and the state after them."""
        return decoder(tokens, state)

    def run(self, module, *given):
        """Return the result of the module, the weights of attention, and its parameters."""
        result = module(*given)
        return result, module.attention_weights, module

    def blocks(self, encoder, count):
        """Return the blocks of an encoder."""
        return list(encoder.blks)

    def part(self, module, name):
        """Return the parameters of a part."""
        return getattr(module, name)

    def matrices(self, attention):
        """The matrices of attention, inputs × outputs."""
        return {name: self.dense(getattr(attention, name))[0] for name in MATRICES}

    def ffn(self, ffn):
        """Matrix and bias of both layers of a feed-forward network."""
        return {name: self.dense(self.part(ffn, name)) for name in ("dense1", "dense2")}

    def embedding(self, layer):
        """The rows of an embedding."""
        return self.read(layer.weight)

    def dense(self, layer):
        """The matrix of a linear layer, inputs × outputs, and its bias, if it has one."""
        return self.read(layer.weight).T, None if layer.bias is None else self.read(layer.bias)

    def read(self, parameter):
        return self.backend.to_numpy(parameter)


class Torch(Original):
    framework = "torch"
    odd = ("RuntimeError", "The expanded size of the tensor")

    def read(self, parameter):
        return parameter.detach().numpy()


class MXNet(Original):
    framework = "mxnet"
    odd = ("MXNetError", "is not broadcastable")
    lengths = "float32"

    def read(self, parameter):
        return parameter.data().asnumpy()


class TensorFlow(Original):
    framework = "tensorflow"
    epsilon = 1e-3
    odd = ("ValueError", "could not broadcast")

    def table(self, num_hiddens, max_len):
        return self.book.PositionalEncoding(num_hiddens, 0, max_len).P

    def drawn(self, table):
        """Of NumPy's arrays; ours is TensorFlow's, and becomes one."""
        return np.asarray(table)[0].T, self.book.tf.expand_dims(self.book.tf.expand_dims(table[0], 0), 0)

    def embedding(self, layer):
        return self.read(layer.embeddings)

    def dense(self, layer):
        matrix, *bias = layer.get_weights()
        return matrix, bias[0] if bias else None


class Paddle(Original):
    framework = "paddle"
    odd = ("ValueError", "shape")
    lengths = "float32"  # of Paddle 3; its page has integers
    least = 1.7e-28  # exp(-64): on the CPU, its softmax takes no greater difference from the greatest score

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
        tokens = self.to_backend(np.zeros((1, 1, num_hiddens)))
        _, seen = self.jax.jit(partial(layer.apply, {}, mutable="intermediates"))(tokens)
        (table,) = seen["intermediates"]["P"]
        return np.asarray(table)

    def added(self, x, max_len):
        layer = self.book.PositionalEncoding(x.shape[-1], 0, max_len)
        return self.called(partial(layer.apply, {}), x)

    def called(self, layer, *given):
        return super().called(self.jax.jit(layer), *given)

    def attention(self, num_heads, matrices):
        layer = self.parts.attention(len(matrices["W_o"]), num_heads, 0.5)
        held = self.run(layer, *[self.to_backend(np.zeros((1, 1, len(matrices["W_o"]))))] * 3, None)[-1]
        parameters = {"params": self.with_projections(held, matrices)}

        def result(*given):
            attended, _ = layer.apply(parameters, *given)  # and the weights
            return attended

        return lambda *given: self.called(result, *given[:3], self.valid_lens(given[3]))

    def positions(self, num_hiddens, tokens):
        layer = self.book.PositionalEncoding(num_hiddens, 0)
        added, seen = layer.apply({}, self.to_backend(tokens), mutable="intermediates")
        (table,) = seen["intermediates"]["P"]
        return added, table

    def applied(self, layer, *given):
        begin = partial(layer.init_with_output, mutable=True)
        result, made = begin(self.jax.random.key(0, impl="rbg"), *given)
        return result, made["params"]

    def decoder(self, sizes, arange_like=False):
        return flax_decoder(self, sizes, arange_like)

    def stepped(self, decoder, held, tokens, state):
        return decoder.apply({"params": held}, tokens, state)

    def run(self, module, *given):
        begin = partial(module.init_with_output, mutable=True)
        result, made = begin(self.jax.random.key(0, impl="rbg"), *given)  # the usual one takes long to compile
        kept = made.get("intermediates", {}).items()
        (weights,) = next((seen for name, seen in kept if "weights" in name), ((),))
        return result, weights, made["params"]

    def blocks(self, encoder, count):
        return [encoder[f"blks_{index}"] for index in range(count)]

    def part(self, module, name):
        return module[name]

    def with_projections(self, attention, matrices):
        """The parameters of an attention layer, of these matrices; those of ours are a layer of ours."""
        if "layer" in attention:
            return {"layer": self.testing.with_projections(attention["layer"], matrices)}
        return {name: {"kernel": self.to_backend(matrix)} for name, matrix in matrices.items()}

    def renamed(self, given, model):
        """The parameters of d2l's model, `given`, as another has them."""
        if "layer" in model and "layer" not in given:
            return self.with_projections(model, self.matrices(given))
        below = {name: self.renamed(part, model[name]) for name, part in given.items() if isinstance(part, dict)}
        return {**given, **below}

    def matrices(self, attention):
        if "layer" in attention:
            return {name: np.asarray(getattr(attention["layer"], name).weight) for name in MATRICES}
        return {name: np.asarray(attention[name]["kernel"]) for name in MATRICES}

    def embedding(self, layer):
        return np.asarray(layer["embedding"])

    def dense(self, layer):
        return np.asarray(layer["kernel"]), np.asarray(layer["bias"])


ORIGINALS = {kind.framework: kind for kind in (Torch, MXNet, TensorFlow, Paddle, JAX)}
