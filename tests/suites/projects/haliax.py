"""Haliax: the slopes and the bias of ALiBi."""

from posenc_suites import Project, replace

PROJECT = Project(
    "stanford-crfm/haliax",
    "f41e7d40c63dc486b69c5d854270a9158fe3dd39",
    "jax",
    tests=("tests/test_attention.py",),
    paths=("src", "tests"),
    options=("-k", "alibi"),
    replaced="`alibi_attention_bias`",
    requires=("equinox", "jaxtyping", "safetensors", "aqtp"),
)


def shim():
    import haliax
    from haliax.nn import attention

    from posenc_backends.jax import AttentionBias
    from posenc_core import Alibi

    def alibi_attention_bias(Heads, KPos, bias_max=8, dtype="float32"):
        layer = AttentionBias(Alibi(num_heads=Heads.size, max_bias=bias_max))
        last = KPos.size - 1
        bias = layer.bias(range(last, last + 1), range(KPos.size))[..., 0, :]
        slopes = -layer.bias(range(1), range(1, 2))[..., 0, :]
        return haliax.named((bias + last * slopes).reshape(Heads.size, KPos.size), (Heads, KPos)).astype(dtype)

    replace(attention, alibi_attention_bias=alibi_attention_bias)
