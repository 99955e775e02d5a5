"""torch-position-embedding: rows that are learned, looked up, added or appended."""

from posenc_suites import Project, replace

PROJECT = Project(
    "CyberZHG/torch-position-embedding",
    "3eeaad86e0ac3c716349aa123bbb50c76e6824a3",
    "torch",
    tests=("tests/test_position_embedding.py",),
    replaced="`PositionEmbedding`",
)


def shim():
    import torch
    import torch_position_embedding
    from torch_position_embedding import position_embedding

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Learned

    class PositionEmbedding(torch.nn.Module):
        MODE_EXPAND, MODE_ADD, MODE_CONCAT = "MODE_EXPAND", "MODE_ADD", "MODE_CONCAT"

        def __init__(self, num_embeddings, embedding_dim, mode=MODE_ADD):
            super().__init__()
            self.last, self.mode = num_embeddings, mode
            length = 2 * num_embeddings + 1 if mode == self.MODE_EXPAND else num_embeddings
            self.layer = PositionalEncoding(embedding_dim, encoding=Learned(dim=embedding_dim, length=length))
            (self.weight,) = self.layer.parameters()

        def forward(self, x):
            if self.mode == self.MODE_EXPAND:
                return self.layer.rows(x.clamp(-self.last, self.last).long() + self.last)
            if self.mode == self.MODE_ADD:
                return self.layer(x)
            if self.mode == self.MODE_CONCAT:
                rows = self.layer.rows(range(x.shape[1]))
                return torch.cat([x, rows.expand(len(x), -1, -1)], -1)
            raise NotImplementedError(self.mode)

    replace(position_embedding, PositionEmbedding=PositionEmbedding)
    torch_position_embedding.PositionEmbedding = PositionEmbedding
