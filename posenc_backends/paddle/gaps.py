"""What Paddle cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {
        "predicted: LearnedSinusoidal": (
            "With oneDNN, its default on a CPU, Paddle Inference writes the cosine of these angles over their "
            "sine; `Config.disable_mkldnn` helps."
        ),
        "predicted: LearnedRotary": (
            "With oneDNN, its default on a CPU, Paddle Inference writes the cosine of these angles over their "
            "sine; `Config.disable_mkldnn` helps."
        ),
        "cast: MultiHeadAttention, no position, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "cast: MultiHeadAttention, Rotary, head_dim 4, layout half, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "cast: MultiHeadAttention, XPos, head_dim 4, layout interleaved, scale_base 40, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "cast: MultiHeadAttention, Alibi, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "cast: MultiHeadAttention, T5Bias, num_buckets 8, max_distance 6, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "cast: MultiHeadAttention, ShawBias, head_dim 4, max_distance 2, float32": (
            "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, no position, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, Rotary, head_dim 4, layout half, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, XPos, head_dim 4, layout interleaved, scale_base 40, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, Alibi, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, T5Bias, num_buckets 8, max_distance 6, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
        "autocast: MultiHeadAttention, ShawBias, head_dim 4, max_distance 2, float32": (
            "Compiled in half precision on a CPU, Paddle's `Linear` ends the process. "
            "https://github.com/PaddlePaddle/Paddle/issues/78461"
        ),
    },
}
