"""WeNet: the sinusoids of its relative positions."""

from posenc_suites import Project, replace, skip_init

PROJECT = Project(
    "wenet-e2e/wenet",
    "015469960db73eb19c49a48c020d5ac9db69bae5",
    "torch",
    tests=("test/wenet/models/transformer/test_attention.py",),
    options=("-k", "rel_position"),
    replaced="`PositionalEncoding.position_encoding`",
)


def prepare():
    skip_init("wenet", "wenet.models", "wenet.models.transformer", "wenet.utils")


def shim():
    from wenet.models.transformer import embedding

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Sinusoidal

    def position_encoding(self, offset, size, apply_dropout=True):
        layer = PositionalEncoding(self.d_model, encoding=Sinusoidal(dim=self.d_model))
        rows = layer.rows(range(offset, offset + size))[None]
        return self.dropout(rows) if apply_dropout else rows

    replace(embedding.PositionalEncoding, position_encoding=position_encoding)
