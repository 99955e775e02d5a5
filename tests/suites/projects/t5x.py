"""T5X: the buckets of relative positions of T5."""

from posenc_suites import Project, replace, skip_init

PROJECT = Project(
    "google-research/t5x",
    "cc342d419ec3e3e9c4bf1df33c82330cafdc1e16",
    "jax",
    tests=("t5x/examples/t5/layers_test.py",),
    options=(
        "-k",
        "RelativePositionBiases",
    ),
    replaced="`RelativePositionBiases._relative_position_bucket`",
    requires=("absl-py", "flax"),
)


def prepare():
    skip_init("t5x", "t5x.examples", "t5x.examples.t5")  # which import what is not tested here


def shim():
    from t5x.examples.t5 import layers

    from posenc_core import T5Bias

    def relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
        sides = "both" if bidirectional else "past"
        encoding = T5Bias(num_heads=1, num_buckets=num_buckets, max_distance=max_distance, sides=sides)
        return encoding.bucket_of(relative_position)

    replace(layers.RelativePositionBiases, _relative_position_bucket=staticmethod(relative_position_bucket))
