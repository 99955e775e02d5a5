"""Sockeye: sinusoids and rows that are learned."""

from posenc_suites import Project, replace

PROJECT = Project(
    "awslabs/sockeye",
    "871d9863d6a657d87de1c90f44977c5b70c99c7e",
    "torch",
    tests=("test/unit/test_layers.py", "test/unit/test_transformer.py", "test/unit/test_encoder.py"),
    replaced="`get_positional_embeddings`, `PositionalEmbeddings`",
    requires=("sacrebleu",),
)


def shim():
    import torch
    from sockeye import layers

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Learned, Sinusoidal

    def encoding_of(weight_type, num_embed, max_seq_len):
        if weight_type == "fixed":
            return Sinusoidal(dim=num_embed, convention="concatenated")
        return Learned(dim=num_embed, length=max_seq_len)

    def get_positional_embeddings(length, depth):
        return PositionalEncoding(depth, encoding=encoding_of("fixed", depth, length)).rows(range(length))

    class PositionalEmbeddings(torch.nn.Module):
        def __init__(self, weight_type, num_embed, max_seq_len, scale_up_input, scale_down_positions, dtype=None):
            super().__init__()
            self.layer = PositionalEncoding(num_embed, encoding=encoding_of(weight_type, num_embed, max_seq_len))
            self.last, self.dtype = max_seq_len - 1, dtype
            self.scale = num_embed**0.5 if scale_up_input else 1
            self.factor = num_embed**-0.5 if scale_down_positions and weight_type == "fixed" else 1
            self.weight = next(self.layer.parameters(), None)

        def forward(self, data, steps=None):
            positions = torch.arange(data.shape[1]) if steps is None else steps.clip(max=self.last)
            return data * self.scale + self.layer.rows(positions).to(data) * self.factor

    replace(layers, get_positional_embeddings=get_positional_embeddings, PositionalEmbeddings=PositionalEmbeddings)
