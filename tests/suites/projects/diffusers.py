"""diffusers: the sinusoids of time steps."""

from posenc_suites import Project, replace

PROJECT = Project(
    "huggingface/diffusers",
    "58eb52c0803ea9af3abec60841c2a093bdf1f951",
    "torch",
    tests=("tests/models/test_layers_utils.py",),
    options=(
        "-k",
        "EmbeddingsTests",
    ),
    paths=("src",),
    replaced="`get_timestep_embedding`",
    requires=("diffusers", "parameterized"),
)


def shim():
    from diffusers.models import embeddings

    from posenc_backends.torch import PositionalEncoding
    from posenc_core import Timestep

    def get_timestep_embedding(
        timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000
    ):
        encoding = Timestep(
            dim=embedding_dim,
            base=max_period,
            order="cos_first" if flip_sin_to_cos else "sin_first",
            shift=downscale_freq_shift,
            scale=scale,
        )
        return PositionalEncoding(embedding_dim, encoding=encoding).rows(timesteps)

    replace(embeddings, get_timestep_embedding=get_timestep_embedding)
