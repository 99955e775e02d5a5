"""The parts of a Transformer as d2l and each framework call them."""

from typing import ClassVar


class Parts:
    """Parts as in PyTorch."""

    call: ClassVar[str] = "forward"

    def __init__(self, book):
        self.book = book

    @property
    def nn(self):
        """Return the module of the framework's layers."""
        return self.book.nn

    def mode(self, training):
        """Return the arguments of parts for training or evaluation."""
        return {}

    def encoder(self, *sizes):
        return self.book.TransformerEncoder(*sizes)

    def attention(self, width, num_heads, dropout):
        return self.book.MultiHeadAttention(width, num_heads, dropout)

    def block(self, width, *sizes):
        return self.book.TransformerEncoderBlock(width, *sizes)

    def addnorm(self, width, dropout):
        return self.book.AddNorm(width, dropout)

    def ffn(self, width, hiddens):
        return self.book.PositionWiseFFN(hiddens, width)

    def embedding(self, vocabulary, width):
        return self.nn.Embedding(vocabulary, width)

    def dense(self, width, out):
        return self.nn.Linear(width, out)


class MXNetParts(Parts):
    def addnorm(self, width, dropout):
        return self.book.AddNorm(dropout)

    def dense(self, width, out):
        return self.nn.Dense(out, flatten=False)


class TensorFlowParts(Parts):
    call = "call"

    @property
    def nn(self):
        return self.book.tf.keras.layers

    def mode(self, training):
        return {"training": training}

    def encoder(self, vocabulary, width, *sizes):
        return self.book.TransformerEncoder(vocabulary, width, width, width, width, [2], *sizes)

    def block(self, width, *sizes):
        return self.book.TransformerEncoderBlock(width, width, width, width, [2], *sizes)

    def attention(self, width, num_heads, dropout):
        return self.book.MultiHeadAttention(width, width, width, width, num_heads, dropout)

    def addnorm(self, width, dropout):
        return self.book.AddNorm([2], dropout)

    def dense(self, width, out):
        return self.nn.Dense(out)


class PaddleParts(Parts):
    def encoder(self, vocabulary, width, *sizes):
        return self.book.TransformerEncoder(vocabulary, width, width, width, width, width, width, *sizes)

    def block(self, width, *sizes):
        return self.book.EncoderBlock(width, width, width, width, width, width, *sizes)

    def attention(self, width, num_heads, dropout):
        return self.book.MultiHeadAttention(width, width, width, width, num_heads, dropout)

    def ffn(self, width, hiddens):
        return self.book.PositionWiseFFN(width, hiddens, width)


class JAXParts(Parts):
    call = "__call__"

    def mode(self, training):
        return {"training": training}

    def addnorm(self, width, dropout):
        return self.book.AddNorm(dropout)

    def embedding(self, vocabulary, width):
        return self.nn.Embed(vocabulary, width)

    def dense(self, width, out):
        return self.nn.Dense(out)


PARTS = {"torch": Parts, "mxnet": MXNetParts, "tensorflow": TensorFlowParts, "paddle": PaddleParts, "jax": JAXParts}
