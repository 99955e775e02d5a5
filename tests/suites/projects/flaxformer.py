"""Flaxformer: the buckets of T5, and the tables and the rotation of its Perceiver AR."""

from posenc_suites import Project, replace

PROJECT = Project(
    "google/flaxformer",
    "399ea3a85e9807ada653fd0de1a9de627eb0acde",
    "jax",
    tests=(
        "flaxformer/components/relative_position_biases_test.py",
        "flaxformer/architectures/perceiver_ar/rotary_embedding_test.py",
    ),
    replaced="`RelativePositionBiases._relative_position_bucket`, `generate_fixed_pos_embedding`, "
    "`apply_rotary_embedding` without an offset",
    requires=("absl-py", "chex", "flax"),
)


def shim():
    from flaxformer.architectures.perceiver_ar import rotary_embedding
    from flaxformer.components import embedding, relative_position_biases

    from posenc_backends.jax import RotaryEmbedding
    from posenc_core import Rotary, T5Bias, rotate

    def bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128, computation_module=None):
        sides = "both" if bidirectional else "past"
        encoding = T5Bias(num_heads=1, num_buckets=num_buckets, max_distance=max_distance, sides=sides)
        return encoding.bucket_of(relative_position)

    def generate_fixed_pos_embedding(features, length, min_timescale=1.0, max_timescale=10000.0):
        encoding = Rotary(head_dim=features, layout="half", base=max_timescale / min_timescale)
        cos, sin = RotaryEmbedding(encoding).cos_sin(range(length), columns="channels")
        return sin, cos

    def apply_rotary_embedding(q, k, cos, sin, decode=False, q_position_offset=None, rotary_index=None):
        if q_position_offset is not None:
            return theirs(q, k, cos, sin, decode, q_position_offset, rotary_index)
        cos, sin = (table[:, : table.shape[1] // 2] for table in (cos, sin))
        rows = rotary_index[:, None] if decode and q.shape[1] == 1 and rotary_index is not None else slice(q.shape[1])
        keys = k[:, :, None] if k.ndim == 3 else k
        ours = (
            rotate(x, cos[at][..., None, :], sin[at][..., None, :], layout="half")
            for x, at in ((q, rows), (keys, slice(k.shape[1])))
        )
        return tuple(x.reshape(like.shape) for x, like in zip(ours, (q, k), strict=True))

    theirs = rotary_embedding.apply_rotary_embedding
    replace(relative_position_biases.RelativePositionBiases, _relative_position_bucket=staticmethod(bucket))
    replace(embedding, generate_fixed_pos_embedding=generate_fixed_pos_embedding)
    replace(rotary_embedding, apply_rotary_embedding=apply_rotary_embedding)
