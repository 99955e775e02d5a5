"""Lightly: the sinusoids of two axes of MAE."""

from posenc_suites import Project, replace

PROJECT = Project(
    "lightly-ai/lightly",
    "e8d317fc5a87f4387a85a35e689869039ec249ee",
    "torch",
    tests=("tests/models/test_ModelUtils.py",),
    options=("-k", "sine_cosine or positional_embedding"),
    replaced="`get_1d_sine_cosine_positional_embedding_from_positions`",
    requires=("torchvision", "pytest-mock", "hydra-core", "lightly-utils"),
)


def shim():
    from lightly.models import utils

    from posenc_core import Sinusoidal

    def get_1d_sine_cosine_positional_embedding_from_positions(embed_dim, pos):
        return Sinusoidal(dim=embed_dim, convention="concatenated").table(pos.reshape(-1))

    replace(
        utils,
        get_1d_sine_cosine_positional_embedding_from_positions=get_1d_sine_cosine_positional_embedding_from_positions,
    )
